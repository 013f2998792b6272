// Memory that results, constants and transients lie in, counted by references.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace xpr {

// Compiled code reads and writes memory with instructions that need this alignment.
inline constexpr size_t kAlignment = 64;

inline constexpr size_t aligned(size_t size) {
  return (size + (kAlignment - 1)) & ~(kAlignment - 1);
}

// An object that is freed with the last reference to it.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void retain() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~Counted() = default;

 private:
  std::atomic<int32_t> count_{0};
};

// A reference to a counted object.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_) object_->retain();
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U>  // NOLINTNEXTLINE(google-explicit-constructor): a reference to a base
  Ref(const Ref<U>& other) noexcept : Ref(other.get()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }
  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

// A block of memory, aligned for compiled code.
class Memory final : public Counted {
 public:
  // Memory of its own, not initialised; throws std::bad_alloc.
  static Ref<Memory> allocate(size_t size) { return allocate(size, true); }

  // The same for memory that is kept between uses, which does not count as being in use.
  static Ref<Memory> allocate_uncounted(size_t size) { return allocate(size, false); }

  // Memory of somebody else's, who is told when nobody needs it any more.
  using Free = void (*)(void* owner);
  static Ref<Memory> borrow(void* data, size_t size, void* owner, Free free);

  uint8_t* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  bool is_own() const noexcept { return free_ == nullptr; }

  // Bytes in all blocks that were allocated, counted and not yet freed.
  static size_t bytes_in_use() noexcept;

 private:
  static Ref<Memory> allocate(size_t size, bool is_counted);
  Memory(uint8_t* data, size_t size, void* owner, Free free, bool is_counted = false)
      : data_(data), size_(size), owner_(owner), free_(free), is_counted_(is_counted) {}
  ~Memory() override;

  uint8_t* data_;
  size_t size_;
  void* owner_;
  Free free_;
  bool is_counted_;
};

}  // namespace xpr
