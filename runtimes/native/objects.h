// What a module's functions hand to each other: buffers, views of them, lists of commands, ...
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "elf_image.h"
#include "memory.h"
#include "module_file.h"
#include "refusal.h"

namespace xpr {

enum class Kind : uint8_t {
  kMarker,  // a device, an allocator, a fence: things that carry nothing here
  kBytes,
  kBuffer,
  kView,
  kExecutable,
  kCommands,
  kFile,
};

class Object : public Counted {
 public:
  const Kind kind;

 protected:
  explicit Object(Kind which) : kind(which) {}
};

using Reference = Ref<Object>;

// The object as one of a class; throws Refusal when it is another or none.
template <typename T>
T& as(Object* object) {
  require(object && object->kind == T::kKind, "it uses an object as one of another kind");
  return *static_cast<T*>(object);
}

class Marker final : public Object {
 public:
  Marker() : Object(Kind::kMarker) {}
};

// Data of the module's file.
class BytesObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kBytes;
  explicit BytesObject(Bytes what) : Object(kKind), bytes(what) {}
  const Bytes bytes;
};

// Memory that kernels work on. While a schedule is recorded it is known by a number alone.
class BufferObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kBuffer;
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  // A buffer over real memory, which `memory` keeps.
  BufferObject(Ref<Memory> kept, uint8_t* start, size_t bytes)
      : Object(kKind), memory(std::move(kept)), data(start), size(bytes) {}
  // A buffer that is known by a number.
  BufferObject(uint32_t number, size_t begin, size_t bytes)
      : Object(kKind), size(bytes), slot(number), offset(begin) {}

  Ref<BufferObject> part(size_t begin, size_t length) const {
    require(begin <= size && length <= size - begin, "it reads outside of a buffer");
    if (slot != kNoSlot) return Ref(new BufferObject(slot, offset + begin, length));
    return Ref(new BufferObject(memory, data + begin, length));
  }

  Ref<Memory> memory;
  uint8_t* data = nullptr;
  size_t size = 0;
  uint32_t slot = kNoSlot;
  size_t offset = 0;  // in the slot
};

class ViewObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kView;
  ViewObject(Ref<BufferObject> what, size_t bits, std::vector<int64_t> extents)
      : Object(kKind), buffer(std::move(what)), element_bits(bits), shape(std::move(extents)) {}
  const Ref<BufferObject> buffer;
  const size_t element_bits;
  const std::vector<int64_t> shape;
};

class ExecutableObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kExecutable;
  explicit ExecutableObject(Bytes file) : Object(kKind), image(file) {}
  ElfImage image;
};

class FileObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kFile;
  explicit FileObject(Bytes what) : Object(kKind), bytes(what) {}
  const Bytes bytes;
};

// A range of a buffer, or of the buffer that a table names when the commands run.
struct Range {
  Ref<BufferObject> buffer;
  uint32_t slot = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct Command {
  enum class What : uint8_t { kDispatch, kFill, kCopy } what = What::kDispatch;
  uint8_t pattern_length = 0;
  Dispatch dispatch;
  uint64_t pattern = 0;
  std::vector<uint32_t> constants;
  std::vector<Range> ranges;  // bindings; the target; source and target
};

class CommandsObject final : public Object {
 public:
  static constexpr Kind kKind = Kind::kCommands;
  CommandsObject() : Object(kKind) {}
  std::vector<Command> commands;
  std::vector<Ref<ExecutableObject>> executables;  // which hold the kernels
  bool is_final = false;
};

}  // namespace xpr
