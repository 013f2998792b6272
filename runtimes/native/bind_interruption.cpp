#include "bind_interruption.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <csignal>

#include "ended_threads.h"
#include "interruption.h"
#include "refusal.h"

#if defined(__linux__)
#include <unistd.h>
#endif

namespace nb = nanobind;

namespace xpr {
namespace {

// Calls this short end before a user could interrupt them.
constexpr std::chrono::microseconds kShort{100};

// Whether SIGINT would raise KeyboardInterrupt in this thread.
bool ctrl_c_raises() {
#if defined(__linux__)
  if (gettid() != getpid()) return false;  // quicker to ask, and right for a fork's child
#endif
  static PyObject* signals = PyImport_ImportModule("_signal");
  if (signals == nullptr) throw nb::python_error();
  nb::handle module(signals);
#if !defined(__linux__)
  nb::module_ threading = nb::module_::import_("threading");
  if (!threading.attr("current_thread")().is(threading.attr("main_thread")())) return false;
#endif
  return module.attr("getsignal")(SIGINT).is(module.attr("default_int_handler"));
}

}  // namespace

void run_without_lock(const Program& program, const Block* arguments, Block* results, bool parallel,
                      HostCalls* calls) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  try {
    // To ask for Ctrl-C costs a microsecond. Another thread may interrupt a call in any case.
    Interruptible interruptible(!program.was_short() && ctrl_c_raises());
    LockReleased others_may_run;
    program.run(arguments, results, parallel, calls);
    program.set_was_short(Clock::now() - start < kShort);
    return;
  } catch (const Interrupted&) {
    // Below, with Python's lock.
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  throw ProgramError("the program was interrupted");
}

}  // namespace xpr
