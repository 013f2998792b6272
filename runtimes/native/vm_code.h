// The instructions of a module's functions, decoded and checked once, so that the interpreter need
// not look where it goes.
#pragma once

#include <cstdint>
#include <vector>

#include "module_file.h"

namespace xpr {

// IREE's numbers of the instructions that are known here (version 17 of its instruction set).
enum class Op : uint8_t {
#define XPR_OPCODE(name, code, operands) k##name = code,
#define XPR_OTHER(name, code, operands)
#include "../../lowering/iree/versions/vm_17.def"
#undef XPR_OPCODE
#undef XPR_OTHER
};

inline constexpr uint16_t kReference = 0x8000;
inline constexpr uint16_t kMove = 0x4000;
inline constexpr uint16_t kRegister = 0x3FFF;

// Registers in a row, in `Function::registers`: those of a call, or sources and destinations by
// turns.
struct Registers {
  uint32_t start = 0;
  uint32_t count = 0;
};

struct Instruction {
  Op op;
  uint16_t a = 0, b = 0, c = 0, d = 0;  // registers in the order of the byte code
  uint64_t value = 0;                   // a constant, or the number of a variable or a function
  uint32_t target = 0, other = 0;       // the instructions where branches lead
  Registers first, second, third;       // moves, segments, operands, results
};

// One of the places where a table of branches leads, with its moves.
struct Case {
  uint32_t target = 0;
  Registers moves;
};

struct Function {
  std::vector<Instruction> instructions;
  std::vector<uint16_t> registers;
  std::vector<Case> cases;  // of all tables; `Instruction::second` says which are whose
  uint32_t integer_registers = 0;
  uint32_t reference_registers = 0;
  std::vector<uint16_t> parameters;  // the registers that arguments come in
  std::string operand_types, result_types;
  bool has_branches_back = false;
};

// Decodes a function; throws Refusal for what is not known.
Function decode(const ModuleFile& module, const ByteCodeFunction& function);

}  // namespace xpr
