// The interface of the machine code in a module: IREE's executable library, version 0.6. The
// structures and their layout are those of iree/hal/local/executable_library.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xpr {

inline constexpr uint32_t kLibraryVersion = 6;
inline constexpr char kLibraryQuery[] = "iree_hal_executable_library_query";

struct KernelEnvironment {
  const uint32_t* constants = nullptr;
  void* import_thunk = nullptr;
  const void* import_functions = nullptr;
  const void* import_contexts = nullptr;
  uint64_t processor[8] = {};
};
static_assert(sizeof(KernelEnvironment) == 96);

struct DispatchState {
  uint32_t size_x, size_y;
  uint16_t size_z;
  uint16_t constant_count;
  uint32_t count_x, count_y;
  uint16_t count_z;
  uint8_t concurrency;
  uint8_t binding_count;
  const uint32_t* constants;
  void* const* bindings;
  const size_t* lengths;
};
static_assert(sizeof(DispatchState) == 48);

struct WorkgroupState {
  uint32_t x, y;
  uint16_t z;
  uint16_t reserved;
  uint32_t processor;
  void* local_memory;
  uint32_t local_memory_size;
};
static_assert(sizeof(WorkgroupState) == 32);

using Kernel = int (*)(const KernelEnvironment*, const DispatchState*, const WorkgroupState*);

struct KernelAttributes {
  uint64_t flags;
  uint16_t local_memory_pages;
  uint8_t constant_count;
  uint8_t binding_count;
  uint32_t size_x, size_y;
  uint16_t size_z;
  uint16_t reserved;
  uint64_t reserved_too[5];
};
static_assert(sizeof(KernelAttributes) == 64);

struct LibraryHeader {
  uint32_t version;
  const char* name;
  uint32_t features;
  uint32_t sanitizer;
};

struct Library {
  const LibraryHeader* header;
  uint32_t import_count;
  const void* imports;
  uint32_t kernel_count;
  const Kernel* kernels;
  const KernelAttributes* attributes;
  const void* parameters;
  const void* occupancy;
  const char* const* names;
  const void* tags;
  const void* parameter_names;
  const void* sources;
  const void* stages;
  uint32_t constant_count;
};
static_assert(offsetof(Library, kernels) == 32 && offsetof(Library, names) == 64 &&
              offsetof(Library, constant_count) == 104);

}  // namespace xpr
