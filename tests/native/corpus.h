// Modules in a folder, each beside a description of what its entry takes and returns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "program.h"

namespace xpr {

struct Sample {
  std::string name;
  std::vector<uint8_t> bytes;
  std::vector<ArrayType> inputs, outputs;
  std::vector<bool> donated;
  std::vector<HostFunction> host;
};

// Lines of `in`, `out`, `host` (with a symbol), `takes` and `returns`; the types are the size of an
// element and the extents. `donated` is like `in`.
inline Sample read_sample(const std::filesystem::path& module) {
  Sample made;
  made.name = module.filename().string();
  std::ifstream file(module, std::ios::binary);
  made.bytes.assign(std::istreambuf_iterator<char>(file), {});
  std::ifstream types(std::filesystem::path(module).replace_extension(".types"));
  std::string line;
  while (std::getline(types, line)) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "host") {
      made.host.emplace_back();
      words >> made.host.back().symbol;
      continue;
    }
    ArrayType type;
    words >> type.item_size;
    for (int64_t extent = 0; words >> extent;) type.shape.push_back(extent);
    if (what == "in" || what == "donated") {
      made.inputs.push_back(type);
      made.donated.push_back(what == "donated");
    } else if (what == "out") {
      made.outputs.push_back(type);
    } else {
      auto& function = made.host.at(made.host.size() - 1);
      (what == "takes" ? function.inputs : function.outputs).push_back(type);
    }
  }
  return made;
}

inline std::vector<Sample> read_corpus(const std::filesystem::path& folder) {
  std::vector<Sample> made;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".vmfb") made.push_back(read_sample(entry.path()));
  }
  if (made.empty()) throw std::runtime_error("there are no modules in " + folder.string());
  return made;
}

inline Block zeros(const ArrayType& type) {
  size_t size = type.bytes();
  Ref<Memory> memory = Memory::allocate(size);
  uint8_t* data = memory->data();
  for (size_t i = 0; i < size; ++i) data[i] = 0;
  return {std::move(memory), data, size};
}

// Functions of the process that return zeros.
class ZeroCalls final : public HostCalls {
 public:
  explicit ZeroCalls(const std::vector<HostFunction>& functions) : functions_(functions) {}
  std::vector<Block> call(size_t number, std::vector<Block>) override {
    std::vector<Block> made;
    for (const ArrayType& type : functions_[number].outputs) made.push_back(zeros(type));
    return made;
  }

 private:
  const std::vector<HostFunction>& functions_;
};

inline std::vector<Block> arguments_of(const Sample& sample) {
  std::vector<Block> made;
  for (const ArrayType& type : sample.inputs) made.push_back(zeros(type));
  return made;
}

}  // namespace xpr
