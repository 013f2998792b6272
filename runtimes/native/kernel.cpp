#include "kernel.h"

#include <atomic>
#include <chrono>

#include "interruption.h"
#include "thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xpr {
namespace {

const KernelEnvironment kEnvironment;

struct Work {
  const Dispatch* dispatch;
  const DispatchState* state;
};

int run_piece(void* context, uint64_t i) {
  auto* work = static_cast<const Work*>(context);
  uint64_t x = work->state->count_x, y = work->state->count_y;
  WorkgroupState group{};
  group.x = static_cast<uint32_t>(i % x);
  group.y = static_cast<uint32_t>(i / x % y);
  group.z = static_cast<uint16_t>(i / x / y);
  return work->dispatch->kernel(&kEnvironment, work->state, &group);
}

int run_groups(Work* work, uint64_t groups, ThreadPool* pool) {
  Interruptible* interruptible = Interruptible::here();
  if (interruptible) interruptible->check();
  if (pool && groups > 1) return pool->run(&run_piece, work, groups);
  if (interruptible && groups == 1) return interruptible->run(&run_piece, work);
  for (uint64_t i = 0; i < groups; ++i) {
    if (int failed = run_piece(work, i)) return failed;
  }
  return 0;
}

// How many threads are timed: asked first, since it costs less than what belongs to a thread.
std::atomic<int> timed_threads{0};
thread_local TimedKernels* timed_here = nullptr;

int64_t now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace

TimedKernels::TimedKernels() : outer_(timed_here) {
  timed_here = this;
  timed_threads.fetch_add(1, std::memory_order_relaxed);
}

TimedKernels::~TimedKernels() {
  timed_here = outer_;
  timed_threads.fetch_sub(1, std::memory_order_relaxed);
}

int run_kernel(const Dispatch& dispatch, const uint32_t* constants, void* const* bindings,
               const size_t* lengths, ThreadPool* pool) {
  DispatchState state{};
  state.size_x = state.size_y = state.size_z = 1;
  state.constant_count = dispatch.constant_count;
  state.count_x = dispatch.count[0];
  state.count_y = dispatch.count[1];
  state.count_z = static_cast<uint16_t>(dispatch.count[2]);
  state.concurrency = static_cast<uint8_t>(pool ? pool->threads() : 1);
  state.binding_count = dispatch.binding_count;
  state.constants = constants;
  state.bindings = bindings;
  state.lengths = lengths;
  uint64_t groups = uint64_t{state.count_x} * state.count_y * state.count_z;
  Work work{&dispatch, &state};
  TimedKernels* timed = timed_threads.load(std::memory_order_relaxed) == 0 ? nullptr : timed_here;
  if (!timed) return run_groups(&work, groups, pool);
  int64_t start = now();
  int failed = run_groups(&work, groups, pool);
  timed->times.push_back({dispatch.name, start, now()});
  return failed;
}

int touch_bindings(const KernelEnvironment*, const DispatchState* state, const WorkgroupState*) {
  for (int i = 0; i < state->binding_count; ++i) {
    auto* bytes = static_cast<const volatile uint8_t*>(state->bindings[i]);
    size_t size = state->lengths[i];
    if (size != 0) (void)(bytes[0] + bytes[size - 1]);
  }
  return 0;
}

// The bits for results and, where they are apart, for operands.
#if defined(__x86_64__)
namespace {
constexpr uint64_t kFlush = 0x8040;
uint64_t float_mode() { return _mm_getcsr(); }
void set_float_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned int>(mode)); }
}  // namespace
#elif defined(__aarch64__)
namespace {
constexpr uint64_t kFlush = 0x1080000;
uint64_t float_mode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_float_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
}  // namespace
#else
namespace {
constexpr uint64_t kFlush = 0;
uint64_t float_mode() { return 0; }
void set_float_mode(uint64_t) {}
}  // namespace
#endif

FlushToZero::FlushToZero() noexcept : saved_(float_mode()) { set_float_mode(saved_ | kFlush); }
FlushToZero::~FlushToZero() { set_float_mode(saved_); }
NoFlushToZero::NoFlushToZero() noexcept : saved_(float_mode()) { set_float_mode(saved_ & ~kFlush); }
NoFlushToZero::~NoFlushToZero() { set_float_mode(saved_); }

}  // namespace xpr
