#include "interruption.h"

#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#endif

namespace xpr {

thread_local Interruptible* Interruptible::innermost = nullptr;

#if defined(_WIN32)

Interruptible::Interruptible(bool) : outer_(nullptr), takes_ctrl_c_(false) {}
Interruptible::~Interruptible() = default;
int Interruptible::run(int (*kernel)(void*, uint64_t), void* context) { return kernel(context, 0); }
void Interruptible::interrupt() {}
void interrupt_thread(unsigned long) {}

#else

namespace {

// What handled SIGINT before; SIGINT goes to one thread, and one alone asks for it: Python's main.
struct sigaction before;

// Its default action is to do nothing, and the kernel sends it only for urgent data on sockets.
constexpr int kToThread = SIGURG;

void on_ctrl_c(int number) {
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
  Interruptible* here = Interruptible::here();
  if (here && here->takes_ctrl_c()) here->interrupt();
}

void on_request(int) {
  if (Interruptible* here = Interruptible::here()) here->interrupt();
}

struct sigaction handler(void (*function)(int)) {
  struct sigaction action = {};
  action.sa_handler = function;
  sigemptyset(&action.sa_mask);
  // Not blocked while it is handled: siglongjmp leaves the mask as it is.
  action.sa_flags = SA_NODEFER | SA_RESTART;
  return action;
}

}  // namespace

Interruptible::Interruptible(bool ctrl_c) : outer_(innermost), takes_ctrl_c_(ctrl_c) {
  if (takes_ctrl_c_) {
    struct sigaction now, ours = handler(&on_ctrl_c);
    sigaction(SIGINT, &ours, &now);
    if (now.sa_flags & SA_SIGINFO) {
      sigaction(SIGINT, &now, nullptr);  // not Python's
    } else if (now.sa_handler != &on_ctrl_c) {
      before = now;  // else a callback calls this program inside of another one
      has_handler_ = true;
    }
  }
  innermost = this;
}

Interruptible::~Interruptible() {
  innermost = outer_;
  if (!has_handler_) return;
  struct sigaction now;
  sigaction(SIGINT, &before, &now);
  if (now.sa_handler != &on_ctrl_c) sigaction(SIGINT, &now, nullptr);  // a callback has set it
}

int Interruptible::run(int (*kernel)(void*, uint64_t), void* context) {
  if (sigsetjmp(jump_, 0) != 0) throw Interrupted();
  inside_.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // A signal that came before `inside_` was set has left its mark.
  if (pending_.load(std::memory_order_relaxed)) {
    inside_.store(false, std::memory_order_relaxed);
    throw Interrupted();
  }
  int failed = kernel(context, 0);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  inside_.store(false, std::memory_order_relaxed);
  return failed;
}

void Interruptible::interrupt() {
  pending_.store(true, std::memory_order_relaxed);
  if (!inside_.exchange(false, std::memory_order_relaxed)) return;
  siglongjmp(jump_, 1);
}

void interrupt_thread(unsigned long thread) {
  struct sigaction now;
  sigaction(kToThread, nullptr, &now);
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) {
    struct sigaction ours = handler(&on_request);
    sigaction(kToThread, &ours, nullptr);
  } else if (now.sa_handler != &on_request) {
    return;  // somebody else's signal: the program goes on
  }
  pthread_kill((pthread_t)thread, kToThread);  // NOLINT: Python's numbers are these
}

#endif

}  // namespace xpr
