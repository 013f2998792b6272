// The functions of products.cpp as a library of IREE's, with which programs whose other dispatches
// are kept, or have none, are put together without LLVM.
#include <cstddef>
#include <cstdint>

#include "../executable_library.h"
#include "products.h"

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

constexpr uint8_t kPackNumbers = 9, kPackBindings = 4;

template <typename T, auto kFunction>
int pack(const KernelEnvironment*, const DispatchState* state, const WorkgroupState* group) {
  Given g{state};
  kFunction(g.binding<const T>(0), g.binding<const T>(1), g.binding<T>(2), g.binding<T>(3),
            g.number(0), g.number(1), g.number(2), g.number(3), g.number(4), g.number(5),
            g.number(6), g.number(7), g.number(8), group->x, group->y, group->z);
  return 0;
}

constexpr uint8_t kProductNumbers = 5, kProductBindings = 3;

template <typename T, auto kFunction>
int product(const KernelEnvironment*, const DispatchState* state, const WorkgroupState* group) {
  Given g{state};
  kFunction(g.binding<const T>(0), g.binding<const T>(1), g.binding<T>(2), g.number(0), g.number(1),
            g.number(2), g.number(3), g.number(4), group->x, group->y, group->z);
  return 0;
}

constexpr KernelAttributes attributes(uint8_t numbers, uint8_t bindings) {
  KernelAttributes made{};
  made.constant_count = numbers;
  made.binding_count = bindings;
  made.size_x = made.size_y = made.size_z = 1;
  return made;
}

constexpr uint32_t kCount = 4;
const Kernel kKernels[kCount] = {
    pack<float, XPR_NAME(pack_f32)>,
    product<float, XPR_NAME(product_f32)>,
    pack<double, XPR_NAME(pack_f64)>,
    product<double, XPR_NAME(product_f64)>,
};
constexpr KernelAttributes kAttributes[kCount] = {
    attributes(kPackNumbers, kPackBindings),
    attributes(kProductNumbers, kProductBindings),
    attributes(kPackNumbers, kPackBindings),
    attributes(kProductNumbers, kProductBindings),
};
const char* const kNames[kCount] = {"xpr_pack_f32", "xpr_product_f32", "xpr_pack_f64",
                                    "xpr_product_f64"};
const LibraryHeader kHeader = {xpr::kLibraryVersion, "xpr_products", 0, 0};

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
