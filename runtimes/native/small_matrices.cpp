#include "small_matrices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernel.h"
#include "thread_pool.h"

// Compiled for several processors, of which the loader takes the one at hand. Sanitizers are not
// ready when it chooses.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define XPR_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define XPR_FOR_EACH_PROCESSOR
#endif
// What is called by such a function must be compiled with it.
#if defined(_MSC_VER)
#define XPR_INLINE __forceinline
#else
#define XPR_INLINE inline __attribute__((always_inline))
#endif

namespace xpr {
namespace {

// As many matrices as fill the widest vectors.
template <typename T>
inline constexpr int kLanes = 64 / sizeof(T);
template <typename T>
using Whole = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

inline constexpr int kMostElements = kMostSmallSide * kMostSmallSide;

// Groups of matrices that one thread takes at a time, at least.
inline constexpr uint64_t kFewestGroups = 8;
inline constexpr uint64_t kPieces = 16;

// One element of as many matrices as there are lanes, for each element: lanes are innermost.
template <typename T>
struct alignas(64) Elements {
  T of[kMostElements][kLanes<T>];
};

// Elements of matrices in memory. The last group has `lanes` matrices; the others of its lanes hold
// the first one, so that no lane computes with what is not there.
template <typename T>
XPR_INLINE void load(const T* matrices, ptrdiff_t matrix, int lanes, ptrdiff_t at, T* to) {
  if (lanes == kLanes<T>) {
    for (int l = 0; l < kLanes<T>; ++l) to[l] = matrices[l * matrix + at];
    return;
  }
  for (int l = 0; l < kLanes<T>; ++l) to[l] = matrices[(l < lanes ? l : 0) * matrix + at];
}

template <typename T, typename To>
XPR_INLINE void store(const T* from, ptrdiff_t matrix, int lanes, ptrdiff_t at, To* matrices) {
  if (lanes == kLanes<T>) {
    for (int l = 0; l < kLanes<T>; ++l) matrices[l * matrix + at] = static_cast<To>(from[l]);
    return;
  }
  for (int l = 0; l < lanes; ++l) matrices[l * matrix + at] = static_cast<To>(from[l]);
}

// x -= y * z
template <typename T>
XPR_INLINE void subtract_product(T* x, const T* y, const T* z) {
  for (int l = 0; l < kLanes<T>; ++l) x[l] -= y[l] * z[l];
}

template <typename T>
XPR_INLINE void divide(T* x, const T* y) {
  for (int l = 0; l < kLanes<T>; ++l) x[l] /= y[l];
}

template <typename T, typename W>
XPR_INLINE void exchange_where(const W* place, W wanted, T* x, T* y) {
  for (int l = 0; l < kLanes<T>; ++l) {
    const bool here = place[l] == wanted;
    const T above = x[l];
    const T below = y[l];
    x[l] = here ? below : above;
    y[l] = here ? above : below;
  }
}

// Golub and Van Loan, "Matrix Computations", 4th edition, 3.4.1: outer products.
template <typename T>
XPR_INLINE void factor(T (*a)[kLanes<T>], Whole<T> (*pivots)[kLanes<T>],
                       Whole<T> (*order)[kLanes<T>], int m, int n) {
  constexpr int kCount = kLanes<T>;
  for (int i = 0; i < m; ++i) {
    for (int l = 0; l < kCount; ++l) order[i][l] = i;
  }
  for (int k = 0; k < std::min(m, n); ++k) {
    alignas(64) T most[kCount];
    Whole<T>* place = pivots[k];
    for (int l = 0; l < kCount; ++l) {
      most[l] = std::abs(a[k * n + k][l]);
      place[l] = k;
    }
    for (int i = k + 1; i < m; ++i) {
      for (int l = 0; l < kCount; ++l) {
        const T size = std::abs(a[i * n + k][l]);
        const bool more = size > most[l];
        most[l] = more ? size : most[l];
        place[l] = more ? Whole<T>{i} : place[l];
      }
    }
    for (int i = k + 1; i < m; ++i) {
      Whole<T> some = 0;
      for (int l = 0; l < kCount; ++l) some |= static_cast<Whole<T>>(place[l] == i);
      if (some == 0) continue;
      exchange_where(place, Whole<T>{i}, order[k], order[i]);
      for (int j = 0; j < n; ++j) {
        exchange_where(place, Whole<T>{i}, a[k * n + j], a[i * n + j]);
      }
    }
    alignas(64) T pivot[kCount];
    for (int l = 0; l < kCount; ++l) {
      // Below a pivot of zero all elements are zeros, and stay.
      pivot[l] = a[k * n + k][l] == T{0} ? T{1} : a[k * n + k][l];
    }
    for (int i = k + 1; i < m; ++i) {
      divide(a[i * n + k], pivot);
      for (int j = k + 1; j < n; ++j) {
        subtract_product(a[i * n + j], a[i * n + k], a[k * n + j]);
      }
    }
  }
}

// The same book, 4.2.5: by columns.
template <typename T>
XPR_INLINE void factor_symmetric(T (*a)[kLanes<T>], int n) {
  for (int j = 0; j < n; ++j) {
    T* diagonal = a[j * n + j];
    for (int p = 0; p < j; ++p) subtract_product(diagonal, a[j * n + p], a[j * n + p]);
    for (int l = 0; l < kLanes<T>; ++l) {
      const T none = std::numeric_limits<T>::quiet_NaN();
      diagonal[l] = std::sqrt(diagonal[l] > T{0} ? diagonal[l] : none);
    }
    for (int i = j + 1; i < n; ++i) {
      for (int p = 0; p < j; ++p) subtract_product(a[i * n + j], a[i * n + p], a[j * n + p]);
      divide(a[i * n + j], diagonal);
    }
  }
}

// The same book, 3.1.1, for lower triangles on the left.
template <typename T>
XPR_INLINE void substitute(T (*a)[kLanes<T>], T (*x)[kLanes<T>], int n, int width, bool unit) {
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) {
      for (int c = 0; c < width; ++c) {
        subtract_product(x[i * width + c], a[i * n + j], x[j * width + c]);
      }
    }
    if (unit) continue;
    for (int c = 0; c < width; ++c) divide(x[i * width + c], a[i * n + i]);
  }
}

// ---- groups of matrices, from memory and back

template <typename T>
struct Factoring {
  const T* x;
  T* factors;
  int32_t* pivots;
  int32_t* order;
  int m, n;

  XPR_INLINE void run(uint64_t first, int lanes) const {
    Elements<T> a;
    alignas(64) Whole<T> exchanged[kMostSmallSide][kLanes<T>];
    alignas(64) Whole<T> rows[kMostSmallSide][kLanes<T>];
    const auto at = static_cast<ptrdiff_t>(first);
    const ptrdiff_t size = ptrdiff_t{m} * n;
    const int k = std::min(m, n);
    for (ptrdiff_t e = 0; e < size; ++e) load(x + at * size, size, lanes, e, a.of[e]);
    factor<T>(a.of, exchanged, rows, m, n);
    for (ptrdiff_t e = 0; e < size; ++e) store(a.of[e], size, lanes, e, factors + at * size);
    for (int i = 0; i < k; ++i) store(exchanged[i], k, lanes, i, pivots + at * k);
    for (int i = 0; i < m; ++i) store(rows[i], m, lanes, i, order + at * m);
  }
};

template <typename T>
struct SymmetricFactoring {
  const T* x;
  T* factors;
  int n;

  XPR_INLINE void run(uint64_t first, int lanes) const {
    Elements<T> a;
    const ptrdiff_t size = ptrdiff_t{n} * n;
    const ptrdiff_t begin = static_cast<ptrdiff_t>(first) * size;
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j <= i; ++j) load(x + begin, size, lanes, i * n + j, a.of[i * n + j]);
    }
    factor_symmetric<T>(a.of, n);
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) std::fill_n(a.of[i * n + j], kLanes<T>, T{0});
    }
    for (ptrdiff_t e = 0; e < size; ++e) store(a.of[e], size, lanes, e, factors + begin);
  }
};

template <typename T>
struct Substitution {
  const T* a;
  const T* b;
  T* x;
  int n, width;
  SmallTriangle triangle;

  XPR_INLINE void run(uint64_t first, int lanes) const {
    Elements<T> m;
    Elements<T> y;
    // The equation is turned into one with a lower triangle on the left: by a transposition where
    // the triangle is on the right, and with rows and columns backwards where it is an upper one.
    const bool turned = triangle.transposed == triangle.left;
    const bool backwards = triangle.lower == turned;
    const ptrdiff_t size = ptrdiff_t{n} * n;
    const ptrdiff_t columns = ptrdiff_t{n} * width;
    const ptrdiff_t across = triangle.left ? 1 : n;
    const ptrdiff_t down = triangle.left ? width : 1;
    const T* triangles = a + static_cast<ptrdiff_t>(first) * size;
    const ptrdiff_t begin = static_cast<ptrdiff_t>(first) * columns;
    for (int i = 0; i < n; ++i) {
      const ptrdiff_t r = backwards ? n - 1 - i : i;
      for (int j = 0; j <= i; ++j) {
        const ptrdiff_t c = backwards ? n - 1 - j : j;
        load(triangles, size, lanes, turned ? c * n + r : r * n + c, m.of[i * n + j]);
      }
      for (int c = 0; c < width; ++c) {
        load(b + begin, columns, lanes, r * down + c * across, y.of[i * width + c]);
      }
    }
    substitute<T>(m.of, y.of, n, width, triangle.unit);
    for (int i = 0; i < n; ++i) {
      const ptrdiff_t r = backwards ? n - 1 - i : i;
      for (int c = 0; c < width; ++c) {
        store(y.of[i * width + c], columns, lanes, r * down + c * across, x + begin);
      }
    }
  }
};

template <typename T, typename Work>
XPR_INLINE void run_groups(const Work& work, uint64_t begin, uint64_t end) {
  for (uint64_t first = begin; first < end; first += kLanes<T>) {
    work.run(first, static_cast<int>(std::min<uint64_t>(kLanes<T>, end - first)));
  }
}

#define XPR_GROUPS(Work, T)                                                                  \
  XPR_FOR_EACH_PROCESSOR void groups_of(const Work<T>& work, uint64_t begin, uint64_t end) { \
    run_groups<T>(work, begin, end);                                                         \
  }
XPR_GROUPS(Factoring, float)
XPR_GROUPS(Factoring, double)
XPR_GROUPS(SymmetricFactoring, float)
XPR_GROUPS(SymmetricFactoring, double)
XPR_GROUPS(Substitution, float)
XPR_GROUPS(Substitution, double)
#undef XPR_GROUPS

// ---- threads

template <typename Work>
struct Share {
  const Work& work;
  uint64_t count;
  uint64_t piece;

  static int run(void* context, uint64_t which) {
    const auto& share = *static_cast<const Share*>(context);
    const NoFlushToZero usual;
    const uint64_t begin = which * share.piece;
    groups_of(share.work, begin, std::min(share.count, begin + share.piece));
    return 0;
  }
};

template <typename T, typename Work>
void share(const Work& work, uint64_t count, bool parallel) {
  const uint64_t groups = count / kLanes<T> + 1;
  const uint64_t piece = std::max(kFewestGroups, groups / kPieces + 1) * kLanes<T>;
  Share<Work> all{work, count, piece};
  const uint64_t pieces = (count + piece - 1) / piece;
  const PoolTurn turn(parallel && pieces > 1);
  if (turn.pool() != nullptr) {
    turn.pool()->run(&Share<Work>::run, &all, pieces);
    return;
  }
  for (uint64_t which = 0; which < pieces; ++which) Share<Work>::run(&all, which);
}

}  // namespace

template <typename T>
void factor_small(const T* x, T* factors, int32_t* pivots, int32_t* order, uint64_t count, int m,
                  int n, bool parallel) {
  share<T>(Factoring<T>{x, factors, pivots, order, m, n}, count, parallel);
}

template <typename T>
void factor_small_symmetric(const T* x, T* factors, uint64_t count, int n, bool parallel) {
  share<T>(SymmetricFactoring<T>{x, factors, n}, count, parallel);
}

template <typename T>
void solve_small_triangles(const T* a, const T* b, T* x, uint64_t count, int n, int width,
                           SmallTriangle triangle, bool parallel) {
  share<T>(Substitution<T>{a, b, x, n, width, triangle}, count, parallel);
}

template void factor_small(const float*, float*, int32_t*, int32_t*, uint64_t, int, int, bool);
template void factor_small(const double*, double*, int32_t*, int32_t*, uint64_t, int, int, bool);
template void factor_small_symmetric(const float*, float*, uint64_t, int, bool);
template void factor_small_symmetric(const double*, double*, uint64_t, int, bool);
template void solve_small_triangles(const float*, const float*, float*, uint64_t, int, int,
                                    SmallTriangle, bool);
template void solve_small_triangles(const double*, const double*, double*, uint64_t, int, int,
                                    SmallTriangle, bool);

}  // namespace xpr
