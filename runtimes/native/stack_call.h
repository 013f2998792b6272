// Functions of LAPACK and BLAS, called for each matrix of a stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xpr {

// One argument, which Fortran takes by its address. What a matrix of its own has moves on with each
// matrix; what is only written to on the way moves on with each chunk, which one thread computes.
struct StackArgument {
  char* first;
  ptrdiff_t per_matrix;
  ptrdiff_t per_chunk;
};

inline constexpr size_t kMostStackArguments = 18;

// Calls `function` for each of `count` matrices, `chunk` of them in turn by one thread, with the
// usual rules for tiny numbers. `parallel`: other threads of the pool may take chunks.
// Throws std::invalid_argument for more arguments than there may be, or a chunk of nothing.
void call_over_stack(void* function, const std::vector<StackArgument>& arguments, uint64_t count,
                     uint64_t chunk, bool parallel);

}  // namespace xpr
