// The kernels beside those of packed products, of all small sizes, for the processor that this is
// compiled for, on memory of exactly their sizes: built with the address sanitizer.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>

// NOLINTBEGIN(bugprone-suspicious-include)
#include "../../runtimes/native/products/complex_numbers.cpp"
#include "../../runtimes/native/products/convolutions.cpp"
#include "../../runtimes/native/products/few_rows.cpp"
#include "../../runtimes/native/products/matrices.cpp"
// NOLINTEND(bugprone-suspicious-include)

namespace {

// Memory of its own for each array, so that its end is watched; small whole numbers, whose sums
// are exact.
template <typename T>
std::unique_ptr<T[]> owned(int64_t size, std::mt19937& random) {
  std::uniform_int_distribution<int> number(-4, 4);
  std::unique_ptr<T[]> made(new T[static_cast<size_t>(size)]);
  for (int64_t i = 0; i < size; ++i) made[i] = static_cast<T>(number(random));
  return made;
}

int64_t any_of(std::mt19937& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

template <typename T>
bool few_rows_are_right(std::mt19937& random) {
  int64_t m = any_of(random, 1, 9), n = any_of(random, 1, 70), k = any_of(random, 1, 150);
  auto few = owned<T>(m * k, random), matrix = owned<T>(n * k, random);
  int64_t block = any_of(random, 1, 40), part = any_of(random, 1, k);
  int64_t parts = groups_of(k, part);
  auto partial = owned<T>(parts * m * n, random), result = owned<T>(m * n, random);
  for (int64_t x = 0; x < groups_of(n, block); ++x) {
    for (int64_t y = 0; y < parts; ++y) {
      sums<T>(few.get(), matrix.get(), partial.get(), m, n, k, k, 1, 0, n, 0, block, part, parts, x,
              y, 0);
    }
  }
  for (int64_t x = 0; x < groups_of(n, block); ++x) {
    for (int64_t y = 0; y < m; ++y) {
      total<T>(partial.get(), result.get(), m, n, parts, n, 1, block, x, y, 0);
    }
  }
  auto other = owned<T>(m * n, random);
  for (int64_t x = 0; x < groups_of(n, block); ++x) {
    dots<T>(few.get(), matrix.get(), other.get(), m, n, k, k, 0, k, 0, n, 1, block, x, 0);
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T by_rows = 0, by_columns = 0;
      for (int64_t l = 0; l < k; ++l) {
        by_rows += few[i * k + l] * matrix[l * n + j];
        by_columns += few[i * k + l] * matrix[j * k + l];
      }
      if (result[i * n + j] != by_rows || other[i * n + j] != by_columns) return false;
    }
  }
  return true;
}

template <typename T>
bool convolutions_are_right(std::mt19937& random) {
  int64_t images = any_of(random, 1, 2), groups = any_of(random, 1, 2);
  int64_t features = any_of(random, 1, 5), each = any_of(random, 1, 40), outputs = groups * each;
  int64_t taps[] = {any_of(random, 1, 3), any_of(random, 1, 3)};
  int64_t strides[] = {any_of(random, 1, 2), any_of(random, 1, 2)};
  int64_t apart[] = {any_of(random, 1, 2), any_of(random, 1, 2)};
  int64_t sizes[] = {any_of(random, 1, 6), any_of(random, 1, 6)}, from[2];
  for (int i = 0; i < 2; ++i) {
    from[i] = (sizes[i] - 1) * strides[i] + (taps[i] - 1) * apart[i] + 1;
  }
  int64_t all = groups * features, row = from[1] * all, image = from[0] * row;
  int64_t depth = taps[0] * taps[1] * features;
  auto x = owned<T>(images * image, random), w = owned<T>(depth * outputs, random);
  int64_t panel = each <= kWidth<T> ? kWidth<T> : 2 * kWidth<T>;
  int64_t panels = groups * groups_of(each, panel), together = any_of(random, 1, panels);
  int64_t pixels = images * sizes[0] * sizes[1], block = kPixels * any_of(random, 1, 3);
  auto packed = owned<T>(panels * panel * depth, random), out = owned<T>(pixels * outputs, random);
  for (int64_t i = 0; i < panels; ++i) {
    pack_taps<T>(w.get(), packed.get(), depth, outputs, groups, panel, i);
  }
  for (int64_t i = 0; i < groups_of(panels, together); ++i) {
    for (int64_t j = 0; j < groups_of(pixels, block); ++j) {
      convolve<T>(x.get(), packed.get(), out.get(), images, sizes[0], sizes[1], outputs, groups,
                  features, taps[0], taps[1], image, strides[0] * row, strides[1] * all,
                  apart[0] * row, apart[1] * all, panel, together, block, i, j);
    }
  }
  for (int64_t p = 0; p < pixels; ++p) {
    int64_t column = p % sizes[1], line = p / sizes[1] % sizes[0], which = p / sizes[1] / sizes[0];
    for (int64_t o = 0; o < outputs; ++o) {
      T sum = 0;
      for (int64_t l = 0; l < depth; ++l) {
        int64_t feature = l % features, tap = l / features;
        int64_t at = which * image + (line * strides[0] + tap / taps[1] * apart[0]) * row +
                     (column * strides[1] + tap % taps[1] * apart[1]) * all +
                     o / each * features + feature;
        sum += x[at] * w[l * outputs + o];
      }
      if (out[p * outputs + o] != sum) return false;
    }
  }
  return true;
}

template <typename T>
bool others_are_right(std::mt19937& random) {
  int64_t count = any_of(random, 1, 50), n = any_of(random, 1, 20);
  auto z = owned<T>(2 * count, random), w = owned<T>(2 * count, random);
  for (int64_t i = 0; i < count; ++i) w[2 * i] = 1, w[2 * i + 1] = 0;
  auto quotients = owned<T>(2 * count, random), sizes = owned<T>(count, random);
  divide<T>({z.get(), 1}, {w.get(), 1}, quotients.get(), 0, count);
  absolutes<T>(quotients.get(), sizes.get(), 0, count);
  for (int64_t i = 0; i < 2 * count; ++i) {
    if (quotients[i] != z[i]) return false;
  }
  auto x = owned<T>(n * n, random), factor = owned<T>(n * n, random);
  for (int64_t i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0 ? T(4) : T(0);
  cholesky<T>(x.get(), factor.get(), n);
  for (int64_t i = 0; i < n * n; ++i) {
    if (factor[i] != x[i] / 2) return false;
  }
  return true;
}

}  // namespace

int main() {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  for (int round = 0; round < 500; ++round) {
    if (!few_rows_are_right<float>(random) || !few_rows_are_right<double>(random) ||
        !convolutions_are_right<float>(random) || !convolutions_are_right<double>(random) ||
        !others_are_right<float>(random) || !others_are_right<double>(random)) {
      std::printf("round %d is wrong\n", round);
      return 1;
    }
  }
  std::printf("500 rounds right\n");
  return 0;
}
