#include "program.h"

#include <algorithm>
#include <cstring>

#include "refusal.h"
#include "thread_pool.h"

namespace xpr {
namespace {

// More instructions than any module needs to begin, in one that does not end.
constexpr uint64_t kPatience = 10'000'000;
constexpr uint64_t kPatienceWithDamage = 100'000;

// A slab that is larger than this is given back when the call ends.
constexpr size_t kLargestKept = size_t{64} << 20;

// Memory of a thread for what is gone when a program ends. A program that a callback runs inside
// of another one has a slab of its own.
class Slab {
 public:
  explicit Slab(size_t size) {
    if (!kept_in_use && size <= kLargestKept) {
      if (!kept || kept->size() < size) kept = Memory::allocate_uncounted(size);
      kept_in_use = holds_kept_ = true;
      data_ = kept->data();
    } else {
      own_ = Memory::allocate(size);
      data_ = own_->data();
    }
  }
  ~Slab() {
    if (holds_kept_) kept_in_use = false;
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  uint8_t* data() const { return data_; }

 private:
  static thread_local Ref<Memory> kept;
  static thread_local bool kept_in_use;
  Ref<Memory> own_;
  uint8_t* data_ = nullptr;
  bool holds_kept_ = false;
};

thread_local Ref<Memory> Slab::kept;
thread_local bool Slab::kept_in_use = false;

Block own_block(size_t size) {
  Ref<Memory> memory = Memory::allocate(size);
  uint8_t* data = memory->data();
  return {std::move(memory), data, size};
}

}  // namespace

size_t ArrayType::bytes() const {
  size_t count = item_size;
  for (int64_t extent : shape) {
    require(extent >= 0, "an array has a negative extent");
    if (__builtin_mul_overflow(count, static_cast<size_t>(extent), &count)) {
      throw Refusal("an array is too large");
    }
  }
  return count;
}

Program::Program(Bytes file, std::string_view entry, std::vector<ArrayType> inputs,
                 std::vector<ArrayType> outputs, Reuse reuse, std::vector<HostFunction> host,
                 bool opens_code)
    : host_(std::move(host)),
      code_(file, host_),
      entry_(code_.find(entry)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      reuse_(std::move(reuse)),
      opens_code_(opens_code) {
  for (const ArrayType& input : inputs_) input_bytes_.push_back(input.bytes());
  if (reuse_.results.empty()) reuse_.results.resize(inputs_.size(), Reuse::kNone);
  require(reuse_.donated.size() == inputs_.size() && reuse_.results.size() == inputs_.size(),
          "donations do not fit");
  const Function& function = code_.function(entry_);
  require(function.operand_types == std::string(inputs_.size(), 'r') &&
              function.result_types == std::string(outputs_.size(), 'r'),
          "it takes or returns another number of arrays");
  globals_.bytes.resize(code_.file().global_bytes);
  globals_.references.resize(code_.file().global_references);
  try {
    begin();
  } catch (const ProgramError& error) {
    throw Refusal(error.what());  // IREE says what is wrong with the module
  }
}

void Program::begin() {
  FlushToZero flush;
  for (const ExportedFunction& exported : code_.file().exports) {
    if (exported.name != "__init") continue;
    Runner runner(false);
    Hal hal(runner, opens_code_);
    Interpreter interpreter(code_, globals_, hal, true);
    interpreter.limit(opens_code_ ? kPatience : kPatienceWithDamage);
    interpreter.call(exported.ordinal, {});
  }
  try {
    record();
  } catch (const NeedsValues&) {
    // Its byte code runs in each call.
  }
}

std::vector<Value> Program::views(const std::vector<Ref<BufferObject>>& buffers) const {
  std::vector<Value> made(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    made[i].reference =
        Reference(new ViewObject(buffers[i], 8 * inputs_[i].item_size, inputs_[i].shape));
  }
  return made;
}

void Program::record() {
  Recorder recorder(inputs_.size());
  std::vector<Ref<BufferObject>> buffers;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    buffers.push_back(recorder.argument(i, inputs_[i].bytes()));
  }
  Hal hal(recorder, opens_code_);
  Interpreter interpreter(code_, globals_, hal, false);
  interpreter.limit(opens_code_ ? kPatience : kPatienceWithDamage);
  std::vector<Value> results = interpreter.call(entry_, views(buffers));
  std::vector<Place> places;
  for (size_t k = 0; k < results.size(); ++k) {
    auto& view = as<ViewObject>(results[k].reference.get());
    require(view.shape == outputs_[k].shape && view.buffer->size == outputs_[k].bytes(),
            "a result has another type than the program is said to have");
    places.push_back(Recorder::place({view.buffer.get(), 0, view.buffer->size}));
  }
  schedule_ = std::make_unique<Schedule>(Schedule::plan(std::move(recorder), places, reuse_));
}

std::string Program::describe() const {
  if (!schedule_) return "interpreted";
  return std::to_string(schedule_->steps.size()) + " steps";
}

void Program::run(const Block* arguments, Block* results, bool parallel, HostCalls* host) const {
  FlushToZero flush;
  if (schedule_) {
    PoolTurn turn(parallel);
    run_fixed(arguments, results, turn.pool());
  } else {
    run_freely(arguments, results, parallel, host);
  }
}

void Program::run_fixed(const Block* arguments, Block* results, ThreadPool* pool) const {
  const Schedule& schedule = *schedule_;
  constexpr size_t kFew = 64;
  uint8_t* few[kFew];
  std::vector<uint8_t*> many;
  size_t count = inputs_.size() + schedule.result_blocks.size() + 1;
  uint8_t** blocks = few;
  if (count > kFew) {
    many.resize(count);
    blocks = many.data();
  }
  for (size_t i = 0; i < inputs_.size(); ++i) blocks[i] = arguments[i].data;
  uint8_t** made = blocks + inputs_.size();
  for (size_t k = 0; k < schedule.results.size(); ++k) {
    const ResultPlan& plan = schedule.results[k];
    if (plan.from == ResultPlan::From::kArgument) {
      results[k] = arguments[plan.number];
      continue;
    }
    Ref<Memory> memory = Memory::allocate(schedule.result_blocks[plan.number]);
    made[plan.number] = memory->data();
    uint8_t* data = memory->data() + plan.offset;
    results[k] = {std::move(memory), data, plan.length};
  }
  std::vector<Ref<Memory>> unclaimed;
  for (size_t b : schedule.unclaimed) {
    unclaimed.push_back(Memory::allocate(schedule.result_blocks[b]));
    made[b] = unclaimed.back()->data();
  }
  if (schedule.slab_size == 0) {
    schedule.run(blocks, pool);
    return;
  }
  Slab slab(schedule.slab_size);
  made[schedule.result_blocks.size()] = slab.data();
  schedule.run(blocks, pool);
}

void Program::run_freely(const Block* arguments, Block* results, bool parallel,
                         HostCalls* host) const {
  std::vector<Ref<BufferObject>> buffers;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    buffers.push_back(
        Ref(new BufferObject(arguments[i].memory, arguments[i].data, arguments[i].size)));
  }
  Runner runner(parallel);
  Hal hal(runner, opens_code_, host);
  Interpreter interpreter(code_, globals_, hal, false);
  if (!opens_code_) interpreter.limit(kPatienceWithDamage);
  std::vector<Value> returned = interpreter.call(entry_, views(buffers));
  for (size_t k = 0; k < returned.size(); ++k) {
    auto& view = as<ViewObject>(returned[k].reference.get());
    if (view.shape != outputs_[k].shape || view.buffer->size != outputs_[k].bytes()) {
      throw ProgramError("a result has another type than the program is said to have");
    }
    const BufferObject& found = *view.buffer;
    uint8_t* end = found.data + found.size;
    // Memory of an argument or of an earlier result is not returned a second time, and none that
    // is much larger than the result.
    bool copied = !found.memory || found.memory->size() - found.size > 4096 + 7 * found.size;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      bool inside = found.data < arguments[i].data + arguments[i].size && arguments[i].data < end;
      if (inside &&
          !(reuse_.donated[i] && found.data == arguments[i].data && found.size == arguments[i].size)) {
        copied = true;
      }
    }
    for (size_t j = 0; j < k; ++j) {
      copied |= found.data < results[j].data + results[j].size && results[j].data < end;
    }
    if (found.size == 0 || copied) {
      results[k] = own_block(found.size);
      if (found.size) std::memcpy(results[k].data, found.data, found.size);
    } else {
      results[k] = {found.memory, found.data, found.size};
    }
  }
}

}  // namespace xpr
