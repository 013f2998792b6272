// The extension module xpr.runtimes._native.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "build_info.h"

namespace nb = nanobind;

NB_MODULE(_native, module) {
  module.attr("interface") = xpr::kInterface;
  module.def("build_info", &xpr::build_info, "The compiler and processor of this build.");
}
