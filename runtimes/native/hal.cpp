#include "hal.h"

#include <cstring>
#include <unordered_map>

namespace xpr {
namespace {

constexpr uint64_t kWholeBuffer = ~uint64_t{0};
constexpr size_t kLargestAllocation = size_t{1} << 46;

#if defined(__x86_64__)
constexpr char kFormat[] = "embedded-elf-x86_64";
#else
constexpr char kFormat[] = "embedded-elf-arm_64";
#endif

// All that a reference to a device, an allocator or a fence has to be is not null. Work is done
// when its call returns, so fences have nothing to tell.
Reference the_marker() {
  static const Reference marker(new Marker);
  return marker;
}

Operand checked(BufferObject* buffer, uint64_t offset, uint64_t length) {
  require(buffer != nullptr, "it uses no buffer where one is needed");
  require(offset <= buffer->size, "it reads outside of a buffer");
  if (length == kWholeBuffer) length = buffer->size - offset;
  require(length <= buffer->size - offset, "it reads outside of a buffer");
  return {buffer, offset, length};
}

Operand checked(Object* buffer, uint64_t offset, uint64_t length) {
  return checked(&as<BufferObject>(buffer), offset, length);
}

uint8_t checked_pattern(uint64_t length, const Operand& target) {
  require(length == 1 || length == 2 || length == 4 || length == 8, "a pattern is not known");
  require(target.length % length == 0, "a pattern does not fit");
  return static_cast<uint8_t>(length);
}

}  // namespace

struct HalTable {
  std::unordered_map<std::string, HalEntry> entries;

  HalTable() {
    const HalEntry all[] = {
        {"hal.allocator.allocate", "0rIiiI_r", &Hal::allocator_allocate},
        {"hal.allocator.import", "0riIiirII_r", &Hal::allocator_import},
        {"hal.buffer.assert", "0rrrIii_v", &Hal::buffer_assert},
        {"hal.buffer.length", "0r_I", &Hal::buffer_length},
        {"hal.buffer.load", "0rIi_i", &Hal::buffer_load},
        {"hal.buffer.subspan", "0rII_r", &Hal::buffer_subspan},
        {"hal.buffer_view.assert", "0rriiCID_v", &Hal::view_assert},
        {"hal.buffer_view.buffer", "0r_r", &Hal::view_buffer},
        {"hal.buffer_view.create", "0rIIiiCID_r", &Hal::view_create},
        {"hal.buffer_view.dim", "0ri_I", &Hal::view_dim},
        {"hal.command_buffer.copy_buffer", "0riirIrIII_v", &Hal::commands_copy},
        {"hal.command_buffer.create", "0riiIi_r", &Hal::commands_create},
        {"hal.command_buffer.dispatch", "0rrIiiiICiDCiirIID_v", &Hal::commands_dispatch},
        {"hal.command_buffer.execution_barrier", "0riiI_v", &Hal::nothing},
        {"hal.command_buffer.fill_buffer", "0rrIIiIiI_v", &Hal::commands_fill},
        {"hal.command_buffer.finalize", "0r_v", &Hal::commands_finalize},
        {"hal.device.allocator", "0r_r", &Hal::marker},
        {"hal.device.query.i64", "0rrr_iI", &Hal::device_query},
        {"hal.device.queue.alloca", "0rIrrIiiII_r", &Hal::queue_alloca},
        {"hal.device.queue.copy", "0rIrrrIrIII_v", &Hal::queue_copy},
        {"hal.device.queue.dealloca", "0rIrrrI_v", &Hal::nothing},
        {"hal.device.queue.execute", "0rIrrrI_v", &Hal::queue_execute},
        {"hal.device.queue.execute.indirect", "0rIrrrICrIID_v", &Hal::queue_execute_indirect},
        {"hal.device.queue.fill", "0rIrrrIIIiI_v", &Hal::queue_fill},
        {"hal.device.queue.read", "0rIrrrIrIII_v", &Hal::queue_read},
        {"hal.devices.count", "0v_i", &Hal::devices_count},
        {"hal.devices.get", "0i_r", &Hal::marker},
        {"hal.ex.file.from_memory", "0rIirIIi_r", &Hal::file_from_memory},
        {"hal.executable.create", "0rIrrr_r", &Hal::executable_create},
        {"hal.executable.lookup.function", "0rr_I", &Hal::executable_lookup},
        {"hal.fence.await", "0iICrD_i", &Hal::zero},
        {"hal.fence.create", "0rI_r", &Hal::marker},
        {"hal.fence.join", "0ICrD_r", &Hal::marker},
    };
    for (const HalEntry& entry : all) entries.emplace(entry.name, entry);
  }
};

const HalEntry* find_hal_function(const std::string& name, const std::string& calling) {
  static const HalTable table;
  auto found = table.entries.find(name);
  if (found == table.entries.end() || calling != found->second.calling) return nullptr;
  return &found->second;
}

void Hal::marker(const Arguments&, Value* results) { results[0].reference = the_marker(); }

void Hal::zero(const Arguments&, Value* results) { results[0].number = 0; }

void Hal::devices_count(const Arguments&, Value* results) { results[0].number = 1; }

void Hal::device_query(const Arguments& arguments, Value* results) {
  auto category = as<BytesObject>(arguments.ref(1)).bytes.text();
  auto key = as<BytesObject>(arguments.ref(2)).bytes.text();
  results[0].number = 1;
  if (category == "hal.device.id") {
    results[1].number = key == "local*" || key == "*";
  } else if (category == "hal.executable.format") {
    results[1].number = key == kFormat;
  } else {
    throw Refusal("it asks for something that is not known");
  }
}

void Hal::view_assert(const Arguments& arguments, Value*) {
  auto& view = as<ViewObject>(arguments.ref(0));
  size_t bits = arguments.i32(2) & 0xFF;
  bool same = bits == view.element_bits && arguments.count - 4 == view.shape.size();
  for (size_t i = 0; same && i < view.shape.size(); ++i) {
    same = arguments.i64(4 + i) == static_cast<uint64_t>(view.shape[i]);
  }
  if (!same) {
    std::string which(as<BytesObject>(arguments.ref(1)).bytes.text());
    throw Refusal(which + " has another type than the program is for");
  }
}

void Hal::view_buffer(const Arguments& arguments, Value* results) {
  results[0].reference = as<ViewObject>(arguments.ref(0)).buffer;
}

void Hal::view_create(const Arguments& arguments, Value* results) {
  auto& buffer = as<BufferObject>(arguments.ref(0));
  Operand range = checked(&buffer, arguments.i64(1), arguments.i64(2));
  require(arguments.count - 5 <= 64, "an array has too many axes");
  std::vector<int64_t> shape;
  for (size_t i = 5; i < arguments.count; ++i) {
    shape.push_back(static_cast<int64_t>(arguments.i64(i)));
  }
  bool whole = range.offset == 0 && range.length == buffer.size;
  Ref<BufferObject> part = whole ? Ref(&buffer) : buffer.part(range.offset, range.length);
  results[0].reference =
      Reference(new ViewObject(std::move(part), arguments.i32(3) & 0xFF, std::move(shape)));
}

void Hal::view_dim(const Arguments& arguments, Value* results) {
  auto& view = as<ViewObject>(arguments.ref(0));
  size_t axis = arguments.i32(1);
  require(axis < view.shape.size(), "an axis does not exist");
  results[0].number = static_cast<uint64_t>(view.shape[axis]);
}

void Hal::buffer_assert(const Arguments& arguments, Value*) {
  require(as<BufferObject>(arguments.ref(0)).size >= arguments.i64(3), "a buffer is too small");
}

void Hal::buffer_length(const Arguments& arguments, Value* results) {
  results[0].number = as<BufferObject>(arguments.ref(0)).size;
}

void Hal::buffer_load(const Arguments& arguments, Value* results) {
  uint64_t bytes = arguments.i32(2);
  require(bytes == 1 || bytes == 2 || bytes == 4, "a value on the host is not known");
  results[0].number = steps_.load(checked(arguments.ref(0), arguments.i64(1), bytes));
}

void Hal::buffer_subspan(const Arguments& arguments, Value* results) {
  Operand range = checked(arguments.ref(0), arguments.i64(1), arguments.i64(2));
  results[0].reference = range.buffer->part(range.offset, range.length);
}

void Hal::allocator_allocate(const Arguments& arguments, Value* results) {
  require(arguments.i64(4) <= kLargestAllocation, "it needs too much memory");
  results[0].reference = steps_.allocate(arguments.i64(4));
}

void Hal::allocator_import(const Arguments& arguments, Value* results) {
  Bytes source = as<BytesObject>(arguments.ref(5)).bytes;
  uint64_t offset = arguments.i64(6), length = arguments.i64(7);
  require(offset <= source.size, "it reads outside of a constant");
  if (length == kWholeBuffer) length = source.size - offset;
  require(length <= source.size - offset, "it reads outside of a constant");
  auto* place = const_cast<uint8_t*>(source.data + offset);
  if (reinterpret_cast<uintptr_t>(place) % kAlignment != 0) {
    results[0].reference = {};  // the module copies it then
    return;
  }
  results[0].reference = Reference(new BufferObject(Ref<Memory>(), place, length));
}

void Hal::file_from_memory(const Arguments& arguments, Value* results) {
  Bytes source = as<BytesObject>(arguments.ref(3)).bytes;
  uint64_t offset = arguments.i64(4), length = arguments.i64(5);
  require(offset <= source.size && length <= source.size - offset,
          "it reads outside of a constant");
  results[0].reference = Reference(new FileObject({source.data + offset, length}));
}

void Hal::commands_create(const Arguments&, Value* results) {
  results[0].reference = Reference(new CommandsObject);
}

void Hal::commands_finalize(const Arguments& arguments, Value*) {
  as<CommandsObject>(arguments.ref(0)).is_final = true;
}

namespace {

CommandsObject& open_commands(Object* object) {
  auto& commands = as<CommandsObject>(object);
  require(!commands.is_final && commands.commands.size() < (1u << 20),
          "it adds commands to a list that is closed");
  return commands;
}

Range range_of(Object* buffer, uint32_t slot, uint64_t offset, uint64_t length) {
  Range range;
  if (buffer) range.buffer = Ref(&as<BufferObject>(buffer));
  range.slot = slot;
  range.offset = offset;
  range.length = length;
  return range;
}

Operand resolved(const Range& range, const std::vector<Range>& table) {
  if (range.buffer) return checked(range.buffer.get(), range.offset, range.length);
  require(range.slot < table.size(), "it uses a buffer that was not given");
  const Range& given = table[range.slot];
  Operand whole = checked(given.buffer.get(), given.offset, given.length);
  require(range.offset <= whole.length, "it reads outside of a buffer");
  uint64_t length = range.length == kWholeBuffer ? whole.length - range.offset : range.length;
  require(length <= whole.length - range.offset, "it reads outside of a buffer");
  return {whole.buffer, whole.offset + range.offset, length};
}

}  // namespace

void Hal::commands_dispatch(const Arguments& arguments, Value*) {
  auto& commands = open_commands(arguments.ref(0));
  auto& executable = as<ExecutableObject>(arguments.ref(1));
  Command command;
  Dispatch& dispatch = command.dispatch;
  for (size_t i = 0; i < 3; ++i) dispatch.count[i] = arguments.i32(3 + i);
  require(dispatch.count[2] <= UINT16_MAX, "a kernel runs on too many groups");
  require(arguments.i64(6) == 0, "a kernel is run in a way that is not known");
  // Behind the fixed arguments: how many constants, these, then five values for each binding.
  size_t constants = arguments.i32(7);
  size_t bindings = (arguments.count - 8 - constants) / 5;
  require(constants <= UINT8_MAX && bindings <= kMostBindings, "a kernel takes too much");
  if (opens_code_) {
    uint64_t kernel = arguments.i64(2);
    require(kernel < executable.image.kernel_count(), "a kernel does not exist");
    const Library& library = executable.image.library();
    const KernelAttributes& attributes = library.attributes[kernel];
    require(attributes.constant_count == constants && attributes.binding_count == bindings,
            "a kernel takes other things than it is given");
    dispatch.kernel = library.kernels[kernel];
    dispatch.name = library.names[kernel];
  } else {
    dispatch.kernel = &touch_bindings;
    for (uint32_t& count : dispatch.count) count = 1;
  }
  dispatch.constant_count = static_cast<uint16_t>(constants);
  dispatch.binding_count = static_cast<uint8_t>(bindings);
  for (size_t i = 0; i < constants; ++i) command.constants.push_back(arguments.i32(8 + i));
  for (size_t i = 0; i < bindings; ++i) {
    size_t at = 8 + constants + 5 * i;
    command.ranges.push_back(range_of(arguments.ref(at + 2), arguments.i32(at + 1),
                                      arguments.i64(at + 3), arguments.i64(at + 4)));
  }
  commands.commands.push_back(std::move(command));
  commands.executables.emplace_back(&executable);
}

void Hal::commands_fill(const Arguments& arguments, Value*) {
  Command command;
  command.what = Command::What::kFill;
  command.ranges.push_back(
      range_of(arguments.ref(1), arguments.i32(4), arguments.i64(2), arguments.i64(3)));
  command.pattern = arguments.i64(5);
  command.pattern_length = static_cast<uint8_t>(arguments.i32(6));
  open_commands(arguments.ref(0)).commands.push_back(std::move(command));
}

void Hal::commands_copy(const Arguments& arguments, Value*) {
  Command command;
  command.what = Command::What::kCopy;
  uint64_t length = arguments.i64(7);
  command.ranges.push_back(range_of(arguments.ref(3), arguments.i32(1), arguments.i64(4), length));
  command.ranges.push_back(range_of(arguments.ref(5), arguments.i32(2), arguments.i64(6), length));
  open_commands(arguments.ref(0)).commands.push_back(std::move(command));
}

void Hal::executable_create(const Arguments& arguments, Value* results) {
  require(as<BytesObject>(arguments.ref(2)).bytes.text() == kFormat,
          "the machine code is for another processor");
  Object* constants = arguments.ref(4);
  require(!constants || as<BytesObject>(constants).bytes.size == 0, "its kernels need something");
  Ref<ExecutableObject> made(new ExecutableObject(as<BytesObject>(arguments.ref(3)).bytes));
  if (opens_code_) made->image.open();
  results[0].reference = made;
}

void Hal::executable_lookup(const Arguments& arguments, Value* results) {
  auto& executable = as<ExecutableObject>(arguments.ref(0));
  int64_t found = executable.image.find(as<BytesObject>(arguments.ref(1)).bytes.text());
  require(found >= 0 || !opens_code_, "a kernel does not exist");
  results[0].number = static_cast<uint64_t>(found);
}

void Hal::queue_alloca(const Arguments& arguments, Value* results) {
  require(arguments.i64(7) <= kLargestAllocation, "it needs too much memory");
  results[0].reference = steps_.allocate(arguments.i64(7));
}

void Hal::queue_fill(const Arguments& arguments, Value*) {
  Operand target = checked(arguments.ref(4), arguments.i64(5), arguments.i64(6));
  steps_.fill(target, arguments.i64(7), checked_pattern(arguments.i32(8), target));
}

void Hal::queue_copy(const Arguments& arguments, Value*) {
  uint64_t length = arguments.i64(8);
  Operand source = checked(arguments.ref(4), arguments.i64(5), length);
  Operand target = checked(arguments.ref(6), arguments.i64(7), length);
  require(source.length == target.length, "a copy does not fit");
  steps_.copy(source, target);
}

void Hal::queue_read(const Arguments& arguments, Value*) {
  Bytes file = as<FileObject>(arguments.ref(4)).bytes;
  uint64_t offset = arguments.i64(5), length = arguments.i64(8);
  Operand target = checked(arguments.ref(6), arguments.i64(7), length);
  require(offset <= file.size && target.length <= file.size - offset,
          "it reads outside of a constant");
  auto* data = const_cast<uint8_t*>(file.data + offset);
  Ref<BufferObject> source(new BufferObject(Ref<Memory>(), data, target.length));
  steps_.copy({source.get(), 0, target.length}, target);
}

void Hal::queue_execute(const Arguments& arguments, Value*) {
  if (!arguments.ref(4)) return;  // a barrier
  execute(as<CommandsObject>(arguments.ref(4)), {});
}

void Hal::queue_execute_indirect(const Arguments& arguments, Value*) {
  std::vector<Range> table;
  for (size_t i = 6; i + 2 < arguments.count; i += 3) {
    table.push_back(range_of(arguments.ref(i), 0, arguments.i64(i + 1), arguments.i64(i + 2)));
  }
  execute(as<CommandsObject>(arguments.ref(4)), table);
}

void Hal::execute(CommandsObject& commands, const std::vector<Range>& table) {
  require(commands.is_final, "it runs a list of commands that is not closed");
  for (const Command& command : commands.commands) {
    switch (command.what) {
      case Command::What::kDispatch: {
        Operand bindings[kMostBindings];
        for (size_t i = 0; i < command.ranges.size(); ++i) {
          bindings[i] = resolved(command.ranges[i], table);
        }
        steps_.dispatch(command.dispatch, command.constants.data(), bindings);
        break;
      }
      case Command::What::kFill: {
        Operand target = resolved(command.ranges[0], table);
        steps_.fill(target, command.pattern, checked_pattern(command.pattern_length, target));
        break;
      }
      case Command::What::kCopy: {
        Operand source = resolved(command.ranges[0], table);
        Operand target = resolved(command.ranges[1], table);
        require(source.length == target.length, "a copy does not fit");
        steps_.copy(source, target);
        break;
      }
    }
  }
}

void Hal::call_host(const HostFunction& function, size_t number, const Arguments& arguments,
                    Value* results) {
  if (!host_) throw NeedsValues("it calls a function of this process");
  std::vector<Block> given;
  for (size_t i = 0; i < arguments.count; ++i) {
    auto& view = as<ViewObject>(arguments.ref(i));
    BufferObject& buffer = *view.buffer;
    const ArrayType& type = function.inputs[i];
    if (view.shape != type.shape || buffer.size != type.bytes()) {
      throw ProgramError("a function of this process gets another type than it takes");
    }
    if (buffer.memory) {
      given.push_back({buffer.memory, buffer.data, buffer.size});
    } else {  // a constant, whose memory nobody may keep
      Ref<Memory> memory = Memory::allocate(buffer.size);
      uint8_t* data = memory->data();
      if (buffer.size) std::memcpy(data, buffer.data, buffer.size);
      given.push_back({std::move(memory), data, buffer.size});
    }
  }
  std::vector<Block> made = host_->call(number, std::move(given));
  if (made.size() != function.outputs.size()) {
    throw ProgramError("a function of this process returns another number of arrays");
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const ArrayType& type = function.outputs[i];
    Block& block = made[i];
    if (block.size != type.bytes() || reinterpret_cast<uintptr_t>(block.data) % kAlignment != 0) {
      throw ProgramError("a function of this process returns another type than it is to return");
    }
    Ref<BufferObject> buffer(new BufferObject(std::move(block.memory), block.data, block.size));
    results[i].reference =
        Reference(new ViewObject(std::move(buffer), 8 * type.item_size, type.shape));
  }
}

}  // namespace xpr
