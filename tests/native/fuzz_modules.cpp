// Loads damaged modules and runs what loads, without their machine code: kernels are replaced by a
// function that reads where their operands begin and end. To be built with the address sanitizer,
// which ends the program at the first access outside of memory.
//
//   fuzz_modules FOLDER COUNT [SEED]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "corpus.h"
#include "refusal.h"

// The name is the sanitizer's.
extern "C" __attribute__((visibility("default"))) const char*
__asan_default_options() {  // NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
  return "allocator_may_return_null=1:max_allocation_size_mb=256:detect_leaks=0";
}

namespace xpr {
namespace {

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}

  size_t below(size_t limit) { return limit ? random_() % limit : 0; }

  std::vector<uint8_t> done_to(const Sample& sample, const std::vector<Sample>& others) {
    std::vector<uint8_t> bytes = sample.bytes;
    for (size_t times = 1 + below(4); times > 0; --times) once(bytes, others);
    return bytes;
  }

 private:
  template <typename T>
  void put(std::vector<uint8_t>& bytes, T value) {
    if (bytes.size() < sizeof(T)) return;
    std::memcpy(bytes.data() + place(bytes.size() - sizeof(T) + 1), &value, sizeof(T));
  }

  // Half of the damage is done where the tables and the byte code lie.
  size_t place(size_t size) { return below(2) ? below(size) : below(std::min<size_t>(size, 8192)); }

  uint64_t number() {
    static constexpr uint64_t kChosen[] = {0,      1,          2,          4,          8,
                                           0x7F,   0x80,       0xFF,       0x7FFF,     0x8000,
                                           0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x4000,
                                           64,     1u << 20,   ~0ull,      1ull << 63, 1ull << 46};
    return below(2) ? kChosen[below(std::size(kChosen))] : random_() >> below(64);
  }

  void once(std::vector<uint8_t>& bytes, const std::vector<Sample>& others) {
    if (bytes.empty()) return;
    switch (below(9)) {
      case 0:
        bytes.resize(below(bytes.size()));
        break;
      case 1:
        bytes[place(bytes.size())] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 2:
        put(bytes, static_cast<uint8_t>(number()));
        break;
      case 3:
        put(bytes, static_cast<uint16_t>(number()));
        break;
      case 4:
        put(bytes, static_cast<uint32_t>(number()));
        break;
      case 5:
        put(bytes, number());
        break;
      case 6: {  // a number becomes one a little larger or smaller
        if (bytes.size() < 4) break;
        size_t at = place(bytes.size() - 3);
        uint32_t value = 0;
        std::memcpy(&value, bytes.data() + at, 4);
        value += static_cast<uint32_t>(below(17)) - 8;
        std::memcpy(bytes.data() + at, &value, 4);
        break;
      }
      case 7: {  // a piece of another module, or of the same one
        const auto& other = others[below(others.size())].bytes;
        size_t from = place(other.size()), to = place(bytes.size());
        size_t size = std::min({below(64), other.size() - from, bytes.size() - to});
        std::memcpy(bytes.data() + to, other.data() + from, size);
        break;
      }
      default: {  // a piece is left out
        size_t from = place(bytes.size());
        size_t size = std::min(below(64), bytes.size() - from);
        auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(from);
        bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(size));
      }
    }
  }

  std::mt19937_64 random_;
};

enum class End { kRefused, kFailed, kRan };

End load_and_run(const Sample& sample, const std::vector<uint8_t>& bytes) {
  try {
    Program program({bytes.data(), bytes.size()}, "main", sample.inputs, sample.outputs,
                    {sample.donated, {}, false}, sample.host, false);
    std::vector<Block> arguments = arguments_of(sample), results(sample.outputs.size());
    ZeroCalls calls(sample.host);
    try {
      program.run(arguments.data(), results.data(), false, &calls);
    } catch (const std::exception&) {
      return End::kFailed;
    }
    for (const Block& result : results) {
      if (result.size) (void)*static_cast<const volatile uint8_t*>(result.data + result.size - 1);
    }
    return End::kRan;
  } catch (const Refusal&) {
    return End::kRefused;
  } catch (const std::bad_alloc&) {
    return End::kRefused;
  }
}

int run(const char* folder, uint64_t count, uint64_t seed) {
  std::vector<Sample> corpus = read_corpus(folder);
  for (const Sample& sample : corpus) {
    if (load_and_run(sample, sample.bytes) != End::kRan) {
      std::printf("%s does not run undamaged\n", sample.name.c_str());
      return 1;
    }
  }
  uint64_t ends[3] = {};
  for (uint64_t i = 0; i < count; ++i) {
    Damage damage(seed + i);
    const Sample& sample = corpus[damage.below(corpus.size())];
    ends[static_cast<int>(load_and_run(sample, damage.done_to(sample, corpus)))]++;
  }
  std::printf("%llu damaged modules: %llu refused, %llu failed, %llu ran\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(ends[0]),
              static_cast<unsigned long long>(ends[1]), static_cast<unsigned long long>(ends[2]));
  return 0;
}

}  // namespace
}  // namespace xpr

int main(int count, char** words) {
  if (count < 3) {
    std::puts("fuzz_modules FOLDER COUNT [SEED]");
    return 2;
  }
  return xpr::run(words[1], std::strtoull(words[2], nullptr, 10),
                  count > 3 ? std::strtoull(words[3], nullptr, 10) : 0);
}
