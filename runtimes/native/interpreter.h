// Runs the functions of a module: its byte code, with the functions of `hal` done in hal.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hal.h"
#include "module_file.h"
#include "vm_code.h"

namespace xpr {

// A function that the module imports.
struct Import {
  const HalEntry* entry = nullptr;
  const HostFunction* host = nullptr;  // where it is a function of this process
  size_t host_number = 0;
  std::string operands;  // the types, in which a part between C and D may be repeated
  std::string results;
  size_t spans = 0;
};

// A module's code and constants, which never change.
class ModuleCode {
 public:
  // Keeps a copy of the file, and refers to `host`; throws Refusal for what is not known.
  ModuleCode(Bytes file, const std::vector<HostFunction>& host);

  const Function& function(size_t number) const { return functions_[number]; }
  const Import& import(size_t number) const { return imports_[number]; }
  const Reference& constant(size_t number) const { return constants_[number]; }
  const ModuleFile& file() const { return file_; }

  // The exported function of that name; throws Refusal if there is none.
  size_t find(std::string_view name) const;

 private:
  void check_call(const Function& function, const Instruction& call) const;

  Ref<Memory> bytes_;
  ModuleFile file_;
  std::vector<Function> functions_;
  std::vector<Import> imports_;
  std::vector<Reference> constants_;
};

// The variables of a module.
struct Globals {
  std::vector<uint8_t> bytes;
  std::vector<Reference> references;
};

class Interpreter {
 public:
  // `may_store`: whether the functions may change variables.
  Interpreter(const ModuleCode& code, Globals& globals, Hal& hal, bool may_store)
      : code_(code), globals_(globals), hal_(hal), may_store_(may_store) {}

  // Stops with a Refusal after so many instructions; 0 never stops.
  void limit(uint64_t instructions) { left_ = instructions; }

  // Calls a function; throws Refusal for what is not known, ProgramError for what fails.
  std::vector<Value> call(size_t number, std::vector<Value> arguments);

 private:
  void run(const Function& function, std::vector<Value>& values, int depth);
  void call_import(const Function& function, const Instruction& call, uint32_t* integers,
                   Reference* references);

  const ModuleCode& code_;
  Globals& globals_;
  Hal& hal_;
  bool may_store_;
  uint64_t left_ = 0;
  std::vector<Value> arguments_;
};

}  // namespace xpr
