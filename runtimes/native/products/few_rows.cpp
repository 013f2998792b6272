// Products of a few rows and a large matrix, each element of which is read once and in order.
//
// The large matrix lies in rows along its free index (`sums`: a multiple of each row is added to
// the rows of the result) or along the contracted one (`dots`: a product for each element).
//
// The file stands alone: it is compiled without a C library, and calls nothing.
#include <cstdint>

#include "products.h"
#include "vectors.h"

// The loops that matter are written in vectors; others, at their ends, are to be short code.
#pragma GCC optimize("no-tree-vectorize")

namespace {

using xpr::at_most;
using xpr::kWidth;
using xpr::load;
using xpr::store;
using xpr::Vector;

// So many factors, or sums, are held in registers.
#if defined(__AVX512F__)
constexpr int64_t kHeld = 16;
#else
constexpr int64_t kHeld = 8;
#endif

// Rows of the small operand that are taken together.
constexpr int64_t kTogether = 4;

// ---- sums of multiples of rows

template <typename T>
struct Rows {
  const T *few, *matrix;
  T* sums;
  int64_t few_free, few_depth;
  int64_t matrix_depth;
  int64_t sums_free;
};

// Adds the multiples of kDepth rows of the matrix to kRows rows of sums.
template <typename T, int64_t kRows, int64_t kDepth>
[[gnu::noinline]] void add_rows(const Rows<T>& x, int64_t columns) {
  T factors[kRows][kDepth];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int64_t k = 0; k < kDepth; ++k) {
      factors[i][k] = x.few[i * x.few_free + k * x.few_depth];
    }
  }
  int64_t j = 0;
  for (; j + kWidth<T> <= columns; j += kWidth<T>) {
    Vector<T> sums[kRows];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kRows; ++i) sums[i] = load(x.sums + i * x.sums_free + j);
#pragma GCC unroll 16
    for (int64_t k = 0; k < kDepth; ++k) {
      Vector<T> row = load(x.matrix + k * x.matrix_depth + j);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kRows; ++i) sums[i] += factors[i][k] * row;
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < kRows; ++i) store(x.sums + i * x.sums_free + j, sums[i]);
  }
  for (; j < columns; ++j) {
    for (int64_t i = 0; i < kRows; ++i) {
      T sum = x.sums[i * x.sums_free + j];
      for (int64_t k = 0; k < kDepth; ++k) {
        sum += factors[i][k] * x.matrix[k * x.matrix_depth + j];
      }
      x.sums[i * x.sums_free + j] = sum;
    }
  }
}

template <typename T, int64_t kRows, int64_t kDepth>
void add_some_rows(const Rows<T>& x, int64_t rows, int64_t columns) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return add_some_rows<T, kRows - 1, kDepth>(x, rows, columns);
  }
  add_rows<T, kRows, kDepth>(x, columns);
}

template <typename T, int64_t kDepth>
void add_all_rows(Rows<T> x, int64_t rows, int64_t columns) {
  constexpr int64_t kMost = at_most(kTogether, kHeld / kDepth);
  for (int64_t i = 0; i < rows; i += kMost) {
    add_some_rows<T, kMost, kDepth>(x, rows - i, columns);
    x.few += kMost * x.few_free;
    x.sums += kMost * x.sums_free;
  }
}

template <typename T, int64_t kDepth>
void add_depth(Rows<T> x, int64_t rows, int64_t columns, int64_t depth) {
  int64_t k = 0;
  for (; k + kDepth <= depth; k += kDepth) {
    add_all_rows<T, kDepth>(x, rows, columns);
    x.few += kDepth * x.few_depth;
    x.matrix += kDepth * x.matrix_depth;
  }
  if constexpr (kDepth > 1) add_depth<T, kDepth / 2>(x, rows, columns, depth - k);
}

// A workgroup sums a part of the depth for a block of columns.
template <typename T>
void sums(const T* few, const T* matrix, T* result, int64_t m, int64_t n, int64_t k,
          int64_t few_free, int64_t few_depth, int64_t few_batch, int64_t matrix_depth,
          int64_t matrix_batch, int64_t block, int64_t part, int64_t parts, int64_t x, int64_t y,
          int64_t batch) {
  int64_t column = x * block, from = y * part;
  Rows<T> rows{};
  rows.few = few + batch * few_batch + from * few_depth;
  rows.matrix = matrix + batch * matrix_batch + from * matrix_depth + column;
  rows.sums = result + (batch * parts + y) * m * n + column;
  rows.few_free = few_free;
  rows.few_depth = few_depth;
  rows.matrix_depth = matrix_depth;
  rows.sums_free = n;
  int64_t columns = at_most(block, n - column), depth = at_most(part, k - from);
  for (int64_t i = 0; i < m; ++i) {
    T* row = rows.sums + i * n;
    int64_t j = 0;
    for (; j + kWidth<T> <= columns; j += kWidth<T>) store(row + j, Vector<T>{});
    for (; j < columns; ++j) row[j] = T(0);
  }
  if (m <= kHeld / 8) {
    add_depth<T, 8>(rows, m, columns, depth);
  } else {
    add_depth<T, kHeld / kTogether>(rows, m, columns, depth);
  }
}

// The sum of the parts, for a block of a batch's elements; rows and columns may change places.
template <typename T>
void total(const T* parts, T* result, int64_t m, int64_t n, int64_t count, int64_t free,
           int64_t columns_apart, int64_t block, int64_t x, int64_t row, int64_t batch) {
  const T* from = parts + batch * count * m * n + row * n;
  T* to = result + batch * m * n + row * free;
  int64_t j = x * block, end = at_most(n, j + block);
  if (columns_apart == 1) {
    for (; j + kWidth<T> <= end; j += kWidth<T>) {
      Vector<T> sum{};
      for (int64_t p = 0; p < count; ++p) sum += load(from + p * m * n + j);
      store(to + j, sum);
    }
  }
  for (; j < end; ++j) {
    T sum = 0;
    for (int64_t p = 0; p < count; ++p) sum += from[p * m * n + j];
    to[j * columns_apart] = sum;
  }
}

// ---- products of rows with rows

template <typename T>
[[gnu::noinline]] T sum_of(const Vector<T>* sums) {
  T lanes[kWidth<T>];
  store(lanes, *sums);
  for (int64_t half = kWidth<T> / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Of the contracted index so many vectors at a time, so that what is read again stays in the first
// level of cache; the vectors of sums are put aside meanwhile.
constexpr int64_t kVectors = 64;
constexpr int64_t kMostRows = 64;

template <typename T>
struct Dots {
  const T *few, *matrix;
  T* result;
  Vector<T>* sums;
  int64_t few_free, matrix_free, depth;
  int64_t result_free, result_columns;
};

// Adds the products of some vectors of the depth from `from` on.
template <typename T, int64_t kRows, int64_t kColumns>
[[gnu::noinline]] void dot_rows(const Dots<T>& x, int64_t from, int64_t to) {
  Vector<T> sums[kRows][kColumns];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int64_t j = 0; j < kColumns; ++j) {
      sums[i][j] = from == 0 ? Vector<T>{} : x.sums[i * kColumns + j];
    }
  }
  for (int64_t k = from; k < to; k += kWidth<T>) {
    Vector<T> few[kRows];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kRows; ++i) few[i] = load(x.few + i * x.few_free + k);
#pragma GCC unroll 16
    for (int64_t j = 0; j < kColumns; ++j) {
      Vector<T> row = load(x.matrix + j * x.matrix_free + k);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kRows; ++i) sums[i][j] += few[i] * row;
    }
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int64_t j = 0; j < kColumns; ++j) x.sums[i * kColumns + j] = sums[i][j];
  }
}

template <typename T, int64_t kRows, int64_t kColumns>
void dot_some_rows(const Dots<T>& x, int64_t rows, int64_t from, int64_t to) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return dot_some_rows<T, kRows - 1, kColumns>(x, rows, from, to);
  }
  dot_rows<T, kRows, kColumns>(x, from, to);
}

template <typename T, int64_t kColumns>
void dot_all_rows(const Dots<T>& x, int64_t rows) {
  constexpr int64_t kMost = at_most(kTogether, kHeld / kColumns);
  int64_t whole = x.depth / kWidth<T> * kWidth<T>, from = 0;
  do {
    int64_t to = at_most(from + kVectors * kWidth<T>, whole);
    Dots<T> some = x;
    for (int64_t i = 0; i < rows; i += kMost) {
      dot_some_rows<T, kMost, kColumns>(some, rows - i, from, to);
      some.few += kMost * x.few_free;
      some.sums += kMost * kColumns;
    }
    from = to;
  } while (from < whole);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      T sum = sum_of<T>(x.sums + i * kColumns + j);
      for (int64_t l = whole; l < x.depth; ++l) {
        sum += x.few[i * x.few_free + l] * x.matrix[j * x.matrix_free + l];
      }
      x.result[i * x.result_free + j * x.result_columns] = sum;
    }
  }
}

template <typename T, int64_t kColumns>
void dot_columns(Dots<T> x, int64_t rows, int64_t columns) {
  int64_t j = 0;
  for (; j + kColumns <= columns; j += kColumns) {
    dot_all_rows<T, kColumns>(x, rows);
    x.matrix += kColumns * x.matrix_free;
    x.result += kColumns * x.result_columns;
  }
  if constexpr (kColumns > 1) dot_columns<T, kColumns / 2>(x, rows, columns - j);
}

template <typename T>
void dots(const T* few, const T* matrix, T* result, int64_t m, int64_t n, int64_t k,
          int64_t few_free, int64_t few_batch, int64_t matrix_free, int64_t matrix_batch,
          int64_t result_free, int64_t result_columns, int64_t block, int64_t x, int64_t batch) {
  int64_t column = x * block, columns = at_most(block, n - column);
  constexpr int64_t kSome = kHeld / 8, kWide = 8, kColumns = kHeld / kTogether;
  Vector<T> sums[kMostRows * kColumns];
  Dots<T> of{};
  of.few = few + batch * few_batch;
  of.matrix = matrix + batch * matrix_batch + column * matrix_free;
  of.result = result + batch * m * n + column * result_columns;
  of.sums = sums;
  of.few_free = few_free;
  of.matrix_free = matrix_free;
  of.depth = k;
  of.result_free = result_free;
  of.result_columns = result_columns;
  if (m <= kSome) {
    dot_columns<T, kWide>(of, m, columns);
  } else {
    dot_columns<T, kColumns>(of, m, columns);
  }
}

}  // namespace

#define XPR_FEW_ROWS(T, type)                                                                     \
  void XPR_NAME(sums_##type)(const T* few, const T* matrix, T* result, int32_t m, int32_t n,      \
                             int32_t k, int32_t few_free, int32_t few_depth, int32_t few_batch,   \
                             int32_t matrix_depth, int32_t matrix_batch, int32_t block,           \
                             int32_t part, int32_t parts, int64_t x, int64_t y, int64_t z) {      \
    sums<T>(few, matrix, result, m, n, k, few_free, few_depth, few_batch, matrix_depth,           \
            matrix_batch, block, part, parts, x, y, z);                                           \
  }                                                                                               \
  void XPR_NAME(total_##type)(const T* parts, T* result, int32_t m, int32_t n, int32_t count,     \
                              int32_t free, int32_t columns_apart, int32_t block, int64_t x,      \
                              int64_t y, int64_t z) {                                             \
    total<T>(parts, result, m, n, count, free, columns_apart, block, x, y, z);                    \
  }                                                                                               \
  void XPR_NAME(dots_##type)(const T* few, const T* matrix, T* result, int32_t m, int32_t n,      \
                             int32_t k, int32_t few_free, int32_t few_batch, int32_t matrix_free, \
                             int32_t matrix_batch, int32_t result_free, int32_t result_columns,   \
                             int32_t block, int64_t x, int64_t, int64_t z) {                      \
    dots<T>(few, matrix, result, m, n, k, few_free, few_batch, matrix_free, matrix_batch,         \
            result_free, result_columns, block, x, z);                                            \
  }

XPR_FEW_ROWS(float, f32)
XPR_FEW_ROWS(double, f64)
