#include "bind_stacks.h"

#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>
#include <vector>

#include "ended_threads.h"
#include "small_matrices.h"
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
  const LockReleased others_may_run;
  call_over_stack(address, arguments, count, chunk, parallel);
}

template <typename T>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

template <typename T>
void factor(uintptr_t x, uintptr_t factors, uintptr_t pivots, uintptr_t order, uint64_t count,
            int m, int n, bool parallel) {
  const LockReleased others_may_run;
  factor_small<T>(at<const T>(x), at<T>(factors), at<int32_t>(pivots), at<int32_t>(order), count, m,
                  n, parallel);
}

template <typename T>
void factor_symmetric(uintptr_t x, uintptr_t factors, uint64_t count, int n, bool parallel) {
  const LockReleased others_may_run;
  factor_small_symmetric<T>(at<const T>(x), at<T>(factors), count, n, parallel);
}

template <typename T>
void solve_triangles(uintptr_t a, uintptr_t b, uintptr_t x, uint64_t count, int n, int width,
                     bool left, bool lower, bool transposed, bool unit, bool parallel) {
  const LockReleased others_may_run;
  solve_small_triangles<T>(at<const T>(a), at<const T>(b), at<T>(x), count, n, width,
                           {left, lower, transposed, unit}, parallel);
}

// For each type a function of its own, with LAPACK's letter in its name.
template <typename T>
void bind_small(nb::module_& module, const std::string& letter) {
  module.def((letter + "_factor_small").c_str(), &factor<T>,
             "LU factors of small matrices, stored by rows at the addresses.");
  module.def((letter + "_factor_small_symmetric").c_str(), &factor_symmetric<T>,
             "Lower Cholesky factors of small matrices, stored by rows at the addresses.");
  module.def((letter + "_solve_small_triangles").c_str(), &solve_triangles<T>,
             "Solutions of small triangular equations, stored by rows at the addresses.");
}

}  // namespace

void bind_stacks(nb::module_& module) {
  module.attr("most_small_side") = kMostSmallSide;
  bind_small<float>(module, "s");
  bind_small<double>(module, "d");
  module.def("call_over_stack", &call, nb::arg("function"), nb::arg("arguments"), nb::arg("count"),
             nb::arg("chunk"), nb::arg("parallel"),
             "Calls a function of LAPACK for each matrix of a stack. The arguments are triples: an "
             "address, and how far it moves with each matrix and with each chunk.");
}

}  // namespace xpr
