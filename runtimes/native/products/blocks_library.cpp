// The functions of blocks.cpp as a library of IREE's, with which programs whose other dispatches
// are kept, or have none, are put together without LLVM.
#include <cstddef>
#include <cstdint>

#include "../executable_library.h"
#include "blocks.h"

namespace {

using xpr::DispatchState;
using xpr::Kernel;
using xpr::KernelAttributes;
using xpr::KernelEnvironment;
using xpr::Library;
using xpr::LibraryHeader;
using xpr::WorkgroupState;

// The state of a dispatch as the functions take it.
struct Given {
  const DispatchState* state;

  template <typename T>
  T* binding(int i) const {
    return static_cast<T*>(state->bindings[i]);
  }
  int32_t number(int i) const { return static_cast<int32_t>(state->constants[i]); }
};

constexpr uint8_t kRoundNumbers = 2, kRoundBindings = 2;

int round(const KernelEnvironment*, const DispatchState* state, const WorkgroupState* group) {
  Given g{state};
  XPR_BLOCKS(round_blocks)(g.binding<const float>(0), g.binding<uint8_t>(1), g.number(0),
                           g.number(1), group->x, group->y, group->z);
  return 0;
}

constexpr uint8_t kBlocksNumbers = 4, kBlocksBindings = 3;

template <auto kFunction>
int blocks(const KernelEnvironment*, const DispatchState* state, const WorkgroupState* group) {
  Given g{state};
  kFunction(g.binding<const uint8_t>(0), g.binding<const uint8_t>(1), g.binding<float>(2),
            g.number(0), g.number(1), g.number(2), g.number(3), group->x, group->y, group->z);
  return 0;
}

constexpr KernelAttributes attributes(uint8_t numbers, uint8_t bindings) {
  KernelAttributes made{};
  made.constant_count = numbers;
  made.binding_count = bindings;
  made.size_x = made.size_y = made.size_z = 1;
  return made;
}

constexpr uint32_t kCount = 3;
const Kernel kKernels[kCount] = {
    round,
    blocks<XPR_BLOCKS(blocks_q8_0)>,
    blocks<XPR_BLOCKS(blocks_q4_0)>,
};
constexpr KernelAttributes kAttributes[kCount] = {
    attributes(kRoundNumbers, kRoundBindings),
    attributes(kBlocksNumbers, kBlocksBindings),
    attributes(kBlocksNumbers, kBlocksBindings),
};
const char* const kNames[kCount] = {"xpr_round_blocks", "xpr_blocks_q8_0", "xpr_blocks_q4_0"};
const LibraryHeader kHeader = {xpr::kLibraryVersion, "xpr_blocks", 0, 0};

constexpr Library kLibrary = {
    .header = &kHeader,
    .import_count = 0,
    .imports = nullptr,
    .kernel_count = kCount,
    .kernels = kKernels,
    .attributes = kAttributes,
    .parameters = nullptr,
    .occupancy = nullptr,
    .names = kNames,
    .tags = nullptr,
    .parameter_names = nullptr,
    .sources = nullptr,
    .stages = nullptr,
    .constant_count = 0,
};

}  // namespace

// The address of the library's first field, or null for a version that is not this one.
extern "C" const Library* iree_hal_executable_library_query(uint32_t version,
                                                            const KernelEnvironment*) {
  return version == xpr::kLibraryVersion ? &kLibrary : nullptr;
}
