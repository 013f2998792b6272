// Operations outside of programs, by their reference rules.
#pragma once

#include <nanobind/nanobind.h>

namespace xpr {

void bind_apply(nanobind::module_& module);

}  // namespace xpr
