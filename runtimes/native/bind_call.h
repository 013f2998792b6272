// The call path of jitted functions.
#pragma once

#include <nanobind/nanobind.h>

namespace xpr {

void bind_call(nanobind::module_& module);

}  // namespace xpr
