// Products with matrices whose rows are blocks of 32 numbers in low precision, in the layouts Q8_0
// and Q4_0 of GGML: kernels of IREE's executable library, compiled ahead of time.
//
// Two dispatches, as in GGML. The first rounds the rows of the other operand to int8, with a scale
// for each 32 numbers. The second multiplies int8 by the blocks as they lie in memory, sums each
// block in int32, and adds up the blocks in float32 with the product of both scales. A few rows are
// multiplied as the matrix passes by; for more, 16 rows of the matrix at a time are unpacked into a
// panel that stays in the first level of cache.
//
// The file stands alone: it is compiled without a C library, and calls nothing.
#include "blocks.h"

// GCC 12 warns of its own header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

namespace {

constexpr int64_t kBlock = 32;
// So many blocks are multiplied together, where there are as many.
constexpr int64_t kQuad = 4;

int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// A rounded row: the numbers, a scale for each block, and the sum of each block's numbers.
struct Row {
  const int8_t* numbers;
  const float* scales;
  const int32_t* sums;
};

int64_t row_bytes(int64_t k) { return k + k / kBlock * 8; }

Row row_of(const uint8_t* rounded, int64_t i, int64_t k) {
  const uint8_t* start = rounded + i * row_bytes(k);
  return {reinterpret_cast<const int8_t*>(start), reinterpret_cast<const float*>(start + k),
          reinterpret_cast<const int32_t*>(start + k + k / kBlock * 4)};
}

// Where the half of a block of a row lies. `kApart` says that the lower halves of four blocks lie
// together, and then the upper ones.
template <bool kApart>
int64_t half_place(int64_t block, int64_t half, int64_t whole) {
  if (!kApart || block >= whole) return block * kBlock + half * 16;
  return block / kQuad * kQuad * kBlock + half * 64 + block % kQuad * 16;
}

float sum_of(__m256 x) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

float half_at(const uint8_t* place) {
  uint16_t bits;
  __builtin_memcpy(&bits, place, 2);
  return _cvtsh_ss(bits);
}

// ---- rounding

void round_row(const float* x, uint8_t* out, int64_t k, bool apart) {
  int64_t blocks = k / kBlock, whole = blocks / kQuad * kQuad;
  auto* scales = reinterpret_cast<float*>(out + k);
  auto* sums = reinterpret_cast<int32_t*>(out + k + blocks * 4);
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (int64_t b = 0; b < blocks; ++b) {
    __m256 v[4];
    __m256 most = _mm256_setzero_ps();
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_loadu_ps(x + b * kBlock + i * 8);
      // The second operand is what comes of a NaN in either: it must not get lost.
      most = _mm256_max_ps(_mm256_andnot_ps(sign, v[i]), most);
    }
    __m256 strange = _mm256_setzero_ps();
    for (int i = 0; i < 4; ++i) {
      strange = _mm256_or_ps(strange, _mm256_cmp_ps(v[i], v[i], _CMP_UNORD_Q));
    }
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    float greatest = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
    float scale = greatest / 127.0f;
    bool finite = _mm256_movemask_ps(strange) == 0 && greatest < __builtin_inff();
    // A block with an infinity or a NaN gives NaN, as long as its scale multiplies anything.
    scales[b] = finite ? scale : __builtin_nanf("");
    __m256 inverse = _mm256_set1_ps(finite && greatest >= 1e-36f ? 127.0f / greatest : 0.0f);
    __m256i whole_numbers[4];
    for (int i = 0; i < 4; ++i) {
      __m256 scaled = finite ? _mm256_mul_ps(v[i], inverse) : _mm256_setzero_ps();
      whole_numbers[i] = _mm256_cvtps_epi32(scaled);
    }
    __m256i total = _mm256_add_epi32(_mm256_add_epi32(whole_numbers[0], whole_numbers[1]),
                                     _mm256_add_epi32(whole_numbers[2], whole_numbers[3]));
    __m128i part = _mm_add_epi32(_mm256_castsi256_si128(total),
                                 _mm256_extracti128_si256(total, 1));
    part = _mm_add_epi32(part, _mm_shuffle_epi32(part, 0x4E));
    part = _mm_add_epi32(part, _mm_shuffle_epi32(part, 0xB1));
    sums[b] = _mm_cvtsi128_si32(part);
    for (int half = 0; half < 2; ++half) {
      __m256i two = _mm256_packs_epi32(whole_numbers[2 * half], whole_numbers[2 * half + 1]);
      two = _mm256_permute4x64_epi64(two, 0xD8);
      __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(two),
                                      _mm256_extracti128_si256(two, 1));
      int64_t place = apart ? half_place<true>(b, half, whole) : half_place<false>(b, half, whole);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + place), bytes);
    }
  }
}

// ---- layouts

struct Q8_0 {
  static constexpr int64_t kSize = 34;
  static constexpr bool kApart = false;
  static constexpr int kOffset = 128;  // what is added to a number where it is unsigned

  static __m256i numbers(const uint8_t* block) {
    __m256i found = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 2));
    return _mm256_xor_si256(found, _mm256_set1_epi8(-128));
  }
};

struct Q4_0 {
  static constexpr int64_t kSize = 18;
  static constexpr bool kApart = true;
  static constexpr int kOffset = 8;

  static __m256i numbers(const uint8_t* block) {
    __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 2));
    __m256i found = _mm256_set_m128i(_mm_srli_epi16(both, 4), both);
    return _mm256_and_si256(found, _mm256_set1_epi8(15));
  }
};

// ---- a row of the matrix by a rounded one

// Four sums of pairs of products of unsigned and signed bytes, for each of eight lanes.
__m256i products(__m256i numbers, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), numbers, x);
#else
  // Unsigned bytes up to 255 would overflow in pairs: their upper bits come apart.
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  __m256i upper = _mm256_and_si256(_mm256_srli_epi16(numbers, 4), low);
  __m256i first = _mm256_maddubs_epi16(_mm256_and_si256(numbers, low), x);
  __m256i second = _mm256_maddubs_epi16(upper, x);
  return _mm256_add_epi32(_mm256_madd_epi16(first, ones),
                          _mm256_slli_epi32(_mm256_madd_epi16(second, ones), 4));
#endif
}

// The blocks from `first` to `last`, one after the other.
template <typename L>
float rest_of_row(const uint8_t* blocks, const Row& x, int64_t first, int64_t last,
                  int64_t whole) {
  __m256 sum = _mm256_setzero_ps();
  float offset = 0;
  for (int64_t b = first; b < last; ++b) {
    const uint8_t* block = blocks + b * L::kSize;
    float scale = half_at(block) * x.scales[b];
    __m256i given;
    if (L::kApart && b < whole) {
      given = _mm256_set_m128i(
          _mm_loadu_si128(
              reinterpret_cast<const __m128i*>(x.numbers + half_place<true>(b, 1, whole))),
          _mm_loadu_si128(
              reinterpret_cast<const __m128i*>(x.numbers + half_place<true>(b, 0, whole))));
    } else {
      given = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.numbers + b * kBlock));
    }
    __m256 found = _mm256_cvtepi32_ps(products(L::numbers(block), given));
    sum = _mm256_fmadd_ps(found, _mm256_set1_ps(scale), sum);
    offset += scale * static_cast<float>(x.sums[b]);
  }
  return sum_of(sum) - static_cast<float>(L::kOffset) * offset;
}

#if defined(__AVX512VNNI__)

// Four scales, 16 bits each at a distance of a block, as float32.
template <int64_t kSize>
__m128 four_scales(const uint8_t* blocks) {
  uint16_t at[4];
  for (int i = 0; i < 4; ++i) __builtin_memcpy(&at[i], blocks + i * kSize, 2);
  // Put together where vectors are not waiting.
  uint64_t low = at[0] | static_cast<uint64_t>(at[1]) << 16;
  uint64_t high = at[2] | static_cast<uint64_t>(at[3]) << 16;
  __m128i bits = _mm_cvtsi64_si128(static_cast<int64_t>(low | high << 32));
  return _mm_cvtph_ps(bits);
}

__m512i load512(const void* place) { return _mm512_loadu_si512(place); }

// The numbers of four blocks, without signs.
struct Quad {
  __m512i first, second;
};

Quad quad(Q8_0, const uint8_t* blocks) {
  auto two = [&](const uint8_t* block) {
    __m512i found = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 2))),
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 2 + Q8_0::kSize)), 1);
    return _mm512_xor_si512(found, _mm512_set1_epi8(-128));
  };
  return {two(blocks), two(blocks + 2 * Q8_0::kSize)};
}

Quad quad(Q4_0, const uint8_t* blocks) {
  auto quarter = [&](int i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + i * Q4_0::kSize + 2));
  };
  __m512i both = _mm512_castsi128_si512(quarter(0));
  both = _mm512_inserti32x4(both, quarter(1), 1);
  both = _mm512_inserti32x4(both, quarter(2), 2);
  both = _mm512_inserti32x4(both, quarter(3), 3);
  const __m512i low = _mm512_set1_epi8(15);
  return {_mm512_and_si512(both, low), _mm512_and_si512(_mm512_srli_epi16(both, 4), low)};
}

// The lanes of the sums that four blocks give, times the blocks' scales.
__m512 add_quad(Q8_0, const Quad& numbers, const int8_t* x, __m128 scales, __m512 sum) {
  const __m512i lanes = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m512i others = _mm512_set_epi32(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2);
  __m512 spread = _mm512_castps128_ps512(scales);
  const __m512i zero = _mm512_setzero_si512();
  __m512i found = _mm512_dpbusd_epi32(zero, numbers.first, load512(x));
  sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(found), _mm512_permutexvar_ps(lanes, spread), sum);
  found = _mm512_dpbusd_epi32(zero, numbers.second, load512(x + 64));
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(found), _mm512_permutexvar_ps(others, spread), sum);
}

__m512 add_quad(Q4_0, const Quad& numbers, const int8_t* x, __m128 scales, __m512 sum) {
  __m512i found = _mm512_dpbusd_epi32(_mm512_setzero_si512(), numbers.first, load512(x));
  found = _mm512_dpbusd_epi32(found, numbers.second, load512(x + 64));
  const __m512i lanes = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  __m512 scale = _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(scales));
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(found), scale, sum);
}

// A row of the matrix by kCount rounded rows, from `first` on: results lie `stride` apart.
template <typename L, int kCount>
void dots(const uint8_t* blocks, const uint8_t* rounded, int64_t first, int64_t k, float* out,
          int64_t stride) {
  int64_t count = k / kBlock, whole = count / kQuad * kQuad;
  Row x[kCount];
  __m512 sums[kCount];
  __m128 offsets[kCount];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    x[i] = row_of(rounded, first + i, k);
    sums[i] = _mm512_setzero_ps();
    offsets[i] = _mm_setzero_ps();
  }
  for (int64_t b = 0; b < whole; b += kQuad) {
    const uint8_t* place = blocks + b * L::kSize;
    // The matrix is read once, ahead of the processor's own prefetching, which ends with a page.
    _mm_prefetch(reinterpret_cast<const char*>(place) + 1024, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(place) + 1088, _MM_HINT_T0);
    Quad numbers = quad(L{}, place);
    __m128 own = four_scales<L::kSize>(place);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      __m128 scales = _mm_mul_ps(own, _mm_loadu_ps(x[i].scales + b));
      __m128i total = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x[i].sums + b));
      offsets[i] = _mm_fmadd_ps(scales, _mm_cvtepi32_ps(total), offsets[i]);
      sums[i] = add_quad(L{}, numbers, x[i].numbers + b * kBlock, scales, sums[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    __m512 sum = _mm512_fnmadd_ps(_mm512_zextps128_ps512(offsets[i]),
                                  _mm512_set1_ps(static_cast<float>(L::kOffset)), sums[i]);
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1));
    float found = sum_of(half);
    if (whole < count) found += rest_of_row<L>(blocks, x[i], whole, count, whole);
    out[i * stride] = found;
  }
}

// ---- panels: 16 rows of the matrix by many

constexpr int64_t kRows = 16;
// So many blocks of a row at a time.
constexpr int64_t kDeep = 64;

struct alignas(64) Panel {
  // Of each block: 8 vectors with four numbers of each row.
  uint8_t numbers[kDeep][8][64];
  float scales[kDeep][kRows];
};

__m512i gathered(const uint8_t* start, __m512i places) {
  return _mm512_i32gather_epi32(places, start, 1);
}

void unpack(Q8_0, const uint8_t* block, __m512i places, uint8_t (*out)[64]) {
  for (int i = 0; i < 8; ++i) {
    __m512i four = gathered(block + 2 + 4 * i, places);
    _mm512_store_si512(out[i], _mm512_xor_si512(four, _mm512_set1_epi8(-128)));
  }
}

void unpack(Q4_0, const uint8_t* block, __m512i places, uint8_t (*out)[64]) {
  const __m512i low = _mm512_set1_epi8(15);
  for (int i = 0; i < 4; ++i) {
    __m512i four = gathered(block + 2 + 4 * i, places);
    _mm512_store_si512(out[i], _mm512_and_si512(four, low));
    _mm512_store_si512(out[i + 4], _mm512_and_si512(_mm512_srli_epi16(four, 4), low));
  }
}

template <typename L>
void unpack_panel(const uint8_t* rows, int64_t stride, int64_t count, int64_t blocks,
                  Panel& panel) {
  // Rows that are not there are the last one once more.
  __m512i row = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  row = _mm512_min_epi32(row, _mm512_set1_epi32(static_cast<int>(count - 1)));
  __m512i places = _mm512_mullo_epi32(row, _mm512_set1_epi32(static_cast<int>(stride)));
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* block = rows + b * L::kSize;
    unpack(L{}, block, places, panel.numbers[b]);
    __m512i bits = gathered(block, places);
    _mm512_store_ps(panel.scales[b], _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits)));
  }
}

// The products of a panel and kCount rounded rows, added to what there is.
template <typename L, int kCount>
void multiply_panel(const Panel& panel, const uint8_t* rounded, int64_t first, int64_t k,
                    int64_t from, int64_t blocks, float* out, int64_t stride, __mmask16 there) {
  int64_t whole = k / kBlock / kQuad * kQuad;
  Row rows[kCount];
  __m512 sums[kCount];
#pragma GCC unroll 8
  for (int t = 0; t < kCount; ++t) {
    rows[t] = row_of(rounded, first + t, k);
    sums[t] = from == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(there, out + t * stride);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    __m512i found[kCount];
#pragma GCC unroll 8
    for (int t = 0; t < kCount; ++t) {
      found[t] = _mm512_set1_epi32(-L::kOffset * rows[t].sums[from + b]);
    }
    for (int half = 0; half < 2; ++half) {
      int64_t place = half_place<L::kApart>(from + b, half, whole);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        __m512i numbers = _mm512_load_si512(panel.numbers[b][4 * half + i]);
#pragma GCC unroll 8
        for (int t = 0; t < kCount; ++t) {
          int32_t four;
          __builtin_memcpy(&four, rows[t].numbers + place + 4 * i, 4);
          found[t] = _mm512_dpbusd_epi32(found[t], numbers, _mm512_set1_epi32(four));
        }
      }
    }
    __m512 scales = _mm512_load_ps(panel.scales[b]);
#pragma GCC unroll 8
    for (int t = 0; t < kCount; ++t) {
      __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(rows[t].scales[from + b]));
      sums[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(found[t]), scale, sums[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kCount; ++t) _mm512_mask_storeu_ps(out + t * stride, there, sums[t]);
}

constexpr int64_t kTogether = 8;
// From so many rows on, unpacking the matrix pays.
constexpr int64_t kMany = 6;

template <typename L>
void many(const uint8_t* rounded, const uint8_t* matrix, float* out, int64_t m, int64_t n,
          int64_t k, int64_t first, int64_t last) {
  Panel panel;
  int64_t blocks = k / kBlock, stride = blocks * L::kSize;
  for (int64_t row = first; row < last; row += kRows) {
    int64_t count = at_most(kRows, last - row);
    auto there = static_cast<__mmask16>((1u << count) - 1);
    for (int64_t from = 0; from < blocks; from += kDeep) {
      int64_t deep = at_most(kDeep, blocks - from);
      unpack_panel<L>(matrix + row * stride + from * L::kSize, stride, count, deep, panel);
      int64_t i = 0;
      float* place = out + row;
      for (; i + kTogether <= m; i += kTogether) {
        multiply_panel<L, kTogether>(panel, rounded, i, k, from, deep, place + i * n, n, there);
      }
      for (; i + 2 <= m; i += 2) {
        multiply_panel<L, 2>(panel, rounded, i, k, from, deep, place + i * n, n, there);
      }
      for (; i < m; ++i) {
        multiply_panel<L, 1>(panel, rounded, i, k, from, deep, place + i * n, n, there);
      }
    }
  }
}

#else

template <typename L, int kCount>
void dots(const uint8_t* blocks, const uint8_t* rounded, int64_t first, int64_t k, float* out,
          int64_t stride) {
  int64_t count = k / kBlock;
  for (int i = 0; i < kCount; ++i) {
    Row x = row_of(rounded, first + i, k);
    out[i * stride] = rest_of_row<L>(blocks, x, 0, count, count / kQuad * kQuad);
  }
}

#endif

template <typename L>
void multiply(const uint8_t* rounded, const uint8_t* matrix, float* out, int64_t m, int64_t n,
              int64_t k, int64_t rows, int64_t group) {
  int64_t first = group * rows, last = at_most(n, first + rows);
  int64_t blocks = k / kBlock, stride = blocks * L::kSize;
#if defined(__AVX512VNNI__)
  if (m >= kMany) {
    many<L>(rounded, matrix, out, m, n, k, first, last);
    return;
  }
#endif
  for (int64_t j = first; j < last; ++j) {
    const uint8_t* row = matrix + j * stride;
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) dots<L, 4>(row, rounded, i, k, out + i * n + j, n);
    for (; i + 2 <= m; i += 2) dots<L, 2>(row, rounded, i, k, out + i * n + j, n);
    if (i < m) dots<L, 1>(row, rounded, i, k, out + i * n + j, n);
  }
}

}  // namespace

void XPR_BLOCKS(round_blocks)(const float* x, uint8_t* out, int32_t k, int32_t apart, int64_t row,
                              int64_t, int64_t) {
  round_row(x + row * k, out + row * row_bytes(k), k, apart != 0);
}

void XPR_BLOCKS(blocks_q8_0)(const uint8_t* rounded, const uint8_t* matrix, float* out, int32_t m,
                             int32_t n, int32_t k, int32_t rows, int64_t group, int64_t, int64_t) {
  multiply<Q8_0>(rounded, matrix, out, m, n, k, rows, group);
}

void XPR_BLOCKS(blocks_q4_0)(const uint8_t* rounded, const uint8_t* matrix, float* out, int32_t m,
                             int32_t n, int32_t k, int32_t rows, int64_t group, int64_t, int64_t) {
  multiply<Q4_0>(rounded, matrix, out, m, n, k, rows, group);
}
