// Stacks of matrices, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace xpr {

void bind_stacks(nanobind::module_& module);

}  // namespace xpr
