// Runs of the kernels in a module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executable_library.h"

namespace xpr {

// One run of a kernel: which, how often, and on what.
struct Dispatch {
  Kernel kernel = nullptr;
  const char* name = "";  // the module's, which lives as long as the kernel
  uint32_t count[3] = {1, 1, 1};
  uint16_t constant_count = 0;
  uint8_t binding_count = 0;
};

class ThreadPool;

// When a kernel ran, in nanoseconds of the steady clock.
struct KernelTime {
  const char* name;
  int64_t start, end;
};

// While it lives, the kernels that this thread runs are timed; those of a program that is called
// meanwhile are that program's.
class TimedKernels {
 public:
  TimedKernels();
  ~TimedKernels();
  TimedKernels(const TimedKernels&) = delete;
  TimedKernels& operator=(const TimedKernels&) = delete;

  std::vector<KernelTime> times;

 private:
  TimedKernels* outer_;
};

// Runs a kernel on all its workgroups, in the calling thread or by the pool, and returns what the
// first workgroup that failed returned, or 0.
int run_kernel(const Dispatch& dispatch, const uint32_t* constants, void* const* bindings,
               const size_t* lengths, ThreadPool* pool);

// In the place of a kernel, for tests of damaged modules: reads where each binding begins and ends.
int touch_bindings(const KernelEnvironment*, const DispatchState* state, const WorkgroupState*);

// While it lives, numbers below the normal range count as zero in this thread, as IREE has it.
class FlushToZero {
 public:
  FlushToZero() noexcept;
  ~FlushToZero();
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  uint64_t saved_;
};

// While it lives, numbers below the normal range count in this thread, as Python has it.
class NoFlushToZero {
 public:
  NoFlushToZero() noexcept;
  ~NoFlushToZero();
  NoFlushToZero(const NoFlushToZero&) = delete;
  NoFlushToZero& operator=(const NoFlushToZero&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace xpr
