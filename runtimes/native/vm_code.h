// The instructions of a module's functions, decoded and checked once, so that the interpreter need
// not look where it goes.
#pragma once

#include <cstdint>
#include <vector>

#include "module_file.h"

namespace xpr {

// IREE's numbers of the instructions that are known here (version 17 of its instruction set).
enum class Op : uint8_t {
  kGlobalLoadI32 = 0x00,
  kGlobalStoreI32 = 0x01,
  kGlobalLoadI64 = 0x04,
  kGlobalStoreI64 = 0x05,
  kGlobalLoadRef = 0x08,
  kGlobalStoreRef = 0x09,
  kConstI32Zero = 0x0C,
  kConstI32 = 0x0D,
  kConstI64Zero = 0x0E,
  kConstI64 = 0x0F,
  kConstRefZero = 0x10,
  kConstRefRodata = 0x11,
  kSelectI32 = 0x1C,
  kSelectI64 = 0x1D,
  kSelectRef = 0x1E,
  kAddI32 = 0x22,
  kSubI32 = 0x23,
  kMulI32 = 0x24,
  kDivI32S = 0x25,
  kDivI32U = 0x26,
  kRemI32S = 0x27,
  kRemI32U = 0x28,
  kFmaI32 = 0x29,
  kAddI64 = 0x2A,
  kSubI64 = 0x2B,
  kMulI64 = 0x2C,
  kDivI64S = 0x2D,
  kDivI64U = 0x2E,
  kRemI64S = 0x2F,
  kRemI64U = 0x30,
  kFmaI64 = 0x31,
  kNotI32 = 0x32,
  kAndI32 = 0x33,
  kOrI32 = 0x34,
  kXorI32 = 0x35,
  kNotI64 = 0x36,
  kAndI64 = 0x37,
  kOrI64 = 0x38,
  kXorI64 = 0x39,
  kShlI32 = 0x3A,
  kShrI32S = 0x3B,
  kShrI32U = 0x3C,
  kShlI64 = 0x3D,
  kShrI64S = 0x3E,
  kShrI64U = 0x3F,
  kTruncI32I8 = 0x40,
  kTruncI32I16 = 0x41,
  kTruncI64I32 = 0x42,
  kExtI8I32S = 0x43,
  kExtI8I32U = 0x44,
  kExtI16I32S = 0x45,
  kExtI16I32U = 0x46,
  kExtI32I64S = 0x47,
  kExtI32I64U = 0x48,
  kCmpEqI32 = 0x49,
  kCmpNeI32 = 0x4A,
  kCmpLtI32S = 0x4B,
  kCmpLtI32U = 0x4C,
  kCmpNzI32 = 0x4D,
  kCmpEqI64 = 0x4E,
  kCmpNeI64 = 0x4F,
  kCmpLtI64S = 0x50,
  kCmpLtI64U = 0x51,
  kCmpNzI64 = 0x52,
  kCmpEqRef = 0x53,
  kCmpNeRef = 0x54,
  kCmpNzRef = 0x55,
  kBranch = 0x56,
  kCondBranch = 0x57,
  kCall = 0x58,
  kCallVariadic = 0x59,
  kReturn = 0x5A,
  kFail = 0x5B,
  kBlock = 0x79,
  kMinI32S = 0x7A,
  kMinI32U = 0x7B,
  kMaxI32S = 0x7C,
  kMaxI32U = 0x7D,
  kMinI64S = 0x7E,
  kMinI64U = 0x7F,
  kMaxI64S = 0x80,
  kMaxI64U = 0x81,
  kBranchTable = 0x83,
  kDiscardRefs = 0x85,
  kAssignRef = 0x86,
  kCallYieldable = 0x87,
  kCallVariadicYieldable = 0x88,
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
