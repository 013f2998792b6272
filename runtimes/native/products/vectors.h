// Vectors of the processor that a kernel is compiled for, and what its loops share.
#pragma once

#include <cstdint>

#if defined(__AVX512F__)
#define XPR_VECTOR_BYTES 64
#else
#define XPR_VECTOR_BYTES 32
#endif

namespace xpr {

template <typename T>
inline constexpr int64_t kWidth = XPR_VECTOR_BYTES / sizeof(T);

template <typename T>
struct VectorOf {
  using Vector [[gnu::vector_size(XPR_VECTOR_BYTES)]] = T;
  // The same at any address.
  using Loose [[gnu::vector_size(XPR_VECTOR_BYTES), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
};

template <typename T>
using Vector = typename VectorOf<T>::Vector;
template <typename T>
using Loose = typename VectorOf<T>::Loose;

template <typename T>
[[gnu::always_inline]] inline Vector<T> load(const T* from) {
  return *reinterpret_cast<const Loose<T>*>(from);
}

template <typename T>
[[gnu::always_inline]] inline void store(T* to, Vector<T> values) {
  *reinterpret_cast<Loose<T>*>(to) = values;
}

constexpr int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t groups_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

}  // namespace xpr
