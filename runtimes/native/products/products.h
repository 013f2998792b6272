// The functions of the kernels' files, whose names end in the kind of processor that they are for.
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

// A few rows and a matrix, and parts of sums. m, n and k, the strides of the rows (free, depth,
// batch) and of the matrix (depth, batch); columns of a block, depth of a part, and parts.
template <typename T>
using Sums = void(const T*, const T*, T*, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t,
                  int32_t, int32_t, int32_t, int32_t, int32_t, int64_t, int64_t, int64_t);

// Parts and their sum. m, n and how many parts, the strides of the result, columns of a block.
template <typename T>
using Total = void(const T*, T*, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int64_t,
                   int64_t, int64_t);

// A few rows, rows of a matrix, the result. m, n and k, the strides of both operands (free, batch)
// and of the result, rows of the matrix in a block.
template <typename T>
using Dots = void(const T*, const T*, T*, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t,
                  int32_t, int32_t, int32_t, int32_t, int64_t, int64_t, int64_t);

// Taps and panels of them: taps times input features of a group, output features, groups, and the
// output features of a panel.
template <typename T>
using PackTaps = void(const T*, T*, int32_t, int32_t, int32_t, int32_t, int64_t, int64_t, int64_t);

// The operand, panels of taps, the result: images, rows, columns and features of the result, groups
// and the input features of each, rows and columns of taps; how far apart windows are in the operand
// along images, rows and columns, and taps along rows and columns; features of a panel; panels and
// pixels of a block.
template <typename T>
using Convolve = void(const T*, const T*, T*, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t,
                      int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t,
                      int32_t, int32_t, int64_t, int64_t, int64_t);

// Complex numbers and their absolute values: how many, and how many in a block.
template <typename T>
using Absolutes = void(const T*, T*, int32_t, int32_t, int64_t, int64_t, int64_t);

// Complex numbers, what they are divided by, quotients: how many, whether each operand has as many
// (1) or one for all (0), and how many in a block.
template <typename T>
using Quotients = void(const T*, const T*, T*, int32_t, int32_t, int32_t, int32_t, int64_t, int64_t,
                       int64_t);

// Matrices and their factors: rows, how many matrices, and how many in a block.
template <typename T>
using Factors = void(const T*, T*, int32_t, int32_t, int32_t, int64_t, int64_t, int64_t);

extern "C" {
[[gnu::visibility("hidden")]] Pack<float> XPR_NAME(pack_f32);
[[gnu::visibility("hidden")]] Pack<double> XPR_NAME(pack_f64);
[[gnu::visibility("hidden")]] Product<float> XPR_NAME(product_f32);
[[gnu::visibility("hidden")]] Product<double> XPR_NAME(product_f64);
[[gnu::visibility("hidden")]] Sums<float> XPR_NAME(sums_f32);
[[gnu::visibility("hidden")]] Sums<double> XPR_NAME(sums_f64);
[[gnu::visibility("hidden")]] Total<float> XPR_NAME(total_f32);
[[gnu::visibility("hidden")]] Total<double> XPR_NAME(total_f64);
[[gnu::visibility("hidden")]] Dots<float> XPR_NAME(dots_f32);
[[gnu::visibility("hidden")]] Dots<double> XPR_NAME(dots_f64);
[[gnu::visibility("hidden")]] PackTaps<float> XPR_NAME(pack_taps_f32);
[[gnu::visibility("hidden")]] PackTaps<double> XPR_NAME(pack_taps_f64);
[[gnu::visibility("hidden")]] Convolve<float> XPR_NAME(convolve_f32);
[[gnu::visibility("hidden")]] Convolve<double> XPR_NAME(convolve_f64);
[[gnu::visibility("hidden")]] Absolutes<float> XPR_NAME(complex_absolute_f32);
[[gnu::visibility("hidden")]] Absolutes<double> XPR_NAME(complex_absolute_f64);
[[gnu::visibility("hidden")]] Quotients<float> XPR_NAME(complex_divide_f32);
[[gnu::visibility("hidden")]] Quotients<double> XPR_NAME(complex_divide_f64);
[[gnu::visibility("hidden")]] Factors<float> XPR_NAME(cholesky_f32);
[[gnu::visibility("hidden")]] Factors<double> XPR_NAME(cholesky_f64);
}
