// Programs of several devices, none of which waits for another one.
#pragma once

#include "program.h"

namespace xpr {

// What a program reads: its own device's block of a column, or that of one device.
struct StageInput {
  static constexpr std::uint32_t kOwn = UINT32_MAX;
  std::uint32_t column = 0;
  std::uint32_t device = kOwn;
};

// One program, and the devices that run it.
struct DeviceStage {
  const Program* program = nullptr;
  std::vector<StageInput> inputs;
  std::vector<std::uint32_t> outputs;  // the columns that it makes
  // For each device the one whose results it gets: itself, or an earlier one that has the same
  // arguments.
  std::vector<std::uint32_t> source;
};

// Stages that the devices run one after the other.
//
// They work on a table of blocks: an array is a column of it, and has a block for each device. The
// block of a column and a device is `table[column * device_count() + device]`.
class DevicePrograms {
 public:
  // Throws Refusal where columns or devices do not exist, or arrays would have several sizes.
  DevicePrograms(std::size_t devices, std::size_t columns, std::vector<DeviceStage> stages);

  std::size_t device_count() const { return devices_; }
  std::size_t column_count() const { return bytes_.size(); }
  const std::vector<DeviceStage>& stages() const { return stages_; }

  // Bytes of each block of a column that a program reads first; kUnused for other columns.
  static constexpr std::size_t kUnused = SIZE_MAX;
  std::size_t bytes(std::size_t column) const { return bytes_[column]; }

  // Fills in the columns that the programs make. Several threads may do so at once, each with a
  // table of its own.
  void run(Block* table) const;

 private:
  std::size_t devices_;
  std::vector<std::size_t> bytes_;
  std::vector<DeviceStage> stages_;
  std::size_t most_operands_ = 0;
  std::size_t most_results_ = 0;
};

}  // namespace xpr
