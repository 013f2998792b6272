// Threads that share the workgroups of one kernel at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace xpr {

// The calling thread takes part, so a pool of n threads starts n - 1. Those look for work for a
// moment after each piece and sleep then; work whose other threads sleep begins without them.
//
// The pieces are cut into a range for each thread, so that neighbours, which often write to one
// line of the cache, are computed by one. Who is done with its own range takes from the ends of
// the others', so that nothing waits for a thread that does not come.
//
// Every second round goes through the pieces from the last to the first: what the end of a round
// has read and written is still in the caches when the next one begins there, while a round that
// begins at the front of more than the caches hold finds nothing of it.
class ThreadPool {
 public:
  // Has fewer threads where the system gives no more.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls `piece(context, i)` for each i below `count` and returns when all have returned. A piece
  // that returns something else than 0 has the others left out; its value is the result. One
  // thread at a time may call this; see `try_enter`.
  using Piece = int (*)(void* context, uint64_t i);
  int run(Piece piece, void* context, uint64_t count);

  // Whether the calling thread has the pool for itself from now on, until `leave`.
  bool try_enter() noexcept { return !busy_.test_and_set(std::memory_order_acquire); }
  void leave() noexcept { busy_.clear(std::memory_order_release); }

  int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

 private:
  // What is left of the range of one thread, in units of one or several pieces: the first one in
  // the lower half, the one behind the last in the upper.
  struct alignas(64) Range {
    std::atomic<uint64_t> units{0};
  };

  void work(int self);
  void take_pieces(int self);
  bool take_unit(int self, uint32_t* unit);
  void keep_off_this_processor();

  std::unique_ptr<Range[]> ranges_;
  std::vector<std::thread> workers_;
#if defined(__linux__)
  cpu_set_t processors_;  // those that the process may use
  int avoided_ = -1;      // the one that workers keep off
#endif
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;

  // The work: valid while the round is open.
  Piece piece_ = nullptr;
  void* context_ = nullptr;
  uint64_t count_ = 0;
  uint64_t units_ = 0;
  int sharers_ = 1;
  bool backwards_ = false;
  std::atomic<uint64_t> round_{0};
  // The number of workers inside of the open round in the lower half; the highest bit says that no
  // other may enter.
  std::atomic<uint32_t> inside_{kClosed};
  std::atomic<int> failure_{0};
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<uint32_t> bell_{0};
  std::atomic<bool> ending_{false};

  static constexpr uint32_t kClosed = 1u << 31;
};

// The pool of this process, started by the first call; null where `use_threads` said 1. It has as
// many threads as the process may run on where that was not called. A forked child starts its own.
// Whoever holds it may go on with it when `use_threads` has replaced it; the last one ends it.
std::shared_ptr<ThreadPool> shared_pool();

// The pool for as long as this lives, if it is wanted and nobody else has it.
class PoolTurn {
 public:
  explicit PoolTurn(bool wanted) {
    if (!wanted) return;
    pool_ = shared_pool();
    if (pool_ && !pool_->try_enter()) pool_.reset();
  }
  ~PoolTurn() {
    if (pool_) pool_->leave();
  }
  PoolTurn(const PoolTurn&) = delete;
  PoolTurn& operator=(const PoolTurn&) = delete;
  ThreadPool* pool() const { return pool_.get(); }

 private:
  std::shared_ptr<ThreadPool> pool_;
};

// Has pools from now on as many threads as this, at least 1. One of another size that is there
// already ends with the work that it does now.
void use_threads(int count);

}  // namespace xpr
