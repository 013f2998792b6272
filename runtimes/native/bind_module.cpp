// The extension module xpr.runtimes._native.
#define XPR_IMPORTS_NUMPY
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "bind_apply.h"
#include "bind_call.h"
#include "bind_devices.h"
#include "bind_operators.h"
#include "bind_stacks.h"
#include "block_object.h"
#include "build_info.h"
#include "numpy_arrays.h"

namespace nb = nanobind;

NB_MODULE(_native, module) {
  if (_import_array() < 0) throw nb::python_error();
  nb::set_leak_warnings(false);  // daemon threads of a process that ends may hold anything
  module.attr("interface") = xpr::kInterface;
  module.def("build_info", &xpr::build_info, "The compiler and processor of this build.");
  xpr::bind_arrays(module);
  xpr::bind_call(module);
  xpr::bind_devices(module);
  xpr::bind_operators(module);
  xpr::bind_apply(module);
  xpr::bind_blocks(module);
  xpr::bind_programs(module);
  xpr::bind_stacks(module);
}
