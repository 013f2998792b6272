// The kernels as a library of IREE's, with which programs whose other dispatches
// are kept, or have none, are put together without LLVM.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

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
  static void call(const DispatchState* state, const int64_t* place,
                   std::index_sequence<kAt...>) {
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

#define XPR_KERNELS(DO)                                                                     \
  DO(pack_f32) DO(product_f32) DO(pack_f64) DO(product_f64) DO(sums_f32) DO(sums_f64)       \
  DO(total_f32) DO(total_f64) DO(dots_f32) DO(dots_f64) DO(pack_taps_f32)            \
  DO(pack_taps_f64) DO(convolve_f32) DO(convolve_f64) DO(complex_absolute_f32)           \
  DO(complex_absolute_f64) DO(complex_divide_f32) DO(complex_divide_f64)             \
  DO(cholesky_f32) DO(cholesky_f64)
#define XPR_RUN(kernel) Signature<decltype(XPR_NAME(kernel))>::run<XPR_NAME(kernel)>,
#define XPR_ATTRIBUTES(kernel) Signature<decltype(XPR_NAME(kernel))>::attributes(),
#define XPR_STRING(kernel) "xpr_" #kernel,

const Kernel kKernels[] = {XPR_KERNELS(XPR_RUN)};
constexpr KernelAttributes kAttributes[] = {XPR_KERNELS(XPR_ATTRIBUTES)};
const char* const kNames[] = {XPR_KERNELS(XPR_STRING)};
constexpr uint32_t kCount = sizeof(kKernels) / sizeof(kKernels[0]);
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
