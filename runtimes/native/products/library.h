// A library of IREE's that holds kernels: what a file includes that has defined XPR_LIBRARY, the
// library's name, XPR_KERNELS(DO), which applies DO to the name of each kernel, and
// XPR_NAME(kernel), the name that the kernel has for a kind of processor.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../executable_library.h"

namespace {

using xpr::DispatchState;
using xpr::Kernel;
using xpr::KernelAttributes;
using xpr::KernelEnvironment;
using xpr::Library;
using xpr::LibraryHeader;
using xpr::WorkgroupState;

// Calls a function with what the state of a dispatch holds: addresses, then numbers, then the
// workgroup's place along three axes.
template <typename F>
struct Signature;

template <typename... A>
struct Signature<void(A...)> {
  static constexpr size_t kBindings = (size_t{std::is_pointer_v<A>} + ...);
  static constexpr size_t kNumbers = sizeof...(A) - kBindings - 3;

  template <typename T, size_t kAt>
  static T argument(const DispatchState* state, const int64_t* place) {
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<T>(state->bindings[kAt]);
    } else if constexpr (kAt < kBindings + kNumbers) {
      return static_cast<T>(state->constants[kAt - kBindings]);
    } else {
      return place[kAt - kBindings - kNumbers];
    }
  }

  template <auto kFunction, size_t... kAt>
  static void call(const DispatchState* state, const int64_t* place, std::index_sequence<kAt...>) {
    kFunction(argument<A, kAt>(state, place)...);
  }

  template <auto kFunction>
  static int run(const KernelEnvironment*, const DispatchState* state,
                 const WorkgroupState* group) {
    const int64_t place[] = {group->x, group->y, group->z};
    call<kFunction>(state, place, std::make_index_sequence<sizeof...(A)>());
    return 0;
  }

  static constexpr KernelAttributes attributes() {
    KernelAttributes made{};
    made.constant_count = kNumbers;
    made.binding_count = kBindings;
    made.size_x = made.size_y = made.size_z = 1;
    return made;
  }
};

#define XPR_RUN(kernel) Signature<decltype(XPR_NAME(kernel))>::run<XPR_NAME(kernel)>,
#define XPR_ATTRIBUTES(kernel) Signature<decltype(XPR_NAME(kernel))>::attributes(),
#define XPR_STRING(kernel) "xpr_" #kernel,

const Kernel kKernels[] = {XPR_KERNELS(XPR_RUN)};
constexpr KernelAttributes kAttributes[] = {XPR_KERNELS(XPR_ATTRIBUTES)};
const char* const kNames[] = {XPR_KERNELS(XPR_STRING)};
constexpr uint32_t kCount = sizeof(kKernels) / sizeof(kKernels[0]);
const LibraryHeader kHeader = {xpr::kLibraryVersion, XPR_LIBRARY, 0, 0};

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
