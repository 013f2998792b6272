// A compiled module's function, ready to run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host_calls.h"
#include "interpreter.h"
#include "schedule.h"

namespace xpr {

class Program {
 public:
  // Loads a module; throws Refusal when it is one that IREE has to run. `reuse` says which
  // arguments may be written to, `host` are the functions of this process that the module may call.
  // Without `opens_code` no machine code is run, for tests.
  Program(Bytes file, std::string_view entry, std::vector<ArrayType> inputs,
          std::vector<ArrayType> outputs, Reuse reuse, std::vector<HostFunction> host = {},
          bool opens_code = true);

  size_t argument_count() const { return inputs_.size(); }
  size_t result_count() const { return outputs_.size(); }
  size_t input_bytes(size_t i) const { return input_bytes_[i]; }

  // Whether the order of its steps is the same in each call.
  bool is_fixed() const { return schedule_ != nullptr; }

  // Whether it has loops whose end nobody knows: other threads have to run meanwhile.
  bool may_run_long() const { return may_run_long_; }
  void set_may_run_long(bool may) { may_run_long_ = may; }
  // Whether its last call was short, and so the next one probably is.
  bool was_short() const { return was_short_.load(std::memory_order_relaxed); }
  void set_was_short(bool was) const { was_short_.store(was, std::memory_order_relaxed); }

  // What it does, in a few words.
  std::string describe() const;

  // Runs it; several threads may do so at once. The arguments' blocks have the sizes of their
  // types. With `parallel` kernels are run by several threads. `host` calls this process's
  // functions.
  void run(const Block* arguments, Block* results, bool parallel, HostCalls* host = nullptr) const;

 private:
  void run_fixed(const Block* arguments, Block* results, ThreadPool* pool) const;
  void run_freely(const Block* arguments, Block* results, bool parallel, HostCalls* host) const;
  std::vector<Value> views(const std::vector<Ref<BufferObject>>& buffers) const;
  void begin();
  void record();

  std::vector<HostFunction> host_;
  ModuleCode code_;
  size_t entry_;
  std::vector<ArrayType> inputs_;
  std::vector<ArrayType> outputs_;
  Reuse reuse_;
  std::vector<size_t> input_bytes_;
  bool opens_code_;
  bool may_run_long_ = false;
  mutable std::atomic<bool> was_short_{false};
  mutable Globals globals_;  // set when it is loaded, never changed by calls
  std::unique_ptr<Schedule> schedule_;
};

}  // namespace xpr
