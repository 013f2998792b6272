// Where commands go: they are run at once, or written down.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel.h"
#include "objects.h"

namespace xpr {

// A checked range of a buffer.
struct Operand {
  BufferObject* buffer = nullptr;
  size_t offset = 0;
  size_t length = 0;
};

class Steps {
 public:
  virtual ~Steps() = default;
  virtual Ref<BufferObject> allocate(size_t size) = 0;
  virtual void dispatch(const Dispatch& dispatch, const uint32_t* constants,
                        const Operand* bindings) = 0;
  virtual void fill(const Operand& target, uint64_t pattern, uint8_t pattern_length) = 0;
  virtual void copy(const Operand& source, const Operand& target) = 0;
  // The bytes of a buffer as a number.
  virtual uint32_t load(const Operand& source) = 0;
};

inline constexpr int kMostBindings = 32;  // as many as IREE takes

// These use the pool, if there is one, where they have much to do. A pattern has 1, 2, 4 or 8
// bytes.
void copy_memory(uint8_t* target, const uint8_t* source, size_t length, ThreadPool* pool);
void fill_memory(uint8_t* target, size_t length, uint64_t pattern, uint8_t pattern_length,
                 ThreadPool* pool);

// Runs everything at once, in the memory that the buffers have.
class Runner final : public Steps {
 public:
  // With `parallel` kernels are run by several threads.
  explicit Runner(bool parallel) : parallel_(parallel) {}
  Ref<BufferObject> allocate(size_t size) override;
  void dispatch(const Dispatch& dispatch, const uint32_t* constants,
                const Operand* bindings) override;
  void fill(const Operand& target, uint64_t pattern, uint8_t pattern_length) override;
  void copy(const Operand& source, const Operand& target) override;
  uint32_t load(const Operand& source) override;

 private:
  bool parallel_;
};

}  // namespace xpr
