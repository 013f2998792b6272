#include "vm_code.h"

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "refusal.h"

namespace xpr {
namespace {

// What follows an instruction's number; the letters are described in the table of instructions.
struct Form {
  const char* operands = nullptr;
};

struct Forms {
  Form of[256];

  Forms() {
#define XPR_OPCODE(name, code, form) of[code].operands = form;
#define XPR_OTHER(name, code, form)
#include "../../lowering/iree/versions/vm_17.def"
#undef XPR_OPCODE
#undef XPR_OTHER
  }
};

class Decoder {
 public:
  Decoder(const ModuleFile& module, const ByteCodeFunction& source)
      : module_(module), source_(source), code_(source.code) {
    made_.integer_registers = source.integer_registers;
    made_.reference_registers = source.reference_registers;
  }

  Function decode() {
    read_types();
    while (at_ < code_.size) {
      starts_.emplace(static_cast<uint32_t>(at_), made_.instructions.size());
      read_instruction();
    }
    require(!made_.instructions.empty(), "a function is empty");
    require(ends(made_.instructions.back().op), "a function has no end");
    for (Instruction& i : made_.instructions) link(i);
    return std::move(made_);
  }

 private:
  static bool ends(Op op) { return branches(op) || op == Op::kReturn || op == Op::kFail; }
  static bool branches(Op op) {
    return op == Op::kBranch || op == Op::kCondBranch || op == Op::kBranchTable ||
           op == Op::kCallYieldable || op == Op::kCallVariadicYieldable;
  }

  void read_types() {
    const std::string& calling = source_.calling;
    size_t middle = calling.find('_');
    require(!calling.empty() && calling[0] == '0' && middle != std::string::npos,
            "a calling convention is not known");
    auto types = [](std::string text) {
      if (text == "v") text.clear();
      for (char c : text) require(c == 'i' || c == 'I' || c == 'r', "a type is not known");
      return text;
    };
    made_.operand_types = types(calling.substr(1, middle - 1));
    made_.result_types = types(calling.substr(middle + 1));
    uint32_t integers = 0, references = 0;
    for (char c : made_.operand_types) {
      if (c == 'r') {
        require(references < made_.reference_registers, "an argument has no register");
        made_.parameters.push_back(static_cast<uint16_t>(references++ | kReference));
      } else {
        if (c == 'I') integers += integers & 1;
        require(integers + (c == 'I') < made_.integer_registers, "an argument has no register");
        made_.parameters.push_back(static_cast<uint16_t>(integers));
        integers += c == 'I' ? 2 : 1;
      }
    }
  }

  template <typename T>
  T take() {
    require(sizeof(T) <= code_.size - at_, "an instruction is cut off");
    T value;
    std::memcpy(&value, code_.data + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  uint16_t any_register() {
    auto r = take<uint16_t>();
    if (r & kReference) {
      require((r & kRegister) < made_.reference_registers, "a register does not exist");
    } else {
      require(r < made_.integer_registers, "a register does not exist");
    }
    return r;
  }

  uint16_t integer(uint32_t width) {
    uint16_t r = any_register();
    require(!(r & kReference) && r + width <= made_.integer_registers,
            "a register is of another kind");
    return r;
  }

  uint16_t reference() {
    uint16_t r = any_register();
    require(r & kReference, "a register is of another kind");
    return r;
  }

  uint16_t length() {
    at_ += at_ & 1;
    require(at_ <= code_.size, "an instruction is cut off");
    return take<uint16_t>();
  }

  Registers list(bool plain) {
    Registers made{static_cast<uint32_t>(made_.registers.size()), length()};
    for (uint32_t i = 0; i < made.count; ++i) {
      made_.registers.push_back(plain ? take<uint16_t>() : any_register());
    }
    return made;
  }

  Registers moves() {
    Registers made{static_cast<uint32_t>(made_.registers.size()), 2u * length()};
    for (uint32_t i = 0; i < made.count; i += 2) {
      uint16_t source = any_register(), target = any_register();
      require(((source ^ target) & kReference) == 0, "a move changes the kind of a register");
      made_.registers.push_back(source);
      made_.registers.push_back(target);
    }
    return made;
  }

  Registers table() {
    Registers made{static_cast<uint32_t>(made_.cases.size()), length()};
    for (uint32_t i = 0; i < made.count; ++i) {
      Case one{take<uint32_t>(), {}};
      one.moves = moves();
      made_.cases.push_back(one);
    }
    return made;
  }

  void read_instruction() {
    Instruction made{};
    auto number = take<uint8_t>();
    made.op = static_cast<Op>(number);
    const char* form = forms().of[number].operands;
    if (!form) throw Refusal("instruction " + std::to_string(number) + " is not known");
    // The mark of a block is the only place that may be branched to.
    uint16_t* next_register[] = {&made.a, &made.b, &made.c, &made.d};
    int registers = 0, lists = 0, targets = 0;
    Registers* next_list[] = {&made.first, &made.second, &made.third};
    bool variadic = made.op == Op::kCallVariadic || made.op == Op::kCallVariadicYieldable;
    for (; *form; ++form) {
      switch (*form) {
        case 'i':
          *next_register[registers++] = integer(1);
          break;
        case 'I':
          *next_register[registers++] = integer(2);
          break;
        case 'r':
          *next_register[registers++] = reference();
          break;
        case '4':
          made.value = take<uint32_t>();
          break;
        case '8':
          made.value = take<uint64_t>();
          break;
        case 't':
          take<uint32_t>();
          break;
        case 'V':
        case 'W':
          made.value = take<uint32_t>();
          require(made.value + (*form == 'W' ? 8 : 4) <= module_.global_bytes,
                  "a variable does not exist");
          break;
        case 'v':
          made.value = take<uint32_t>();
          require(made.value < module_.global_references, "a variable does not exist");
          break;
        case 'k':
          made.value = take<uint32_t>();
          require(made.value < module_.constants.size(), "a constant does not exist");
          break;
        case 'f':
          made.value = take<uint32_t>();
          check_function(made.value);
          break;
        case 'b':
          (targets++ ? made.other : made.target) = take<uint32_t>();
          break;
        case 'm':
          *next_list[lists++] = moves();
          break;
        case 'T':
          *next_list[lists++] = table();
          break;
        case 'l':
          *next_list[lists] = list(variadic && lists == 0);
          ++lists;
          break;
        case 's': {
          auto size = take<uint16_t>();
          require(size <= code_.size - at_, "an instruction is cut off");
          made.value = at_ | (uint64_t{size} << 32);
          at_ += size;
          break;
        }
      }
    }
    if (variadic) {
      // Operands and results stand in the same places for all calls.
    } else if (made.op == Op::kCall || made.op == Op::kCallYieldable) {
      made.third = made.second;
      made.second = made.first;
      made.first = {};
    }
    made_.instructions.push_back(made);
  }

  void check_function(uint64_t number) const {
    if (number & 0x80000000u) {
      require((number & 0x7FFFFFFFu) < module_.imports.size(), "an imported function is missing");
    } else {
      require(number < module_.functions.size(), "a function does not exist");
    }
  }

  uint32_t place(uint32_t target, size_t from) {
    auto found = starts_.find(target);
    require(found != starts_.end(), "a branch leads into an instruction");
    require(made_.instructions[found->second].op == Op::kBlock, "a branch leads to no block");
    if (found->second <= from) made_.has_branches_back = true;
    return static_cast<uint32_t>(found->second);
  }

  void link(Instruction& i) {
    auto index = static_cast<size_t>(&i - made_.instructions.data());
    if (branches(i.op)) i.target = place(i.target, index);
    if (i.op == Op::kCondBranch) i.other = place(i.other, index);
    if (i.op != Op::kBranchTable) return;
    for (uint32_t k = 0; k < i.second.count; ++k) {
      Case& one = made_.cases[i.second.start + k];
      one.target = place(one.target, index);
    }
  }

  static const Forms& forms() {
    static const Forms all;
    return all;
  }

  const ModuleFile& module_;
  const ByteCodeFunction& source_;
  Bytes code_;
  size_t at_ = 0;
  Function made_;
  std::unordered_map<uint32_t, size_t> starts_;
};

}  // namespace

Function decode(const ModuleFile& module, const ByteCodeFunction& function) {
  return Decoder(module, function).decode();
}

}  // namespace xpr
