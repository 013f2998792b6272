// The kernels as a library of IREE's, with which programs whose other dispatches
// are kept, or have none, are put together without LLVM.
#include "products.h"

#define XPR_LIBRARY "xpr_products"
#define XPR_KERNELS(DO)                                                                            \
  DO(pack_f32)                                                                                     \
  DO(product_f32) DO(pack_f64) DO(product_f64) DO(sums_f32) DO(sums_f64) DO(total_f32)             \
      DO(total_f64) DO(dots_f32) DO(dots_f64) DO(pack_taps_f32) DO(pack_taps_f64) DO(convolve_f32) \
          DO(convolve_f64) DO(complex_absolute_f32) DO(complex_absolute_f64)                       \
              DO(complex_divide_f32) DO(complex_divide_f64) DO(cholesky_f32) DO(cholesky_f64)

#include "library.h"
