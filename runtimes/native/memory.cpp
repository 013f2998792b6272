#include "memory.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(place, size)
#define ASAN_UNPOISON_MEMORY_REGION(place, size)
#endif

namespace xpr {
namespace {
std::atomic<size_t> in_use{0};

// Says how much was asked for, in the words of `runtimes/exhausted.py`, which reads them.
class OutOfMemory final : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t size) noexcept {
    std::snprintf(text_, sizeof(text_), "RESOURCE_EXHAUSTED: Out of memory allocating %zu bytes",
                  size);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[80];
};
}  // namespace

Ref<Memory> Memory::allocate(size_t size, bool is_counted) {
  if (size > std::numeric_limits<size_t>::max() / 2) throw OutOfMemory(size);
  void* block = std::malloc(size + kAlignment);
  if (!block) throw OutOfMemory(size);
  auto start = (reinterpret_cast<uintptr_t>(block) + kAlignment - 1) & ~uintptr_t{kAlignment - 1};
  auto* rest = reinterpret_cast<uint8_t*>(start) + size;
  ASAN_POISON_MEMORY_REGION(rest, static_cast<uint8_t*>(block) + size + kAlignment - rest);
  (void)rest;
  try {
    Ref<Memory> made(
        new Memory(reinterpret_cast<uint8_t*>(start), size, block, nullptr, is_counted));
    if (is_counted) in_use.fetch_add(size, std::memory_order_relaxed);
    return made;
  } catch (...) {
    ASAN_UNPOISON_MEMORY_REGION(block, size + kAlignment);
    std::free(block);
    throw;
  }
}

Ref<Memory> Memory::borrow(void* data, size_t size, void* owner, Free free) {
  return Ref<Memory>(new Memory(static_cast<uint8_t*>(data), size, owner, free));
}

Memory::~Memory() {
  if (free_) {
    free_(owner_);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(owner_, size_ + kAlignment);
    if (is_counted_) in_use.fetch_sub(size_, std::memory_order_relaxed);
    std::free(owner_);
  }
}

size_t Memory::bytes_in_use() noexcept { return in_use.load(std::memory_order_relaxed); }

}  // namespace xpr
