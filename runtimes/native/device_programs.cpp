#include "device_programs.h"

#include <algorithm>

#include "refusal.h"

namespace xpr {

DevicePrograms::DevicePrograms(std::size_t devices, std::size_t columns,
                               std::vector<DeviceStage> stages)
    : devices_(devices), bytes_(columns, kUnused), stages_(std::move(stages)) {
  std::vector<bool> made(columns, false);
  for (const DeviceStage& stage : stages_) {
    require(stage.inputs.size() == stage.program->argument_count() &&
                stage.outputs.size() == stage.program->result_count(),
            "a program takes or returns another number of arrays");
    require(stage.source.size() == devices_, "it says of other devices who runs the program");
    for (std::size_t d = 0; d < devices_; ++d) {
      std::uint32_t from = stage.source[d];
      require(from <= d && stage.source[from] == from, "a device gets results of none");
    }
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
      auto [column, device] = stage.inputs[i];
      require(column < columns && (device < devices_ || device == StageInput::kOwn),
              "a program reads an array that does not exist");
      if (made[column]) continue;
      std::size_t size = stage.program->input_bytes(i);
      require(bytes_[column] == kUnused || bytes_[column] == size, "an array has two sizes");
      bytes_[column] = size;
    }
    for (std::uint32_t column : stage.outputs) {
      require(column < columns && !made[column] && bytes_[column] == kUnused,
              "a program makes an array that exists");
      made[column] = true;
    }
    most_operands_ = std::max(most_operands_, stage.inputs.size());
    most_results_ = std::max(most_results_, stage.outputs.size());
  }
}

void DevicePrograms::run(Block* table) const {
  constexpr std::size_t kFew = 16;
  Block few[2 * kFew];
  std::vector<Block> many;
  Block *operands = few, *results = few + kFew;
  if (most_operands_ > kFew || most_results_ > kFew) {
    many.resize(most_operands_ + most_results_);
    operands = many.data();
    results = operands + most_operands_;
  }
  for (const DeviceStage& stage : stages_) {
    std::size_t taken = stage.inputs.size(), made = stage.outputs.size();
    for (std::size_t d = 0; d < devices_; ++d) {
      std::uint32_t from = stage.source[d];
      if (from != d) {
        for (std::uint32_t column : stage.outputs) {
          table[column * devices_ + d] = table[column * devices_ + from];
        }
        continue;
      }
      for (std::size_t i = 0; i < taken; ++i) {
        auto [column, device] = stage.inputs[i];
        operands[i] = table[column * devices_ + (device == StageInput::kOwn ? d : device)];
      }
      stage.program->run(operands, results, false);
      for (std::size_t k = 0; k < made; ++k) {
        table[stage.outputs[k] * devices_ + d] = std::move(results[k]);
      }
      for (std::size_t i = 0; i < taken; ++i) operands[i] = Block();
    }
  }
}

}  // namespace xpr
