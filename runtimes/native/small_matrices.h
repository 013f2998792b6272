// Factors of many small matrices: a vector holds one element of several matrices, so that all of
// them take each step together, and none is called for alone.
#pragma once

#include <cstdint>

namespace xpr {

// Matrices with more rows or columns than this are LAPACK's.
inline constexpr int kMostSmallSide = 16;

// All matrices are real (`T` is float or double), stored by rows one behind the other, and no side
// is above `kMostSmallSide`. `parallel`: threads of the pool may take some. What is tiny is not
// flushed to zero, whatever the caller's mode.

// L and U of matrices [m, n] in one matrix, with exchanges of rows: row k was exchanged with
// row `pivots[k]`, and row i of the factors was row `order[i]`. The pivot is the first of the
// greatest elements; a NaN is never chosen before a number that follows it.
template <typename T>
void factor_small(const T* x, T* factors, int32_t* pivots, int32_t* order, uint64_t count, int m,
                  int n, bool parallel);

// The lower Cholesky factors of matrices [n, n], whose lower triangles are read. Where there is
// none, some element on the diagonal is NaN.
template <typename T>
void factor_small_symmetric(const T* x, T* factors, uint64_t count, int n, bool parallel);

struct SmallTriangle {
  bool left;        // op(A) X = B, or X op(A) = B
  bool lower;       // which triangle of A is read
  bool transposed;  // op
  bool unit;        // ones stand for the diagonal, which is not read
};

// X for the triangles `a` [n, n] and B [n, width], or [width, n] on the right side.
template <typename T>
void solve_small_triangles(const T* a, const T* b, T* x, uint64_t count, int n, int width,
                           SmallTriangle triangle, bool parallel);

}  // namespace xpr
