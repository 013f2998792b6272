#include "steps.h"

#include <cstring>

#include "thread_pool.h"

namespace xpr {

void fill_memory(uint8_t* target, size_t length, uint64_t pattern, uint8_t pattern_length) {
  if (pattern_length == 1) {
    std::memset(target, static_cast<int>(pattern & 0xFF), length);
    return;
  }
  for (size_t i = 0; i < length; i += pattern_length) {
    std::memcpy(target + i, &pattern, pattern_length);
  }
}

Ref<BufferObject> Runner::allocate(size_t size) {
  Ref<Memory> memory = Memory::allocate(size);
  uint8_t* data = memory->data();
  return Ref(new BufferObject(std::move(memory), data, size));
}

void Runner::dispatch(const Dispatch& dispatch, const uint32_t* constants,
                      const Operand* bindings) {
  void* places[kMostBindings];
  size_t lengths[kMostBindings];
  for (int i = 0; i < dispatch.binding_count; ++i) {
    places[i] = bindings[i].buffer->data + bindings[i].offset;
    lengths[i] = bindings[i].length;
  }
  // The turn ends with the kernel: between two of them others may be waited for.
  PoolTurn turn(parallel_);
  if (run_kernel(dispatch, constants, places, lengths, turn.pool()) != 0) {
    throw ProgramError("a kernel of the program failed");
  }
}

void Runner::fill(const Operand& target, uint64_t pattern, uint8_t pattern_length) {
  fill_memory(target.buffer->data + target.offset, target.length, pattern, pattern_length);
}

void Runner::copy(const Operand& source, const Operand& target) {
  std::memmove(target.buffer->data + target.offset, source.buffer->data + source.offset,
               target.length);
}

uint32_t Runner::load(const Operand& source) {
  uint32_t value = 0;
  std::memcpy(&value, source.buffer->data + source.offset, source.length);
  return value;
}

}  // namespace xpr
