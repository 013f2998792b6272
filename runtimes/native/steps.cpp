#include "steps.h"

#include <algorithm>
#include <cstring>

#include "thread_pool.h"

namespace xpr {
namespace {

constexpr size_t kPart = size_t{1} << 17;       // what one thread copies at a time
constexpr size_t kManyBytes = size_t{1} << 19;  // waking another thread takes as long as less

// One piece of the work for each part of the target, by the pool where that pays.
int for_parts(ThreadPool::Piece piece, void* context, size_t length, ThreadPool* pool) {
  uint64_t parts = (length + kPart - 1) / kPart;
  if (pool && length >= kManyBytes) return pool->run(piece, context, parts);
  for (uint64_t i = 0; i < parts; ++i) piece(context, i);
  return 0;
}

struct Copied {
  uint8_t* target;
  const uint8_t* source;
  size_t length;
};

int copy_part(void* context, uint64_t i) {
  auto* copied = static_cast<const Copied*>(context);
  size_t start = i * kPart;
  std::memcpy(copied->target + start, copied->source + start,
              std::min(kPart, copied->length - start));
  return 0;
}

struct Filled {
  uint8_t* target;
  size_t length;
  uint8_t pattern[4096];  // as often as there is room: its length is a power of two
};

int fill_part(void* context, uint64_t i) {
  auto* filled = static_cast<const Filled*>(context);
  size_t end = std::min((i + 1) * kPart, filled->length);
  for (size_t start = i * kPart; start < end; start += sizeof(filled->pattern)) {
    std::memcpy(filled->target + start, filled->pattern,
                std::min(sizeof(filled->pattern), end - start));
  }
  return 0;
}

}  // namespace

void copy_memory(uint8_t* target, const uint8_t* source, size_t length, ThreadPool* pool) {
  if (target + length <= source || source + length <= target) {
    Copied copied{target, source, length};
    for_parts(&copy_part, &copied, length, pool);
  } else {
    std::memmove(target, source, length);
  }
}

void fill_memory(uint8_t* target, size_t length, uint64_t pattern, uint8_t pattern_length,
                 ThreadPool* pool) {
  if (pattern_length == 1 && length < kManyBytes) {
    std::memset(target, static_cast<int>(pattern & 0xFF), length);
    return;
  }
  Filled filled;  // not initialised: a short one would take longer for that
  filled.target = target;
  filled.length = length;
  for (size_t i = 0; i < std::min(length, sizeof(filled.pattern)); i += pattern_length) {
    std::memcpy(filled.pattern + i, &pattern, pattern_length);
  }
  for_parts(&fill_part, &filled, length, pool);
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
  PoolTurn turn(parallel_ && target.length >= kManyBytes);
  fill_memory(target.buffer->data + target.offset, target.length, pattern, pattern_length,
              turn.pool());
}

void Runner::copy(const Operand& source, const Operand& target) {
  PoolTurn turn(parallel_ && target.length >= kManyBytes);
  copy_memory(target.buffer->data + target.offset, source.buffer->data + source.offset,
              target.length, turn.pool());
}

uint32_t Runner::load(const Operand& source) {
  uint32_t value = 0;
  std::memcpy(&value, source.buffer->data + source.offset, source.length);
  return value;
}

}  // namespace xpr
