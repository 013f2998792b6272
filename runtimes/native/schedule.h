// What a program without branches that depend on data does: kernels, fills and copies in a fixed
// order, on memory whose layout is planned once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "steps.h"

namespace xpr {

// A range of memory that a schedule names: by the number of a block that a call provides, or by
// its address.
struct Place {
  static constexpr uint32_t kAddress = UINT32_MAX;
  uint32_t block = kAddress;
  uint64_t offset = 0;  // in the block, or the address
  uint64_t length = 0;
};

struct Step {
  Command::What what = Command::What::kDispatch;
  uint8_t pattern_length = 0;
  Dispatch dispatch;
  uint64_t pattern = 0;
  uint32_t places = 0;     // the first of its places
  uint32_t constants = 0;  // the first of its constants
};

// Blocks are numbered: first the arguments, then the allocations in the order of the program.
class Recorder final : public Steps {
 public:
  explicit Recorder(size_t arguments) : sizes_(arguments) {}

  // The buffer of an argument.
  Ref<BufferObject> argument(size_t number, size_t size);

  Ref<BufferObject> allocate(size_t size) override;
  void dispatch(const Dispatch& dispatch, const uint32_t* constants,
                const Operand* bindings) override;
  void fill(const Operand& target, uint64_t pattern, uint8_t pattern_length) override;
  void copy(const Operand& source, const Operand& target) override;
  uint32_t load(const Operand& source) override;

  static size_t places_of(const Step& step);
  static Place place(const Operand& operand);

  std::vector<Step> steps;
  std::vector<Place> places;
  std::vector<uint32_t> constants;
  std::vector<size_t> sizes_;
};

// Where a result comes from.
struct ResultPlan {
  enum class From : uint8_t { kBlock, kArgument } from = From::kBlock;
  uint32_t number = 0;  // of the block among those for results, or of the argument
  uint64_t offset = 0;
  uint64_t length = 0;
};

// Which results may take the memory of donated arguments.
struct Reuse {
  std::vector<bool> donated;     // the arguments that may be overwritten
  std::vector<uint32_t> results;  // for each argument the result that it was paired with, or kNone
  bool elementwise = false;  // each step reads of an argument only the element that it computes

  static constexpr uint32_t kNone = UINT32_MAX;
};

// Blocks of a planned schedule: the arguments, the blocks for results, then the slab with all that
// is gone when the program ends.
struct Schedule {
  std::vector<Step> steps;
  std::vector<Place> places;
  std::vector<uint32_t> constants;
  std::vector<size_t> result_blocks;  // their sizes
  std::vector<size_t> unclaimed;      // blocks that no result has for itself: parts are copied
  std::vector<ResultPlan> results;
  size_t slab_size = 0;
  size_t argument_count = 0;

  // Plans the memory of what was recorded. Each result gets a block of its own, or the memory of a
  // donated argument that no step reads later. One that lies in an argument is copied, unless it
  // is all of one that is donated; so is a small part of a large block.
  static Schedule plan(Recorder&& recorder, const std::vector<Place>& results, const Reuse& reuse);

  // Runs it. `blocks` has the addresses of arguments, blocks for results and slab, and room for
  // one more.
  void run(uint8_t** blocks, ThreadPool* pool) const;
};

}  // namespace xpr
