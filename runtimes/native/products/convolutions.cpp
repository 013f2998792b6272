// Convolutions over two spatial axes of an operand that is padded already, with features last.
//
// A tile of the result is some pixels, wherever they lie, by one or two vectors of output features,
// held in registers while all taps and input features pass: a product of matrices whose left
// operand is read where it lies, and nothing of it is copied. The taps are packed beforehand in
// panels of as many output features.
//
// The file stands alone: it is compiled without a C library, and calls nothing.
#include <cstdint>

#include "products.h"
#include "vectors.h"

// The loops that matter are written in vectors; others, at their ends, are to be short code.
#pragma GCC optimize("no-tree-vectorize")

namespace {

using xpr::at_most;
using xpr::groups_of;
using xpr::kWidth;
using xpr::load;
using xpr::store;
using xpr::Vector;

#if defined(__AVX512F__)
constexpr int64_t kPixels = 12;
#else
constexpr int64_t kPixels = 6;
#endif

// ---- taps

// A panel has `columns` output features of a group, with zeros behind the last one.
template <typename T>
void pack_taps(const T* taps, T* packed, int64_t depth, int64_t outputs, int64_t groups,
               int64_t columns, int64_t x) {
  int64_t each = outputs / groups, panels = groups_of(each, columns);
  int64_t group = x / panels, first = x % panels * columns;
  int64_t count = at_most(columns, each - first);
  const T* from = taps + group * each + first;
  T* to = packed + x * depth * columns;
  for (int64_t k = 0; k < depth; ++k) {
    if (count == columns) {
      for (int64_t j = 0; j < columns; j += kWidth<T>) store(to + j, load(from + j));
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j] = j < count ? from[j] : T(0);
    }
    from += outputs;
    to += columns;
  }
}

// ---- results

template <typename T>
struct Taps {
  const T* packed;
  int64_t rows, columns, features;
  // Between taps, in the operand.
  int64_t row, column;
};

template <typename T, int64_t kVectors>
[[gnu::noinline]] void tile(const T* const* pixels, const Taps<T>& taps, T* out) {
  Vector<T> sums[kPixels][kVectors];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kPixels; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kVectors; ++j) sums[i][j] = Vector<T>{};
  }
  const T* weight = taps.packed;
  for (int64_t row = 0; row < taps.rows; ++row) {
    for (int64_t column = 0; column < taps.columns; ++column) {
      int64_t first = row * taps.row + column * taps.column;
      const T* at[kPixels];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kPixels; ++i) at[i] = pixels[i] + first;
      for (int64_t k = 0; k < taps.features; ++k) {
        Vector<T> weights[kVectors];
#pragma GCC unroll 4
        for (int64_t j = 0; j < kVectors; ++j) weights[j] = load(weight + j * kWidth<T>);
#pragma GCC unroll 16
        for (int64_t i = 0; i < kPixels; ++i) {
          Vector<T> factor = at[i][k] - Vector<T>{};
#pragma GCC unroll 4
          for (int64_t j = 0; j < kVectors; ++j) sums[i][j] += factor * weights[j];
        }
        weight += kVectors * kWidth<T>;
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < kPixels; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kVectors; ++j) store(out + (i * kVectors + j) * kWidth<T>, sums[i][j]);
  }
}

// Goes through the pixels of the result, row by row, and knows where their windows begin.
template <typename T>
struct Pixel {
  const T* data;
  int64_t rows, columns;
  int64_t image_stride, row_stride, column_stride;
  int64_t image, row, column;

  void start(int64_t index) {
    column = index % columns;
    row = index / columns % rows;
    image = index / columns / rows;
  }
  const T* window() const {
    return data + image * image_stride + row * row_stride + column * column_stride;
  }
  void advance() {
    if (++column < columns) return;
    column = 0;
    if (++row < rows) return;
    row = 0;
    ++image;
  }
};

template <typename T, int64_t kVectors>
void block(Pixel<T> pixel, Taps<T> taps, T* out, int64_t outputs, int64_t first, int64_t last,
           int64_t count) {
  constexpr int64_t kColumns = kVectors * kWidth<T>;
  alignas(64) T found[kPixels * kColumns];
  pixel.start(first);
  for (int64_t p = first; p < last; p += kPixels) {
    int64_t here = at_most(kPixels, last - p);
    const T* windows[kPixels];
    for (int64_t i = 0; i < kPixels; ++i) {
      // Those beyond the end are computed as the last one, and not kept.
      windows[i] = i < here ? pixel.window() : windows[0];
      if (i < here) pixel.advance();
    }
    tile<T, kVectors>(windows, taps, found);
    for (int64_t i = 0; i < here; ++i) {
      const T* from = found + i * kColumns;
      T* to = out + (p + i) * outputs;
      int64_t j = 0;
      for (; j + kWidth<T> <= count; j += kWidth<T>) store(to + j, load(from + j));
      for (; j < count; ++j) to[j] = from[j];
    }
  }
}

template <typename T>
void convolve(const T* data, const T* packed, T* out, int64_t images, int64_t rows, int64_t columns,
              int64_t outputs, int64_t groups, int64_t features, int64_t tap_rows,
              int64_t tap_columns, int64_t image_stride, int64_t row_stride, int64_t column_stride,
              int64_t tap_row, int64_t tap_column, int64_t panel_columns, int64_t panels,
              int64_t pixels, int64_t x, int64_t y) {
  int64_t each = outputs / groups, of_group = groups_of(each, panel_columns);
  int64_t all = images * rows * columns, first = y * pixels;
  int64_t depth = tap_rows * tap_columns * features;
  int64_t last_panel = at_most((x + 1) * panels, groups * of_group);
  for (int64_t panel = x * panels; panel < last_panel; ++panel) {
    int64_t group = panel / of_group, column = panel % of_group * panel_columns;
    Pixel<T> pixel{};
    pixel.data = data + group * features;
    pixel.rows = rows;
    pixel.columns = columns;
    pixel.image_stride = image_stride;
    pixel.row_stride = row_stride;
    pixel.column_stride = column_stride;
    Taps<T> taps{packed + panel * depth * panel_columns, tap_rows, tap_columns, features, tap_row,
                 tap_column};
    T* to = out + group * each + column;
    int64_t last = at_most(first + pixels, all), count = at_most(panel_columns, each - column);
    if (panel_columns == kWidth<T>) {
      block<T, 1>(pixel, taps, to, outputs, first, last, count);
    } else {
      block<T, 2>(pixel, taps, to, outputs, first, last, count);
    }
  }
}

}  // namespace

#define XPR_CONVOLUTIONS(T, type)                                                                 \
  void XPR_NAME(pack_taps_##type)(const T* taps, T* packed, int32_t depth, int32_t outputs,       \
                                  int32_t groups, int32_t columns, int64_t x, int64_t, int64_t) { \
    pack_taps<T>(taps, packed, depth, outputs, groups, columns, x);                               \
  }                                                                                               \
  void XPR_NAME(convolve_##type)(                                                                 \
      const T* data, const T* packed, T* out, int32_t images, int32_t rows, int32_t columns,      \
      int32_t outputs, int32_t groups, int32_t features, int32_t tap_rows, int32_t tap_columns,   \
      int32_t image_stride, int32_t row_stride, int32_t column_stride, int32_t tap_row,           \
      int32_t tap_column, int32_t panel_columns, int32_t panels, int32_t pixels, int64_t x,       \
      int64_t y, int64_t) {                                                                       \
    convolve<T>(data, packed, out, images, rows, columns, outputs, groups, features, tap_rows,    \
                tap_columns, image_stride, row_stride, column_stride, tap_row, tap_column,        \
                panel_columns, panels, pixels, x, y);                                             \
  }

XPR_CONVOLUTIONS(float, f32)
XPR_CONVOLUTIONS(double, f64)
