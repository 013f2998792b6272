// The functions of products.cpp, whose names end in the kind of processor that they are for.
//
// They take operands, results, sizes, and then the place of the workgroup along three axes.
#pragma once

#include <cstdint>

#if defined(__AVX512F__)
#define XPR_NAME(kernel) xpr_##kernel##_avx512
#elif defined(__AVX2__)
#define XPR_NAME(kernel) xpr_##kernel##_avx2
#else
#error "there are no kernels for this processor"
#endif

// Operands and panels of them, m, n and k, the strides of both operands along their free axis, the
// contracted one and the batch's, and the place.
template <typename T>
using Pack = void(const T*, const T*, T*, T*, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t,
                  int32_t, int32_t, int32_t, int64_t, int64_t, int64_t);

// Panels and the result, m, n and k, the rows and columns of a block, and the place.
template <typename T>
using Product = void(const T*, const T*, T*, int32_t, int32_t, int32_t, int32_t, int32_t, int64_t,
                     int64_t, int64_t);

extern "C" {
[[gnu::visibility("hidden")]] Pack<float> XPR_NAME(pack_f32);
[[gnu::visibility("hidden")]] Pack<double> XPR_NAME(pack_f64);
[[gnu::visibility("hidden")]] Product<float> XPR_NAME(product_f32);
[[gnu::visibility("hidden")]] Product<double> XPR_NAME(product_f64);
}
