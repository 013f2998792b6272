// Cholesky factors of matrices so small that a call of LAPACK, by way of Python, takes longer than
// the factor.
//
// The file stands alone: it is compiled without a C library, and calls nothing.
#include <cstdint>

#include "products.h"
#include "vectors.h"

namespace {

using xpr::at_most;
using xpr::kWidth;
using xpr::load;
using xpr::store;
using xpr::Vector;

constexpr int64_t kMostSide = 64;

template <typename T>
T root(T x) {
  return sizeof(T) == 4 ? static_cast<T>(__builtin_sqrtf(static_cast<float>(x)))
                        : static_cast<T>(__builtin_sqrt(static_cast<double>(x)));
}

// row -= factor * other
template <typename T>
[[gnu::always_inline]] inline void subtract(T* row, T factor, const T* other, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth<T> <= count; i += kWidth<T>) {
    store(row + i, load(row + i) - factor * load(other + i));
  }
  for (; i < count; ++i) row[i] -= factor * other[i];
}

// The lower factor of the matrix whose lower triangle is `x`; NaN where there is none.
template <typename T>
void cholesky(const T* x, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) out[i * n + j] = j <= i ? x[i * n + j] : T(0);
  }
  T column[kMostSide];
  for (int64_t j = 0; j < n; ++j) {
    T square = out[j * n + j];
    if (!(square > T(0))) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t k = 0; k <= i; ++k) out[i * n + k] = static_cast<T>(__builtin_nanf(""));
      }
      return;
    }
    T pivot = root(square), inverse = T(1) / pivot;
    out[j * n + j] = pivot;
    for (int64_t i = j + 1; i < n; ++i) column[i] = out[i * n + j] *= inverse;
    for (int64_t i = j + 1; i < n; ++i) {
      subtract(out + i * n + j + 1, column[i], column + j + 1, i - j);
    }
  }
}

template <typename T>
void all(const T* x, T* out, int64_t n, int64_t count, int64_t block, int64_t group) {
  int64_t last = at_most(count, (group + 1) * block);
  for (int64_t i = group * block; i < last; ++i) cholesky(x + i * n * n, out + i * n * n, n);
}

}  // namespace

void XPR_NAME(cholesky_f32)(const float* x, float* out, int32_t n, int32_t count, int32_t block,
                            int64_t group, int64_t, int64_t) {
  all(x, out, n, count, block, group);
}

void XPR_NAME(cholesky_f64)(const double* x, double* out, int32_t n, int32_t count, int32_t block,
                            int64_t group, int64_t, int64_t) {
  all(x, out, n, count, block, group);
}
