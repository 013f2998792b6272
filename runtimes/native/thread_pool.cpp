#include "thread_pool.h"

#include <algorithm>
#include <mutex>
#include <system_error>

#include "kernel.h"

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xpr {
namespace {

constexpr int kSpins = 4000;  // some 20 to 50 us; waking a thread costs 10

// A range is taken in so many parts at most: small ones cost more than they take.
constexpr int kUnitsEach = 32;

// Up to so many threads are told which processor to keep off.
constexpr int kFewThreads = 8;

void pause_a_moment() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : ranges_(new Range[threads]) {
#if defined(__linux__)
  if (sched_getaffinity(0, sizeof(processors_), &processors_) != 0) CPU_ZERO(&processors_);
#endif
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error&) {
    // There is no memory for another stack, or there may be no more threads: these have to do.
  }
}

ThreadPool::~ThreadPool() {
  ending_.store(true, std::memory_order_seq_cst);
  bell_.fetch_add(1, std::memory_order_seq_cst);
  bell_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

int ThreadPool::run(Piece piece, void* context, uint64_t count) {
  piece_ = piece;
  context_ = context;
  count_ = count;
  backwards_ = !backwards_;
  sharers_ = threads();
  units_ = std::min(count, uint64_t{kUnitsEach} * sharers_);
  for (int i = 0; i < sharers_; ++i) {
    uint64_t first = units_ * i / sharers_, end = units_ * (i + 1) / sharers_;
    ranges_[i].units.store(first | end << 32, std::memory_order_relaxed);
  }
  failure_.store(0, std::memory_order_relaxed);
  inside_.store(0, std::memory_order_release);  // open
  round_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) > 0) {
    keep_off_this_processor();
    bell_.fetch_add(1, std::memory_order_seq_cst);
    bell_.notify_all();
  }
  take_pieces(0);
  // Close it: who is not inside by now need not come. A worker that is kept from running, by
  // another process say, is waited for only if it holds a piece.
  uint32_t inside = inside_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (int spins = 0; (inside & ~kClosed) != 0; ++spins) {
    pause_a_moment();
    if (spins > kSpins) std::this_thread::yield();
    inside = inside_.load(std::memory_order_acquire);
  }
  return failure_.load(std::memory_order_relaxed);
}

// Linux wakes a thread on the processor of the one that wakes it where it does not look for an idle
// one, as on two busy processors. There it would wait for its turn, some 3 ms, while the caller
// does all of the work. On many processors an idle one is found.
void ThreadPool::keep_off_this_processor() {
#if defined(__linux__)
  if (threads() > kFewThreads) return;
  int here = sched_getcpu();
  if (here == avoided_ || here < 0) return;
  cpu_set_t others = processors_;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others) == 0) return;
  avoided_ = here;
  for (std::thread& worker : workers_) {
    // Where it may not be set any more, workers stay where they are.
    (void)pthread_setaffinity_np(worker.native_handle(), sizeof(others), &others);
  }
#endif
}

bool ThreadPool::take_unit(int self, uint32_t* unit) {
  for (int k = 0; k < sharers_; ++k) {
    std::atomic<uint64_t>& units = ranges_[(self + k) % sharers_].units;
    uint64_t left = units.load(std::memory_order_relaxed);
    for (;;) {
      auto first = static_cast<uint32_t>(left), end = static_cast<uint32_t>(left >> 32);
      if (first >= end) break;
      // From the front of its own, from the back of another's; backwards the other way round.
      bool from_front = (k == 0) != backwards_;
      *unit = from_front ? first : end - 1;
      uint64_t rest = from_front ? left + 1 : left - (uint64_t{1} << 32);
      if (units.compare_exchange_weak(left, rest, std::memory_order_relaxed)) return true;
    }
  }
  return false;
}

void ThreadPool::take_pieces(int self) {
  uint32_t unit;
  while (take_unit(self, &unit)) {
    uint64_t first = count_ / units_ * unit + count_ % units_ * unit / units_;
    uint64_t end = count_ / units_ * (unit + 1) + count_ % units_ * (unit + 1) / units_;
    for (uint64_t k = 0; k < end - first; ++k) {
      if (failure_.load(std::memory_order_relaxed)) return;
      int failed = piece_(context_, backwards_ ? end - 1 - k : first + k);
      if (failed) failure_.store(failed, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::work(int self) {
  FlushToZero flush;
  uint64_t seen = 0;
  for (;;) {
    int spins = 0;
    uint64_t round = round_.load(std::memory_order_acquire);
    while (round == seen) {
      if (ending_.load(std::memory_order_acquire)) return;
      if (++spins < kSpins) {
        pause_a_moment();
      } else {
        uint32_t bell = bell_.load(std::memory_order_seq_cst);
        sleeping_.fetch_add(1, std::memory_order_seq_cst);
        if (round_.load(std::memory_order_seq_cst) == seen &&
            !ending_.load(std::memory_order_seq_cst)) {
          bell_.wait(bell, std::memory_order_seq_cst);
        }
        sleeping_.fetch_sub(1, std::memory_order_seq_cst);
        spins = 0;
      }
      round = round_.load(std::memory_order_acquire);
    }
    seen = round;
    uint32_t inside = inside_.load(std::memory_order_acquire);
    while (!(inside & kClosed)) {
      if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acq_rel)) {
        take_pieces(self);
        inside_.fetch_sub(1, std::memory_order_acq_rel);
        break;
      }
    }
  }
}

namespace {

int processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  unsigned int found = std::thread::hardware_concurrency();
  return found ? static_cast<int>(found) : 1;
}

struct SharedPool {
  std::mutex lock;
  std::shared_ptr<ThreadPool> pool;
  bool is_made = false;  // one of a single thread is null
  int wanted = 0;        // threads; 0: as many as there are processors
};

void before_fork();
void after_fork();
void forget_pool();

// It lives until the end of the process, whose threads are gone by then: never freed.
SharedPool& shared() {
  static auto* made = [] {
#if !defined(_WIN32)
    pthread_atfork(before_fork, after_fork, forget_pool);
#endif
    return new SharedPool;
  }();
  return *made;
}

void before_fork() { shared().lock.lock(); }
void after_fork() { shared().lock.unlock(); }

// A forked child has none of the threads. The pool is left behind: to end it would mean to wait
// for them.
void forget_pool() {
  new std::shared_ptr<ThreadPool>(std::move(shared().pool));
  shared().is_made = false;
  shared().lock.unlock();
}

}  // namespace

void use_threads(int count) {
  std::shared_ptr<ThreadPool> replaced;  // ends when the lock is free again: it waits for threads
  std::lock_guard<std::mutex> guard(shared().lock);
  if (shared().wanted == count) return;
  shared().wanted = count;
  shared().is_made = false;
  replaced.swap(shared().pool);
}

std::shared_ptr<ThreadPool> shared_pool() {
  SharedPool& all = shared();
  std::lock_guard<std::mutex> guard(all.lock);
  if (!all.is_made) {
    int threads = all.wanted ? all.wanted : processors();
    if (threads > 1) all.pool = std::make_shared<ThreadPool>(threads);
    all.is_made = true;
  }
  return all.pool;
}

}  // namespace xpr
