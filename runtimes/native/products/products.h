// The functions of products.cpp, whose names end in the kind of processor that they are for.
//
// They take operands, results, sizes, and then the place of the workgroup along three axes.
#pragma once

#include <cstdint>

#if defined(__AVX512F__)
#define XPR_NAME(kernel, type) xpr_##kernel##_##type##_avx512
#elif defined(__AVX2__)
#define XPR_NAME(kernel, type) xpr_##kernel##_##type##_avx2
#else
#error "there are no kernels for this processor"
#endif

#define XPR_DECLARE(type, T)                                                                     \
  extern "C" [[gnu::visibility("hidden")]] void XPR_NAME(pack, type)(                            \
      const T* a, const T* b, T* packed_a, T* packed_b, int32_t m, int32_t n, int32_t k,         \
      int32_t a_free_stride, int32_t a_depth_stride, int32_t a_batch_stride,                     \
      int32_t b_free_stride, int32_t b_depth_stride, int32_t b_batch_stride, int64_t x, int64_t, \
      int64_t z);                                                                                \
  extern "C" [[gnu::visibility("hidden")]] void XPR_NAME(product, type)(                         \
      const T* a, const T* b, T* c, int32_t m, int32_t n, int32_t k, int32_t block_rows,         \
      int32_t block_columns, int64_t x, int64_t y, int64_t z);

XPR_DECLARE(f32, float)
XPR_DECLARE(f64, double)
