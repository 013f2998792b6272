// Products of all small sizes by the kernels for the processor that this is compiled for, on memory
// of exactly their sizes: built with the address sanitizer, which sees accesses outside of it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>

#include "../../runtimes/native/products/products.cpp"  // NOLINT(bugprone-suspicious-include)

namespace {

// Memory of its own for each array, so that its end is watched.
template <typename T>
using Owned = std::unique_ptr<T[]>;

struct Sizes {
  int64_t m, n, k, batch;
  bool left_transposed, right_transposed;
};

int32_t narrow(int64_t n) { return static_cast<int32_t>(n); }

template <typename T>
bool is_right(const Sizes& s, std::mt19937& random, auto packing, auto multiplying) {
  using Tile = Tiles<T>;
  std::uniform_real_distribution<T> number(-1, 1);
  auto owned = [](int64_t size) { return Owned<T>(new T[static_cast<size_t>(size)]); };
  int64_t a_size = s.m * s.k, b_size = s.k * s.n, c_size = s.m * s.n;
  auto a = owned(s.batch * a_size), b = owned(s.batch * b_size), c = owned(s.batch * c_size);
  for (int64_t i = 0; i < s.batch * a_size; ++i) a[i] = number(random);
  for (int64_t i = 0; i < s.batch * b_size; ++i) b[i] = number(random);
  int64_t down = groups_of(s.m, Tile::kRows), across = groups_of(s.n, Tile::kColumns);
  auto left = owned(s.batch * down * Tile::kRows * s.k);
  auto right = owned(s.batch * across * Tile::kColumns * s.k);
  int64_t a_free = s.left_transposed ? 1 : s.k, a_depth = s.left_transposed ? s.m : 1;
  int64_t b_free = s.right_transposed ? s.k : 1, b_depth = s.right_transposed ? 1 : s.n;
  int64_t groups = groups_of(down, kPanels) + groups_of(across, kPanels);
  int64_t rows = Tile::kRows * 2, columns = Tile::kColumns;
  int32_t m = narrow(s.m), n = narrow(s.n), k = narrow(s.k);
  for (int64_t z = 0; z < s.batch; ++z) {
    for (int64_t x = 0; x < groups; ++x) {
      packing(a.get(), b.get(), left.get(), right.get(), m, n, k, narrow(a_free), narrow(a_depth),
              narrow(a_size), narrow(b_free), narrow(b_depth), narrow(b_size), x, 0, z);
    }
    for (int64_t y = 0; y < groups_of(s.m, rows); ++y) {
      for (int64_t x = 0; x < groups_of(s.n, columns); ++x) {
        multiplying(left.get(), right.get(), c.get(), m, n, k, narrow(rows), narrow(columns), x, y,
                    z);
      }
    }
  }
  for (int64_t z = 0; z < s.batch; ++z) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < s.k; ++l) {
          sum += static_cast<double>(a[z * a_size + i * a_free + l * a_depth]) *
                 static_cast<double>(b[z * b_size + j * b_free + l * b_depth]);
        }
        auto found = static_cast<double>(c[z * c_size + i * s.n + j]);
        if (!(std::abs(sum - found) < 1e-4)) {
          std::printf("%d by %d by %d is wrong at %d, %d\n", m, k, n, narrow(i), narrow(j));
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

int main() {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  std::uniform_int_distribution<int64_t> size(1, 70), depth(1, 520);
  int count = 0;
  for (int round = 0; round < 500; ++round) {
    Sizes s{};
    s.m = size(random);
    s.n = size(random);
    s.k = round % 3 == 0 ? depth(random) : size(random);
    s.batch = 1 + round % 2;
    s.left_transposed = (round & 4) != 0;
    s.right_transposed = (round & 8) != 0;
    if (!is_right<float>(s, random, XPR_NAME(pack_f32), XPR_NAME(product_f32)) ||
        !is_right<double>(s, random, XPR_NAME(pack_f64), XPR_NAME(product_f64))) {
      return 1;
    }
    count += 2;
  }
  std::printf("%d products right\n", count);
  return 0;
}
