// Operators on single arrays, outside of compiled programs.
#pragma once

#include <nanobind/nanobind.h>

namespace xpr {

void bind_operators(nanobind::module_& module);

}  // namespace xpr
