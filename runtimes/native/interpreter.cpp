#include "interpreter.h"

#include <cstring>

#include "refusal.h"

namespace xpr {
namespace {

constexpr int kDeepest = 64;
constexpr uint32_t kImported = 0x80000000u;

uint64_t wide(const uint32_t* integers, uint16_t r) {
  uint64_t value = 0;
  std::memcpy(&value, integers + r, sizeof(value));
  return value;
}

void set_wide(uint32_t* integers, uint16_t r, uint64_t value) {
  std::memcpy(integers + r, &value, sizeof(value));
}

// Takes a register's reference away when the code says so, as its last use.
Reference take(Reference* references, uint16_t r) {
  Reference& place = references[r & kRegister];
  if (r & kMove) return std::move(place);
  return place;
}

template <typename Signed, typename Unsigned>
Unsigned divided(Op op, Op first, Unsigned a, Unsigned b) {
  if (b == 0) throw ProgramError("the program divides an integer by zero");
  auto x = static_cast<Signed>(a), y = static_cast<Signed>(b);
  bool over = y == -1;  // which would overflow for the least number
  switch (static_cast<int>(op) - static_cast<int>(first)) {
    case 0:
      return over ? Unsigned{0} - a : static_cast<Unsigned>(x / y);
    case 1:
      return a / b;
    case 2:
      return over ? 0 : static_cast<Unsigned>(x % y);
    default:
      return a % b;
  }
}

// Moves at a branch happen at once: a register may be a source behind the move that fills it. IREE
// orders them, and breaks cycles by a further register, so that they can be done one by one.
void do_moves(const Function& function, Registers moves, uint32_t* integers,
              Reference* references) {
  const uint16_t* pairs = function.registers.data() + moves.start;
  for (uint32_t i = 0; i < moves.count; i += 2) {
    if (pairs[i] & kReference) {
      references[pairs[i + 1] & kRegister] = take(references, pairs[i]);
    } else {
      integers[pairs[i + 1]] = integers[pairs[i]];
    }
  }
}

std::string message_of(uint32_t status, const Bytes& code, uint64_t place) {
  auto start = static_cast<uint32_t>(place), size = static_cast<uint32_t>(place >> 32);
  std::string text(reinterpret_cast<const char*>(code.data) + start, size);
  return text + " (status " + std::to_string(status) + ")";
}

}  // namespace

std::vector<Value> Interpreter::call(size_t number, std::vector<Value> arguments) {
  const Function& function = code_.function(number);
  require(arguments.size() == function.parameters.size(), "it takes another number of arguments");
  run(function, arguments, 0);
  return arguments;
}

void Interpreter::call_import(const Function& function, const Instruction& call, uint32_t* integers,
                              Reference* references) {
  const Import& import = code_.import(call.value & ~kImported);
  arguments_.clear();
  const uint16_t* registers = function.registers.data() + call.second.start;
  size_t span = 0, segment = 0;
  auto add = [&](char type) {
    uint16_t r = *registers++;
    Value value;
    if (type == 'r') {
      value.reference = take(references, r);
    } else {
      value.number = type == 'I' ? wide(integers, r) : integers[r];
    }
    arguments_.push_back(std::move(value));
  };
  const std::string& types = import.operands;
  for (size_t at = 0; at < types.size(); ++segment) {
    if (types[at] != 'C') {
      add(types[at++]);
      continue;
    }
    size_t end = types.find('D', at);
    uint16_t count = function.registers[call.first.start + segment];
    if (++span < import.spans) arguments_.push_back({count, {}});
    for (uint16_t k = 0; k < count; ++k) {
      for (size_t p = at + 1; p < end; ++p) add(types[p]);
    }
    at = end + 1;
  }
  constexpr size_t kFew = 2;
  Value few[kFew];
  std::vector<Value> many;
  Value* results = few;
  if (call.third.count > kFew) {
    many.resize(call.third.count);
    results = many.data();
  }
  Arguments arguments{arguments_.data(), arguments_.size()};
  if (import.entry) {
    hal_.call(*import.entry, arguments, results);
  } else {
    hal_.call_host(*import.host, import.host_number, arguments, results);
  }
  arguments_.clear();  // what they refer to may end here
  for (uint32_t k = 0; k < call.third.count; ++k) {
    uint16_t r = function.registers[call.third.start + k];
    switch (import.results[k]) {
      case 'r':
        references[r & kRegister] = std::move(results[k].reference);
        break;
      case 'I':
        set_wide(integers, r, results[k].number);
        break;
      default:
        integers[r] = static_cast<uint32_t>(results[k].number);
    }
  }
}

void Interpreter::run(const Function& function, std::vector<Value>& values, int depth) {
  require(depth < kDeepest, "its functions call each other too deep");
  std::vector<uint32_t> integer_registers(function.integer_registers + 1);
  std::vector<Reference> reference_registers(function.reference_registers + 1);
  uint32_t* n = integer_registers.data();
  Reference* refs = reference_registers.data();
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    uint16_t r = function.parameters[i];
    if (r & kReference) {
      refs[r & kRegister] = std::move(values[i].reference);
    } else if (function.operand_types[i] == 'I') {
      set_wide(n, r, values[i].number);
    } else {
      n[r] = static_cast<uint32_t>(values[i].number);
    }
  }
  const Instruction* code = function.instructions.data();
  const Instruction* i = code;
  for (;; ++i) {
    if (left_ != 0 && --left_ == 0) throw Refusal("it takes too long");
    switch (i->op) {
      case Op::kGlobalLoadI32:
        std::memcpy(n + i->a, globals_.bytes.data() + i->value, 4);
        break;
      case Op::kGlobalLoadI64:
        std::memcpy(n + i->a, globals_.bytes.data() + i->value, 8);
        break;
      case Op::kGlobalStoreI32:
        require(may_store_, "it keeps values from one call to the next");
        std::memcpy(globals_.bytes.data() + i->value, n + i->a, 4);
        break;
      case Op::kGlobalStoreI64:
        require(may_store_, "it keeps values from one call to the next");
        std::memcpy(globals_.bytes.data() + i->value, n + i->a, 8);
        break;
      case Op::kGlobalLoadRef:
        refs[i->a & kRegister] = globals_.references[i->value];
        break;
      case Op::kGlobalStoreRef:
        require(may_store_, "it keeps values from one call to the next");
        globals_.references[i->value] = take(refs, i->a);
        break;
      case Op::kConstI32Zero:
        n[i->a] = 0;
        break;
      case Op::kConstI32:
        n[i->a] = static_cast<uint32_t>(i->value);
        break;
      case Op::kConstI64Zero:
        set_wide(n, i->a, 0);
        break;
      case Op::kConstI64:
        set_wide(n, i->a, i->value);
        break;
      case Op::kConstRefZero:
        refs[i->a & kRegister] = {};
        break;
      case Op::kConstRefRodata:
        refs[i->a & kRegister] = code_.constant(i->value);
        break;
      case Op::kSelectI32:
        n[i->d] = n[i->a] ? n[i->b] : n[i->c];
        break;
      case Op::kSelectI64:
        set_wide(n, i->d, n[i->a] ? wide(n, i->b) : wide(n, i->c));
        break;
      case Op::kSelectRef: {
        Reference first = take(refs, i->b), second = take(refs, i->c);
        refs[i->d & kRegister] = n[i->a] ? std::move(first) : std::move(second);
        break;
      }
      case Op::kAddI32:
        n[i->c] = n[i->a] + n[i->b];
        break;
      case Op::kSubI32:
        n[i->c] = n[i->a] - n[i->b];
        break;
      case Op::kMulI32:
        n[i->c] = n[i->a] * n[i->b];
        break;
      case Op::kDivI32S:
      case Op::kDivI32U:
      case Op::kRemI32S:
      case Op::kRemI32U:
        n[i->c] = divided<int32_t, uint32_t>(i->op, Op::kDivI32S, n[i->a], n[i->b]);
        break;
      case Op::kFmaI32:
        n[i->d] = n[i->a] * n[i->b] + n[i->c];
        break;
      case Op::kAddI64:
        set_wide(n, i->c, wide(n, i->a) + wide(n, i->b));
        break;
      case Op::kSubI64:
        set_wide(n, i->c, wide(n, i->a) - wide(n, i->b));
        break;
      case Op::kMulI64:
        set_wide(n, i->c, wide(n, i->a) * wide(n, i->b));
        break;
      case Op::kDivI64S:
      case Op::kDivI64U:
      case Op::kRemI64S:
      case Op::kRemI64U:
        set_wide(n, i->c,
                 divided<int64_t, uint64_t>(i->op, Op::kDivI64S, wide(n, i->a), wide(n, i->b)));
        break;
      case Op::kFmaI64:
        set_wide(n, i->d, wide(n, i->a) * wide(n, i->b) + wide(n, i->c));
        break;
      case Op::kNotI32:
        n[i->b] = ~n[i->a];
        break;
      case Op::kAndI32:
        n[i->c] = n[i->a] & n[i->b];
        break;
      case Op::kOrI32:
        n[i->c] = n[i->a] | n[i->b];
        break;
      case Op::kXorI32:
        n[i->c] = n[i->a] ^ n[i->b];
        break;
      case Op::kNotI64:
        set_wide(n, i->b, ~wide(n, i->a));
        break;
      case Op::kAndI64:
        set_wide(n, i->c, wide(n, i->a) & wide(n, i->b));
        break;
      case Op::kOrI64:
        set_wide(n, i->c, wide(n, i->a) | wide(n, i->b));
        break;
      case Op::kXorI64:
        set_wide(n, i->c, wide(n, i->a) ^ wide(n, i->b));
        break;
      case Op::kShlI32:
        n[i->c] = n[i->a] << (n[i->b] & 31);
        break;
      case Op::kShrI32S:
        n[i->c] = static_cast<uint32_t>(static_cast<int32_t>(n[i->a]) >> (n[i->b] & 31));
        break;
      case Op::kShrI32U:
        n[i->c] = n[i->a] >> (n[i->b] & 31);
        break;
      case Op::kShlI64:
        set_wide(n, i->c, wide(n, i->a) << (n[i->b] & 63));
        break;
      case Op::kShrI64S:
        set_wide(n, i->c,
                 static_cast<uint64_t>(static_cast<int64_t>(wide(n, i->a)) >> (n[i->b] & 63)));
        break;
      case Op::kShrI64U:
        set_wide(n, i->c, wide(n, i->a) >> (n[i->b] & 63));
        break;
      case Op::kTruncI32I8:
      case Op::kExtI8I32U:
        n[i->b] = static_cast<uint8_t>(n[i->a]);
        break;
      case Op::kTruncI32I16:
      case Op::kExtI16I32U:
        n[i->b] = static_cast<uint16_t>(n[i->a]);
        break;
      case Op::kExtI8I32S:
        n[i->b] = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(n[i->a])));
        break;
      case Op::kExtI16I32S:
        n[i->b] = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(n[i->a])));
        break;
      case Op::kTruncI64I32:
        n[i->b] = static_cast<uint32_t>(wide(n, i->a));
        break;
      case Op::kExtI32I64S:
        set_wide(n, i->b, static_cast<uint64_t>(int64_t{static_cast<int32_t>(n[i->a])}));
        break;
      case Op::kExtI32I64U:
        set_wide(n, i->b, n[i->a]);
        break;
      case Op::kCmpEqI32:
        n[i->c] = n[i->a] == n[i->b];
        break;
      case Op::kCmpNeI32:
        n[i->c] = n[i->a] != n[i->b];
        break;
      case Op::kCmpLtI32S:
        n[i->c] = static_cast<int32_t>(n[i->a]) < static_cast<int32_t>(n[i->b]);
        break;
      case Op::kCmpLtI32U:
        n[i->c] = n[i->a] < n[i->b];
        break;
      case Op::kCmpNzI32:
        n[i->b] = n[i->a] != 0;
        break;
      case Op::kCmpEqI64:
        n[i->c] = wide(n, i->a) == wide(n, i->b);
        break;
      case Op::kCmpNeI64:
        n[i->c] = wide(n, i->a) != wide(n, i->b);
        break;
      case Op::kCmpLtI64S:
        n[i->c] = static_cast<int64_t>(wide(n, i->a)) < static_cast<int64_t>(wide(n, i->b));
        break;
      case Op::kCmpLtI64U:
        n[i->c] = wide(n, i->a) < wide(n, i->b);
        break;
      case Op::kCmpNzI64:
        n[i->b] = wide(n, i->a) != 0;
        break;
      case Op::kCmpEqRef:
      case Op::kCmpNeRef: {
        Reference first = take(refs, i->a), second = take(refs, i->b);
        n[i->c] = (first.get() == second.get()) == (i->op == Op::kCmpEqRef);
        break;
      }
      case Op::kCmpNzRef:
        n[i->b] = static_cast<bool>(take(refs, i->a));
        break;
      case Op::kMinI32S:
        n[i->c] = static_cast<int32_t>(n[i->a]) < static_cast<int32_t>(n[i->b]) ? n[i->a] : n[i->b];
        break;
      case Op::kMinI32U:
        n[i->c] = std::min(n[i->a], n[i->b]);
        break;
      case Op::kMaxI32S:
        n[i->c] = static_cast<int32_t>(n[i->a]) > static_cast<int32_t>(n[i->b]) ? n[i->a] : n[i->b];
        break;
      case Op::kMaxI32U:
        n[i->c] = std::max(n[i->a], n[i->b]);
        break;
      case Op::kMinI64S:
      case Op::kMaxI64S: {
        uint64_t a = wide(n, i->a), b = wide(n, i->b);
        bool less = static_cast<int64_t>(a) < static_cast<int64_t>(b);
        set_wide(n, i->c, less == (i->op == Op::kMinI64S) ? a : b);
        break;
      }
      case Op::kMinI64U:
        set_wide(n, i->c, std::min(wide(n, i->a), wide(n, i->b)));
        break;
      case Op::kMaxI64U:
        set_wide(n, i->c, std::max(wide(n, i->a), wide(n, i->b)));
        break;
      case Op::kBranch:
        do_moves(function, i->first, n, refs);
        i = code + i->target;
        break;
      case Op::kCondBranch:
        if (n[i->a]) {
          do_moves(function, i->first, n, refs);
          i = code + i->target;
        } else {
          do_moves(function, i->second, n, refs);
          i = code + i->other;
        }
        break;
      case Op::kBranchTable: {
        uint32_t which = n[i->a];
        bool listed = which < i->second.count;
        Case chosen = listed ? function.cases[i->second.start + which] : Case{i->target, i->first};
        do_moves(function, chosen.moves, n, refs);
        i = code + chosen.target;
        break;
      }
      case Op::kCall:
      case Op::kCallVariadic:
      case Op::kCallYieldable:
      case Op::kCallVariadicYieldable: {
        if (i->value & kImported) {
          call_import(function, *i, n, refs);
        } else {
          const Function& callee = code_.function(i->value);
          std::vector<Value> passed(i->second.count);
          for (uint32_t k = 0; k < i->second.count; ++k) {
            uint16_t r = function.registers[i->second.start + k];
            if (r & kReference) {
              passed[k].reference = take(refs, r);
            } else {
              passed[k].number = callee.operand_types[k] == 'I' ? wide(n, r) : n[r];
            }
          }
          run(callee, passed, depth + 1);
          for (uint32_t k = 0; k < i->third.count; ++k) {
            uint16_t r = function.registers[i->third.start + k];
            if (r & kReference) {
              refs[r & kRegister] = std::move(passed[k].reference);
            } else if (callee.result_types[k] == 'I') {
              set_wide(n, r, passed[k].number);
            } else {
              n[r] = static_cast<uint32_t>(passed[k].number);
            }
          }
        }
        if (i->op == Op::kCallYieldable || i->op == Op::kCallVariadicYieldable) {
          i = code + i->target;
        }
        break;
      }
      case Op::kReturn:
        values.clear();
        values.resize(i->first.count);
        for (uint32_t k = 0; k < i->first.count; ++k) {
          uint16_t r = function.registers[i->first.start + k];
          if (r & kReference) {
            values[k].reference = refs[r & kRegister];
          } else {
            values[k].number = function.result_types[k] == 'I' ? wide(n, r) : n[r];
          }
        }
        return;
      case Op::kFail:
        if (n[i->a] != 0) {
          // The message lies in the function's byte code.
          auto number = static_cast<size_t>(&function - &code_.function(0));
          throw ProgramError(message_of(n[i->a], code_.file().functions[number].code, i->value));
        }
        throw ProgramError("the program failed");
      case Op::kBlock:
        break;
      case Op::kDiscardRefs:
        for (uint32_t k = 0; k < i->first.count; ++k) {
          refs[function.registers[i->first.start + k] & kRegister] = {};
        }
        break;
      case Op::kAssignRef:
        refs[i->b & kRegister] = take(refs, i->a);
        break;
    }
  }
}

}  // namespace xpr
