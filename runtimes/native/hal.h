// The functions of IREE's module `hal` that compiled modules call, done here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host_calls.h"
#include "objects.h"
#include "steps.h"

namespace xpr {

// A value that goes to or comes from a function: a number, or a reference.
struct Value {
  uint64_t number = 0;
  Reference reference;
};

// The arguments of a call, in the order of the calling convention, and how many values each part
// of it has that may be repeated.
struct Arguments {
  const Value* values;
  size_t count;

  uint32_t i32(size_t i) const { return static_cast<uint32_t>(values[i].number); }
  uint64_t i64(size_t i) const { return values[i].number; }
  Object* ref(size_t i) const { return values[i].reference.get(); }
};

class Hal;
using HalFunction = void (Hal::*)(const Arguments&, Value* results);

struct HalEntry {
  const char* name;
  const char* calling;
  HalFunction function;
};

// The function of that name and convention; null when it is not known.
const HalEntry* find_hal_function(const std::string& name, const std::string& calling);

class Hal {
 public:
  // `host` calls functions of this process; without it a program that calls one needs values.
  Hal(Steps& steps, bool opens_code, HostCalls* host = nullptr)
      : steps_(steps), opens_code_(opens_code), host_(host) {}

  // Throws Refusal for what is not known, ProgramError for what fails.
  void call(const HalEntry& entry, const Arguments& arguments, Value* results) {
    (this->*entry.function)(arguments, results);
  }

  // The same for the function of this process with that number.
  void call_host(const HostFunction& function, size_t number, const Arguments& arguments,
                 Value* results);

 private:
  friend struct HalTable;

  void nothing(const Arguments&, Value*) {}
  void marker(const Arguments&, Value* results);
  void zero(const Arguments&, Value* results);
  void devices_count(const Arguments&, Value* results);
  void device_query(const Arguments&, Value* results);
  void view_assert(const Arguments&, Value*);
  void view_buffer(const Arguments&, Value* results);
  void view_create(const Arguments&, Value* results);
  void view_dim(const Arguments&, Value* results);
  void buffer_assert(const Arguments&, Value*);
  void buffer_length(const Arguments&, Value* results);
  void buffer_load(const Arguments&, Value* results);
  void buffer_subspan(const Arguments&, Value* results);
  void allocator_allocate(const Arguments&, Value* results);
  void allocator_import(const Arguments&, Value* results);
  void file_from_memory(const Arguments&, Value* results);
  void commands_create(const Arguments&, Value* results);
  void commands_finalize(const Arguments&, Value*);
  void commands_dispatch(const Arguments&, Value*);
  void commands_fill(const Arguments&, Value*);
  void commands_copy(const Arguments&, Value*);
  void executable_create(const Arguments&, Value* results);
  void executable_lookup(const Arguments&, Value* results);
  void queue_alloca(const Arguments&, Value* results);
  void queue_fill(const Arguments&, Value*);
  void queue_copy(const Arguments&, Value*);
  void queue_read(const Arguments&, Value*);
  void queue_execute(const Arguments&, Value*);
  void queue_execute_indirect(const Arguments&, Value*);

  void execute(CommandsObject& commands, const std::vector<Range>& table);

  Steps& steps_;
  bool opens_code_;
  HostCalls* host_;
};

}  // namespace xpr
