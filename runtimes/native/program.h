// A compiled module's function, ready to run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "interpreter.h"
#include "schedule.h"

namespace xpr {

// The type of an argument or a result, as far as memory is concerned.
struct ArrayType {
  std::vector<int64_t> shape;
  size_t item_size = 0;

  size_t bytes() const;
};

// Memory that holds an argument or a result.
struct Block {
  Ref<Memory> memory;
  uint8_t* data = nullptr;
  size_t size = 0;
};

class Program {
 public:
  // Loads a module; throws Refusal when it is one that IREE has to run. `donated` says which
  // arguments may be written to. Without `opens_code` no machine code is run, for tests.
  Program(Bytes file, std::string_view entry, std::vector<ArrayType> inputs,
          std::vector<ArrayType> outputs, std::vector<bool> donated, bool opens_code = true);

  size_t argument_count() const { return inputs_.size(); }
  size_t result_count() const { return outputs_.size(); }
  size_t input_bytes(size_t i) const { return input_bytes_[i]; }

  // Whether the order of its steps is the same in each call.
  bool is_fixed() const { return schedule_ != nullptr; }

  // What it does, in a few words.
  std::string describe() const;

  // Runs it; several threads may do so at once. The arguments' blocks have the sizes of their
  // types. With `parallel` kernels are run by several threads.
  void run(const Block* arguments, Block* results, bool parallel) const;

 private:
  void run_fixed(const Block* arguments, Block* results, ThreadPool* pool) const;
  void run_freely(const Block* arguments, Block* results, ThreadPool* pool) const;
  std::vector<Value> views(const std::vector<Ref<BufferObject>>& buffers) const;
  void begin();
  void record();

  ModuleCode code_;
  size_t entry_;
  std::vector<ArrayType> inputs_;
  std::vector<ArrayType> outputs_;
  std::vector<bool> donated_;
  std::vector<size_t> input_bytes_;
  bool opens_code_;
  mutable Globals globals_;  // set when it is loaded, never changed by calls
  std::unique_ptr<Schedule> schedule_;
};

}  // namespace xpr
