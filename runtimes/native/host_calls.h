// Functions of this process that a module calls: those of its module `xpr`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory.h"

namespace xpr {

// The type of an array, as far as memory is concerned.
struct ArrayType {
  std::vector<int64_t> shape;
  size_t item_size = 0;

  size_t bytes() const;
};

// Memory that holds an array.
struct Block {
  Ref<Memory> memory;
  uint8_t* data = nullptr;
  size_t size = 0;
};

struct HostFunction {
  std::string symbol;  // without the module's name
  std::vector<ArrayType> inputs;
  std::vector<ArrayType> outputs;
};

class HostCalls {
 public:
  virtual ~HostCalls() = default;
  // Calls a function by its number in the list that the program was loaded with. What it throws
  // ends the program.
  virtual std::vector<Block> call(size_t number, std::vector<Block> arguments) = 0;
};

}  // namespace xpr
