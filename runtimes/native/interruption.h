// Kernels that a signal ends: Ctrl-C while a compiled loop runs.
//
// A kernel only computes in memory that the program gave it: it holds no lock, allocates nothing
// and has nothing to destroy. So a signal's handler may leave it by siglongjmp, as cysignals does
// for numerical code. Kernels that several threads share are left when they end.
#pragma once

#include <atomic>
#include <csetjmp>
#include <cstdint>

namespace xpr {

// Thrown by a program that was interrupted.
class Interrupted {};

// While it lives, an interruption of this thread ends its program. With `ctrl_c` SIGINT is one;
// whatever handled it before is called first.
class Interruptible {
 public:
  explicit Interruptible(bool ctrl_c);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // That of the calling thread, or null.
  static Interruptible* here() { return innermost; }
  // Throws Interrupted once the thread has been interrupted.
  void check() const {
    if (pending_.load(std::memory_order_relaxed)) throw Interrupted();
  }
  // Runs `kernel(context)` so that an interruption ends it.
  int run(int (*kernel)(void*, uint64_t), void* context);
  // In a signal's handler.
  void interrupt();
  bool takes_ctrl_c() const { return takes_ctrl_c_; }

 private:
  static thread_local Interruptible* innermost;
  Interruptible* outer_;
  bool takes_ctrl_c_;
  bool has_handler_ = false;
  std::atomic<bool> pending_{false};
  std::atomic<bool> inside_{false};
  sigjmp_buf jump_;
};

// Interrupts the thread with this number, which Python's `threading.get_ident` gives.
void interrupt_thread(unsigned long thread);

}  // namespace xpr
