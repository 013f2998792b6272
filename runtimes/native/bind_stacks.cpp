#include "bind_stacks.h"

#include <nanobind/stl/tuple.h>

#include <tuple>
#include <vector>

#include "stack_call.h"

namespace nb = nanobind;

namespace xpr {
namespace {

// `function` is what SciPy hands out of LAPACK and BLAS for other compiled code.
void call(nb::capsule function, nb::list given, uint64_t count, uint64_t chunk, bool parallel) {
  void* address = PyCapsule_GetPointer(function.ptr(), PyCapsule_GetName(function.ptr()));
  if (address == nullptr) throw nb::python_error();
  std::vector<StackArgument> arguments;
  arguments.reserve(given.size());
  for (nb::handle one : given) {
    auto [first, per_matrix, per_chunk] =
        nb::cast<std::tuple<uintptr_t, ptrdiff_t, ptrdiff_t>>(one);
    arguments.push_back({reinterpret_cast<char*>(first), per_matrix, per_chunk});
  }
  const nb::gil_scoped_release others_may_run;
  call_over_stack(address, arguments, count, chunk, parallel);
}

}  // namespace

void bind_stacks(nb::module_& module) {
  module.def("call_over_stack", &call, nb::arg("function"), nb::arg("arguments"), nb::arg("count"),
             nb::arg("chunk"), nb::arg("parallel"),
             "Calls a function of LAPACK for each matrix of a stack. The arguments are triples: an "
             "address, and how far it moves with each matrix and with each chunk.");
}

}  // namespace xpr
