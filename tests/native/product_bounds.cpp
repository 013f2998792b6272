// Products of all small sizes by the kernels for the processor that this is compiled for, on memory
// of exactly their sizes: built with the address sanitizer, which sees accesses outside of it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>

#include "../../runtimes/native/products/products.cpp"

namespace {

// Memory of its own for each array, so that its end is watched.
template <typename T>
using Owned = std::unique_ptr<T[]>;

template <typename T>
bool is_right(int32_t m, int32_t n, int32_t k, bool left_transposed, bool right_transposed,
              int32_t batch, std::mt19937& random, auto packing, auto multiplying) {
  using S = Tiles<T>;
  std::uniform_real_distribution<T> number(-1, 1);
  Owned<T> a(new T[batch * m * k]), b(new T[batch * k * n]), c(new T[batch * m * n]);
  for (int64_t i = 0; i < batch * m * k; ++i) a[i] = number(random);
  for (int64_t i = 0; i < batch * k * n; ++i) b[i] = number(random);
  int64_t down = groups_of(m, S::kRows), across = groups_of(n, S::kColumns);
  Owned<T> left(new T[batch * down * S::kRows * k]), right(new T[batch * across * S::kColumns * k]);
  int32_t a_free = left_transposed ? 1 : k, a_depth = left_transposed ? m : 1;
  int32_t b_free = right_transposed ? k : 1, b_depth = right_transposed ? 1 : n;
  int64_t groups = groups_of(down, kPanels) + groups_of(across, kPanels);
  int32_t rows = S::kRows * 2, columns = S::kColumns;
  for (int32_t z = 0; z < batch; ++z) {
    for (int64_t x = 0; x < groups; ++x) {
      packing(a.get(), b.get(), left.get(), right.get(), m, n, k, a_free, a_depth, m * k, b_free,
              b_depth, k * n, x, 0, z);
    }
    for (int64_t y = 0; y < groups_of(m, rows); ++y) {
      for (int64_t x = 0; x < groups_of(n, columns); ++x) {
        multiplying(left.get(), right.get(), c.get(), m, n, k, rows, columns, x, y, z);
      }
    }
  }
  for (int32_t z = 0; z < batch; ++z) {
    for (int32_t i = 0; i < m; ++i) {
      for (int32_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int32_t l = 0; l < k; ++l) {
          sum += double(a[z * m * k + i * a_free + l * a_depth]) *
                 double(b[z * k * n + j * b_free + l * b_depth]);
        }
        if (!(std::abs(sum - double(c[(z * m + i) * n + j])) < 1e-4)) {
          std::printf("%d by %d by %d is wrong at %d, %d\n", m, k, n, i, j);
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

int main() {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> size(1, 70), depth(1, 520);
  int count = 0;
  for (int round = 0; round < 500; ++round) {
    int32_t m = size(random), n = size(random), k = round % 3 == 0 ? depth(random) : size(random);
    int32_t batch = 1 + round % 2;
    bool left = round & 4, right = round & 8;
    if (!is_right<float>(m, n, k, left, right, batch, random, XPR_NAME(pack, f32),
                         XPR_NAME(product, f32)) ||
        !is_right<double>(m, n, k, left, right, batch, random, XPR_NAME(pack, f64),
                          XPR_NAME(product, f64))) {
      return 1;
    }
    count += 2;
  }
  std::printf("%d products right\n", count);
  return 0;
}
