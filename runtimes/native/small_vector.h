// A vector whose first elements need no allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace xpr {

// For plain values only: they are copied byte by byte and never destroyed.
template <typename T, std::size_t Inline>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  void push_back(T value) {
    if (size_ == capacity_) grow();
    data_[size_++] = value;
  }
  void clear() { size_ = 0; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  T* data() { return data_; }
  std::size_t size() const { return size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void grow() {
    auto larger = std::make_unique<T[]>(2 * capacity_);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = data_[i];
    heap_ = std::move(larger);
    data_ = heap_.get();
    capacity_ *= 2;
  }

  T inline_[Inline];
  std::unique_ptr<T[]> heap_;
  T* data_ = inline_;
  std::size_t size_ = 0;
  std::size_t capacity_ = Inline;
};

}  // namespace xpr
