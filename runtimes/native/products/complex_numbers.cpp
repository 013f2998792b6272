// Absolute values and quotients of many complex numbers, whose parts lie side by side in memory.
//
// The formulas are those of lowering/numerics (hypot, and division as in ISO C99, Annex G.5.1), on
// vectors of real and of imaginary parts. Infinities and NaN in quotients are seen to one by one.
//
// The file stands alone: it is compiled without a C library, and calls nothing.
#include <cstdint>

#include "products.h"
#include "vectors.h"

// A product and a sum are two roundings: z / z is to be exactly 1.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace {

using xpr::at_most;
using xpr::kWidth;
using xpr::load;
using xpr::store;
using xpr::Vector;

template <typename T>
struct Format;

template <>
struct Format<float> {
  using Integer = int32_t;
  static constexpr int kStored = 23;
  static constexpr Integer kBias = 127, kMostScaled = 250;
  // Beyond these, sizes are scaled before they are squared.
  static constexpr float kHigh = 0x1p60F, kLow = 0x1p-40F, kUp = 0x1p80F, kDown = 0x1p-80F;
  static constexpr float kLeast = 0x1p-126F;
};

template <>
struct Format<double> {
  using Integer = int64_t;
  static constexpr int kStored = 52;
  static constexpr Integer kBias = 1023, kMostScaled = 2040;
  static constexpr double kHigh = 0x1p500, kLow = 0x1p-450, kUp = 0x1p600, kDown = 0x1p-600;
  static constexpr double kLeast = 0x1p-1022;
};

template <typename T>
using Integers = Vector<typename Format<T>::Integer>;

template <typename T>
struct Parts {
  Vector<T> re, im;
};

// The parts of as many numbers as a vector has lanes; the lanes' loops become shuffles.
template <typename T>
[[gnu::always_inline]] inline Parts<T> load_parts(const T* from) {
  Parts<T> z;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kWidth<T>; ++i) {
    z.re[i] = from[2 * i];
    z.im[i] = from[2 * i + 1];
  }
  return z;
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define XPR_SHUFFLES
#endif
#endif

#if defined(XPR_SHUFFLES)
template <>
[[gnu::always_inline]] inline Parts<float> load_parts(const float* from) {
  auto a = load(from), b = load(from + kWidth<float>);
#if XPR_VECTOR_BYTES == 64
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
#else
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
#endif
}

template <>
[[gnu::always_inline]] inline Parts<double> load_parts(const double* from) {
  auto a = load(from), b = load(from + kWidth<double>);
#if XPR_VECTOR_BYTES == 64
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
#else
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7)};
#endif
}
#endif

template <typename T>
[[gnu::always_inline]] inline void store_parts(T* to, Parts<T> z) {
#pragma GCC unroll 16
  for (int64_t i = 0; i < kWidth<T>; ++i) {
    to[2 * i] = z.re[i];
    to[2 * i + 1] = z.im[i];
  }
}

#if defined(XPR_SHUFFLES)
template <>
[[gnu::always_inline]] inline void store_parts(float* to, Parts<float> z) {
#if XPR_VECTOR_BYTES == 64
  store(to, __builtin_shufflevector(z.re, z.im, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                    23));
  store(to + 16, __builtin_shufflevector(z.re, z.im, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                         14, 30, 15, 31));
#else
  store(to, __builtin_shufflevector(z.re, z.im, 0, 8, 1, 9, 2, 10, 3, 11));
  store(to + 8, __builtin_shufflevector(z.re, z.im, 4, 12, 5, 13, 6, 14, 7, 15));
#endif
}

template <>
[[gnu::always_inline]] inline void store_parts(double* to, Parts<double> z) {
#if XPR_VECTOR_BYTES == 64
  store(to, __builtin_shufflevector(z.re, z.im, 0, 8, 1, 9, 2, 10, 3, 11));
  store(to + 8, __builtin_shufflevector(z.re, z.im, 4, 12, 5, 13, 6, 14, 7, 15));
#else
  store(to, __builtin_shufflevector(z.re, z.im, 0, 4, 1, 5));
  store(to + 4, __builtin_shufflevector(z.re, z.im, 2, 6, 3, 7));
#endif
}
#endif

// ---- vectors

template <typename T>
[[gnu::always_inline]] inline Integers<T> bits(Vector<T> x) {
  return reinterpret_cast<Integers<T>>(x);
}

template <typename T>
[[gnu::always_inline]] inline Vector<T> magnitude(Vector<T> x) {
  auto mask = ~(typename Format<T>::Integer{1} << (8 * sizeof(T) - 1));
  return reinterpret_cast<Vector<T>>(bits<T>(x) & mask);
}

// The greater one; NaN if either is.
template <typename T>
[[gnu::always_inline]] inline Vector<T> greater(Vector<T> x, Vector<T> y) {
  return x > y ? x : (y >= x ? y : x + y);
}

template <typename T>
[[gnu::always_inline]] inline Vector<T> power_of_two(Integers<T> k) {
  return reinterpret_cast<Vector<T>>((k + Format<T>::kBias) << Format<T>::kStored);
}

// The power of two that brings a size near 1: 0 for zeros and infinities.
template <typename T>
[[gnu::always_inline]] inline Integers<T> exponent_to_one(Vector<T> size) {
  using F = Format<T>;
  Integers<T> k = F::kBias - (bits<T>(size) >> F::kStored), least = Integers<T>{} + 2 - F::kBias;
  k = k < least ? least : k;
  Vector<T> infinity = Vector<T>{} + static_cast<T>(__builtin_inff());
  return (size >= F::kLeast) & (size < infinity) ? k : Integers<T>{};
}

template <typename T>
[[gnu::always_inline]] inline Vector<T> absolute(Parts<T> z) {
  using F = Format<T>;
  Vector<T> ax = magnitude<T>(z.re), ay = magnitude<T>(z.im);
  Vector<T> most = greater<T>(ax, ay), least = ax > ay ? ay : ax;
  Vector<T> one = Vector<T>{} + T(1), up = Vector<T>{} + F::kUp, down = Vector<T>{} + F::kDown;
  auto high = most > F::kHigh, low = most < F::kLow;
  Vector<T> factor = high ? down : (low ? up : one), back = high ? up : (low ? down : one);
  most *= factor;
  least *= factor;
  Vector<T> square = most * most + least * least;
  Vector<T> root;
  for (int64_t i = 0; i < kWidth<T>; ++i) {
    root[i] = sizeof(T) == 4 ? T(__builtin_sqrtf(float(square[i]))) : T(__builtin_sqrt(square[i]));
  }
  Vector<T> infinity = Vector<T>{} + static_cast<T>(__builtin_inff());
  return (ax == infinity) | (ay == infinity) ? infinity : root * back;
}

// ---- quotients

bool is_nan(double x) { return x != x; }
bool is_infinite(double x) { return __builtin_fabs(x) == __builtin_inf(); }
bool is_finite(double x) { return __builtin_fabs(x) < __builtin_inf(); }
double unit(double x) { return __builtin_copysign(is_infinite(x) ? 1.0 : 0.0, x); }

// What C99 makes of a quotient of two NaN parts: infinities and zeros that the formula lost.
template <typename T>
[[gnu::noinline]] void recover(T a, T b, T c, T d, T* quotient) {
  double infinity = __builtin_inf();
  if (c == T(0) && d == T(0)) {
    if (is_nan(a) && is_nan(b)) return;
    double inf = __builtin_copysign(infinity, c);
    // A part of zero gives NaN.
    quotient[0] = static_cast<T>(inf * a);
    quotient[1] = static_cast<T>(inf * b);
  } else if ((is_infinite(a) || is_infinite(b)) && is_finite(c) && is_finite(d)) {
    double ua = unit(a), ub = unit(b);
    quotient[0] = static_cast<T>(infinity * (ua * c + ub * d));
    quotient[1] = static_cast<T>(infinity * (ub * c - ua * d));
  } else if ((is_infinite(c) || is_infinite(d)) && is_finite(a) && is_finite(b)) {
    // The sums of two halves are finite.
    double uc = 0.5 * unit(c), ud = 0.5 * unit(d);
    quotient[0] = static_cast<T>(0.0 * (a * uc + b * ud));
    quotient[1] = static_cast<T>(0.0 * (b * uc - a * ud));
  }
}

template <typename T>
[[gnu::always_inline]] inline Parts<T> quotient(Parts<T> z, Parts<T> w) {
  using F = Format<T>;
  Integers<T> up = exponent_to_one<T>(greater<T>(magnitude<T>(z.re), magnitude<T>(z.im)));
  Integers<T> down = exponent_to_one<T>(greater<T>(magnitude<T>(w.re), magnitude<T>(w.im)));
  Vector<T> by = power_of_two<T>(up), of = power_of_two<T>(down);
  Vector<T> a = z.re * by, b = z.im * by, c = w.re * of, d = w.im * of;
  Vector<T> square = c * c + d * d;
  Vector<T> x = (a * c + b * d) / square, y = (b * c - a * d) / square;
  Integers<T> most = Integers<T>{} + F::kMostScaled, k = down - up;
  k = k < -most ? -most : k;
  k = k > most ? most : k;
  Integers<T> half = k >> 1;
  Vector<T> first = power_of_two<T>(half), second = power_of_two<T>(k - half);
  return {x * first * second, y * first * second};
}

template <typename T>
[[gnu::always_inline]] inline bool any(Integers<T> mask) {
  typename Format<T>::Integer found = 0;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kWidth<T>; ++i) found |= mask[i];
  return found != 0;
}

// One operand, which may be one number for all.
template <typename T>
struct Numbers {
  const T* data;
  int64_t step;

  [[gnu::always_inline]] Parts<T> at(int64_t i) const {
    if (step != 0) return load_parts<T>(data + 2 * i);
    return {Vector<T>{} + data[0], Vector<T>{} + data[1]};
  }
};

template <typename T>
void divide(Numbers<T> z, Numbers<T> w, T* out, int64_t first, int64_t last) {
  auto some = [&](Parts<T> one, Parts<T> other, T* to) {
    Parts<T> q = quotient<T>(one, other);
    store_parts<T>(to, q);
    auto failed = (q.re != q.re) & (q.im != q.im);
    if (any<T>(failed)) [[unlikely]] {
      for (int64_t i = 0; i < kWidth<T>; ++i) {
        if (failed[i]) recover<T>(one.re[i], one.im[i], other.re[i], other.im[i], to + 2 * i);
      }
    }
  };
  int64_t i = first;
  for (; i + kWidth<T> <= last; i += kWidth<T>) some(z.at(i), w.at(i), out + 2 * i);
  if (i == last) return;
  // The last ones, in vectors of their own.
  T one[2 * kWidth<T>], other[2 * kWidth<T>], found[2 * kWidth<T>];
  for (int64_t j = 0; j < 2 * kWidth<T>; ++j) {
    int64_t at = at_most(i + j / 2, last - 1);
    one[j] = z.data[2 * at * z.step + j % 2];
    other[j] = w.data[2 * at * w.step + j % 2];
  }
  some(load_parts<T>(one), load_parts<T>(other), found);
  for (int64_t j = 0; j < 2 * (last - i); ++j) out[2 * i + j] = found[j];
}

template <typename T>
void absolutes(const T* z, T* out, int64_t first, int64_t last) {
  int64_t i = first;
  for (; i + kWidth<T> <= last; i += kWidth<T>) store(out + i, absolute<T>(load_parts<T>(z + 2 * i)));
  if (i == last) return;
  T some[2 * kWidth<T>];
  for (int64_t j = 0; j < 2 * kWidth<T>; ++j) {
    some[j] = i + j / 2 < last ? z[2 * i + j] : T(0);
  }
  T found[kWidth<T>];
  store(found, absolute<T>(load_parts<T>(some)));
  for (int64_t j = 0; j < last - i; ++j) out[i + j] = found[j];
}

}  // namespace

#define XPR_COMPLEX_NUMBERS(T, type)                                                              \
  void XPR_NAME(complex_absolute_##type)(const T* z, T* out, int32_t count, int32_t block,        \
                                         int64_t x, int64_t, int64_t) {                           \
    absolutes<T>(z, out, x * block, at_most(count, (x + 1) * block));                             \
  }                                                                                               \
  void XPR_NAME(complex_divide_##type)(const T* z, const T* w, T* out, int32_t count,             \
                                       int32_t z_step, int32_t w_step, int32_t block, int64_t x,  \
                                       int64_t, int64_t) {                                        \
    divide<T>({z, z_step}, {w, w_step}, out, x * block, at_most(count, (x + 1) * block));         \
  }

XPR_COMPLEX_NUMBERS(float, f32)
XPR_COMPLEX_NUMBERS(double, f64)
