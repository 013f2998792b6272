// Products of matrices as kernels of IREE's executable library, compiled ahead of time for one kind
// of processor and linked into the modules that call them.
//
// The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008), in two dispatches. The first packs both operands: the left one in panels of kRows rows,
// the right one in panels of kColumns columns, each panel in the order in which it is read. The
// second computes a block of the result in each workgroup, as tiles of kRows by kColumns that are
// held in registers. Each element is summed in the order of the contracted index, one fused
// multiplication and addition after the other, whatever the sizes of blocks and tiles.
//
// The file stands alone: it is compiled without a C library, and calls nothing.
#include "products.h"

#include <cstdint>
#include <utility>

#include "vectors.h"

#if defined(__AVX512F__)
#define XPR_ROWS 14
#else
#define XPR_ROWS 6
#endif

namespace {

template <typename T>
struct Tiles {
  static constexpr int64_t kWidth = xpr::kWidth<T>;
  static constexpr int64_t kRows = XPR_ROWS;
  static constexpr int64_t kVectors = 2;
  static constexpr int64_t kColumns = kVectors * kWidth;
  // Of the contracted index so much at a time, so that a panel of the right operand stays in the
  // first level of cache beside those of the left one that pass.
  static constexpr int64_t kDepth = sizeof(T) == 4 ? 256 : 192;
  using Vector = xpr::Vector<T>;
  using Loose = xpr::Loose<T>;
};

using xpr::at_most;
using xpr::groups_of;

// ---- packing

// One operand as it lies in memory: its free index, which panels divide, and its contracted one.
template <typename T>
struct Operand {
  const T* data;
  T* packed;
  int64_t free, depth, free_stride, depth_stride;
  int64_t batch_stride;
};

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define XPR_SHUFFLES
#endif
#endif

#if defined(XPR_SHUFFLES)

// The blocks of kStep by kStep elements beside the diagonal change places, in each block of twice
// that size: for steps of 1, 2, 4 and so on this transposes a square.
template <typename T, int64_t kStep, int64_t... kLane>
[[gnu::always_inline]] inline void swap_blocks(typename Tiles<T>::Vector* rows,
                                               std::integer_sequence<int64_t, kLane...>) {
  constexpr int64_t kWidth = Tiles<T>::kWidth;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kWidth; ++i) {
    if ((i & kStep) != 0) continue;
    auto one = rows[i], other = rows[i + kStep];
    rows[i] = __builtin_shufflevector(one, other,
                                      ((kLane & kStep) != 0 ? kWidth + kLane - kStep : kLane)...);
    rows[i + kStep] = __builtin_shufflevector(
        one, other, ((kLane & kStep) != 0 ? kWidth + kLane : kLane + kStep)...);
  }
}

template <typename T, int64_t kStep = 1>
[[gnu::always_inline]] inline void transpose(typename Tiles<T>::Vector* rows) {
  constexpr int64_t kWidth = Tiles<T>::kWidth;
  if constexpr (kStep < kWidth) {
    swap_blocks<T, kStep>(rows, std::make_integer_sequence<int64_t, kWidth>());
    transpose<T, 2 * kStep>(rows);
  }
}

// Packs what lies in rows along the depth, for so much of it as there are whole vectors: how much.
//
// Where a panel is no multiple of a vector, each vector is stored over the beginning of the next
// place, which is stored after it. So the last place is left out.
template <typename T, int64_t kSize>
int64_t pack_rows(const T* from, T* to, int64_t count, int64_t stride, int64_t depth) {
  using Vector = typename Tiles<T>::Vector;
  using Loose = typename Tiles<T>::Loose;
  constexpr int64_t kWidth = Tiles<T>::kWidth;
  constexpr int64_t kBlocks = (kSize + kWidth - 1) / kWidth;
  int64_t end = kSize % kWidth == 0 ? depth : depth - 1;
  int64_t k = 0;
  for (; k + kWidth <= end; k += kWidth) {
    for (int64_t block = kBlocks - 1; block >= 0; --block) {
      Vector rows[kWidth];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kWidth; ++i) {
        int64_t row = block * kWidth + i;
        rows[i] = row < count ? Vector(*reinterpret_cast<const Loose*>(from + row * stride + k))
                              : Vector{};
      }
      transpose<T>(rows);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kWidth; ++i) {
        *reinterpret_cast<Loose*>(to + (k + i) * kSize + block * kWidth) = rows[i];
      }
    }
  }
  return k;
}

#else

template <typename T, int64_t kSize>
int64_t pack_rows(const T*, T*, int64_t, int64_t, int64_t) {
  return 0;
}

#endif

// Packs whole panels of what lies in rows along the free index.
template <typename T, int64_t kSize>
void pack_columns(const T* from, T* to, int64_t panels, int64_t stride, int64_t depth) {
  using Loose = typename Tiles<T>::Loose;
  constexpr int64_t kWidth = Tiles<T>::kWidth;
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      const T* row = from + k * stride + panel * kSize;
      T* out = to + (panel * depth + k) * kSize;
      int64_t i = 0;
      for (; i + kWidth <= kSize; i += kWidth) {
        *reinterpret_cast<Loose*>(out + i) = *reinterpret_cast<const Loose*>(row + i);
      }
      for (; i < kSize; ++i) out[i] = row[i];
    }
  }
}

// Packs some panels, so that what is read together lies in as few pages as may be.
template <typename T, int64_t kSize>
void pack_panels(const Operand<T>& x, int64_t first, int64_t last, int64_t batch) {
  const T* data = x.data + batch * x.batch_stride;
  T* packed = x.packed + batch * groups_of(x.free, kSize) * kSize * x.depth;
  int64_t whole = at_most(last, x.free / kSize);
  if (x.free_stride == 1 && first < whole) {
    pack_columns<T, kSize>(data + first * kSize, packed + first * kSize * x.depth, whole - first,
                           x.depth_stride, x.depth);
    first = whole;
  }
  for (int64_t panel = first; panel < last; ++panel) {
    int64_t count = at_most(kSize, x.free - panel * kSize);
    const T* from = data + panel * kSize * x.free_stride;
    T* to = packed + panel * kSize * x.depth;
    int64_t done = 0;
    if (x.depth_stride == 1) done = pack_rows<T, kSize>(from, to, count, x.free_stride, x.depth);
    for (int64_t k = done; k < x.depth; ++k) {
      for (int64_t i = 0; i < kSize; ++i) {
        to[k * kSize + i] = i < count ? from[i * x.free_stride + k * x.depth_stride] : T(0);
      }
    }
  }
}

// A workgroup packs so many panels.
constexpr int64_t kPanels = 4;

template <typename T, int64_t kSize>
void pack_group(const Operand<T>& x, int64_t group, int64_t batch) {
  int64_t last = at_most((group + 1) * kPanels, groups_of(x.free, kSize));
  pack_panels<T, kSize>(x, group * kPanels, last, batch);
}

// The workgroups of the left operand come first.
template <typename T>
void pack(const Operand<T>& left, const Operand<T>& right, int64_t group, int64_t batch) {
  using S = Tiles<T>;
  int64_t groups = groups_of(groups_of(left.free, S::kRows), kPanels);
  if (group < groups) {
    pack_group<T, S::kRows>(left, group, batch);
  } else {
    pack_group<T, S::kColumns>(right, group - groups, batch);
  }
}

// ---- products

// A tile of the result, or of what is added to it: `c` has rows of `stride` elements.
template <typename T, bool kFirst>
[[gnu::always_inline]] inline void tile(const T* a, const T* b, int64_t depth, T* c,
                                        int64_t stride) {
  using S = Tiles<T>;
  using Vector = typename S::Vector;
  using Loose = typename S::Loose;
  Vector sums[S::kRows][S::kVectors];
#pragma GCC unroll 16
  for (int64_t i = 0; i < S::kRows; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < S::kVectors; ++j) {
      sums[i][j] =
          kFirst ? Vector{} : Vector(*reinterpret_cast<Loose*>(c + i * stride + j * S::kWidth));
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector row[S::kVectors];
#pragma GCC unroll 4
    for (int64_t j = 0; j < S::kVectors; ++j) {
      row[j] = *reinterpret_cast<const Loose*>(b + j * S::kWidth);
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < S::kRows; ++i) {
      Vector factor = a[i] - Vector{};
#pragma GCC unroll 4
      for (int64_t j = 0; j < S::kVectors; ++j) sums[i][j] += factor * row[j];
    }
    a += S::kRows;
    b += S::kColumns;
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < S::kRows; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < S::kVectors; ++j) {
      *reinterpret_cast<Loose*>(c + i * stride + j * S::kWidth) = sums[i][j];
    }
  }
}

// A tile at the end of the result, of which some rows or columns are not there.
template <typename T, bool kFirst>
[[gnu::noinline]] void part_of_tile(const T* a, const T* b, int64_t depth, T* c, int64_t stride,
                                    int64_t rows, int64_t columns) {
  using S = Tiles<T>;
  alignas(64) T whole[S::kRows * S::kColumns];
  if (!kFirst) {
    for (int64_t i = 0; i < S::kRows; ++i) {
      for (int64_t j = 0; j < S::kColumns; ++j) {
        whole[i * S::kColumns + j] = i < rows && j < columns ? c[i * stride + j] : T(0);
      }
    }
  }
  tile<T, kFirst>(a, b, depth, whole, S::kColumns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) c[i * stride + j] = whole[i * S::kColumns + j];
  }
}

template <typename T>
struct Block {
  const T *a, *b;
  T* c;
  int64_t n, k, first_row, rows, first_column, columns;

  template <bool kFirst>
  [[gnu::noinline]] void add(int64_t from, int64_t depth) const {
    using S = Tiles<T>;
    for (int64_t j = first_column; j < first_column + columns; j += S::kColumns) {
      const T* right = b + j * k + from * S::kColumns;
      int64_t width = at_most(S::kColumns, n - j);
      for (int64_t i = first_row; i < first_row + rows; i += S::kRows) {
        const T* left = a + i * k + from * S::kRows;
        int64_t height = at_most(S::kRows, first_row + rows - i);
        T* out = c + i * n + j;
        if (height == S::kRows && width == S::kColumns) {
          tile<T, kFirst>(left, right, depth, out, n);
        } else {
          part_of_tile<T, kFirst>(left, right, depth, out, n, height, width);
        }
      }
    }
  }
};

// A workgroup computes a block of the result: `block_rows` and `block_columns` are of whole tiles.
template <typename T>
void product(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, int64_t block_rows,
             int64_t block_columns, int64_t x, int64_t y, int64_t batch) {
  using S = Tiles<T>;
  Block<T> block{};
  block.a = a + batch * groups_of(m, S::kRows) * S::kRows * k;
  block.b = b + batch * groups_of(n, S::kColumns) * S::kColumns * k;
  block.c = c + batch * m * n;
  block.n = n;
  block.k = k;
  block.first_row = y * block_rows;
  block.rows = at_most(block_rows, m - block.first_row);
  block.first_column = x * block_columns;
  block.columns = at_most(block_columns, n - block.first_column);
  // Parts of about the same depth.
  int64_t depth = groups_of(k, groups_of(k, S::kDepth));
  block.template add<true>(0, depth);
  for (int64_t from = depth; from < k; from += depth) {
    block.template add<false>(from, at_most(depth, k - from));
  }
}

}  // namespace

void XPR_NAME(pack_f32)(const float* a, const float* b, float* packed_a, float* packed_b, int32_t m,
                        int32_t n, int32_t k, int32_t a_free, int32_t a_depth, int32_t a_batch,
                        int32_t b_free, int32_t b_depth, int32_t b_batch, int64_t x, int64_t,
                        int64_t z) {
  pack<float>({a, packed_a, m, k, a_free, a_depth, a_batch},
              {b, packed_b, n, k, b_free, b_depth, b_batch}, x, z);
}

void XPR_NAME(pack_f64)(const double* a, const double* b, double* packed_a, double* packed_b,
                        int32_t m, int32_t n, int32_t k, int32_t a_free, int32_t a_depth,
                        int32_t a_batch, int32_t b_free, int32_t b_depth, int32_t b_batch,
                        int64_t x, int64_t, int64_t z) {
  pack<double>({a, packed_a, m, k, a_free, a_depth, a_batch},
               {b, packed_b, n, k, b_free, b_depth, b_batch}, x, z);
}

void XPR_NAME(product_f32)(const float* a, const float* b, float* c, int32_t m, int32_t n,
                           int32_t k, int32_t block_rows, int32_t block_columns, int64_t x,
                           int64_t y, int64_t z) {
  product<float>(a, b, c, m, n, k, block_rows, block_columns, x, y, z);
}

void XPR_NAME(product_f64)(const double* a, const double* b, double* c, int32_t m, int32_t n,
                           int32_t k, int32_t block_rows, int32_t block_columns, int64_t x,
                           int64_t y, int64_t z) {
  product<double>(a, b, c, m, n, k, block_rows, block_columns, x, y, z);
}
