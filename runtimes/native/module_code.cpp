// Decodes all of a module and checks its calls, so that running it need not.
#include <cstring>

#include "interpreter.h"
#include "refusal.h"

namespace xpr {
namespace {

constexpr uint16_t kNoSegment = 0xFFFF;
constexpr uint32_t kImported = 0x80000000u;

// The functions of this process are those of a module of this name.
constexpr std::string_view kHostModule = "xpr.";

// As compiled programs call a function of this process.
std::string calling_of(const HostFunction& function) {
  std::string made = "0";
  auto add = [&made](size_t count) { made.append(count ? count : 1, count ? 'r' : 'v'); };
  add(function.inputs.size());
  made += '_';
  add(function.outputs.size());
  return made;
}

Import import_of(const ImportedFunction& source, const std::vector<HostFunction>& host) {
  Import import;
  import.entry = find_hal_function(source.name, source.calling);
  for (size_t i = 0; i < host.size() && source.name.starts_with(kHostModule); ++i) {
    bool same = source.name.substr(kHostModule.size()) == host[i].symbol;
    if (!same || source.calling != calling_of(host[i])) continue;
    import.host = &host[i];
    import.host_number = i;
  }
  if (!import.entry && !import.host) {
    throw Refusal("it calls " + source.name + ", which is not known");
  }
  std::string_view calling = source.calling;
  size_t middle = calling.find('_');
  import.operands = calling.substr(1, middle - 1);
  import.results = calling.substr(middle + 1);
  if (import.operands == "v") import.operands.clear();
  if (import.results == "v") import.results.clear();
  for (char c : import.operands) import.spans += c == 'C';
  return import;
}

char kind_of(uint16_t r) { return r & kReference ? 'r' : 'i'; }

}  // namespace

ModuleCode::ModuleCode(Bytes file, const std::vector<HostFunction>& host) {
  bytes_ = Memory::allocate(file.size);
  std::memcpy(bytes_->data(), file.data, file.size);
  file_ = ModuleFile::read({bytes_->data(), file.size});
  for (const ImportedFunction& import : file_.imports) imports_.push_back(import_of(import, host));
  for (Bytes constant : file_.constants) {
    constants_.push_back(Reference(new BytesObject(constant)));
  }
  for (const ByteCodeFunction& function : file_.functions) {
    functions_.push_back(decode(file_, function));
  }
  for (const Function& function : functions_) {
    for (const Instruction& i : function.instructions) {
      if (i.op == Op::kCall || i.op == Op::kCallVariadic || i.op == Op::kCallYieldable ||
          i.op == Op::kCallVariadicYieldable) {
        check_call(function, i);
      } else if (i.op == Op::kReturn) {
        require(i.first.count == function.result_types.size(), "a function returns too little");
        for (uint32_t k = 0; k < i.first.count; ++k) {
          uint16_t r = function.registers[i.first.start + k];
          char type = function.result_types[k];
          require(kind_of(r) == (type == 'r' ? 'r' : 'i'), "a function returns another kind");
          require(type != 'I' || r + 2u <= function.integer_registers, "a register does not exist");
        }
      } else if (i.op == Op::kDiscardRefs) {
        for (uint32_t k = 0; k < i.first.count; ++k) {
          require(kind_of(function.registers[i.first.start + k]) == 'r',
                  "a register is of another kind");
        }
      }
    }
  }
}

void ModuleCode::check_call(const Function& function, const Instruction& call) const {
  bool variadic = call.op == Op::kCallVariadic || call.op == Op::kCallVariadicYieldable;
  bool imported = call.value & kImported;
  std::string operands, results;
  if (imported) {
    const Import& import = imports_[call.value & ~kImported];
    results = import.results;
    if (import.spans == 0) {
      require(!variadic, "a call repeats what may not be repeated");
      operands = import.operands;
    } else {
      require(variadic, "a call does not say how often it repeats");
      uint32_t segment = 0;
      for (size_t at = 0; at < import.operands.size(); ++segment) {
        require(segment < call.first.count, "a call does not say how often it repeats");
        uint16_t count = function.registers[call.first.start + segment];
        if (import.operands[at] != 'C') {
          require(count == kNoSegment, "a call repeats what may not be repeated");
          operands += import.operands[at++];
          continue;
        }
        size_t end = import.operands.find('D', at);
        require(count <= 4096, "a call repeats too often");
        for (uint16_t k = 0; k < count; ++k) {
          operands += import.operands.substr(at + 1, end - at - 1);
        }
        at = end + 1;
      }
      require(segment == call.first.count, "a call repeats what may not be repeated");
    }
  } else {
    require(!variadic, "a call repeats what may not be repeated");
    operands = functions_.size() > call.value ? functions_[call.value].operand_types : "";
    results = functions_.size() > call.value ? functions_[call.value].result_types : "";
  }
  auto check = [&function](Registers registers, const std::string& types) {
    require(registers.count == types.size(), "a call has another number of operands or results");
    for (uint32_t k = 0; k < registers.count; ++k) {
      uint16_t r = function.registers[registers.start + k];
      require(kind_of(r) == (types[k] == 'r' ? 'r' : 'i'), "a call passes another kind");
      require(types[k] != 'I' || r + 2u <= function.integer_registers, "a register does not exist");
    }
  };
  check(call.second, operands);
  check(call.third, results);
}

size_t ModuleCode::find(std::string_view name) const {
  for (const ExportedFunction& exported : file_.exports) {
    if (exported.name == name) return exported.ordinal;
  }
  throw Refusal("it has no function " + std::string(name));
}

}  // namespace xpr
