// Threads that Python ends in the middle of C++ code.
//
// Until version 3.14 Python ends a daemon thread that asks for the lock of an interpreter at its
// end by `pthread_exit`. In glibc that unwinds the thread's stack as an exception does: destructors
// run that use Python's objects without its lock, and functions marked `noexcept` abort the
// process. Such a thread is stopped here instead, as Python 3.14 stops it.
#pragma once

#include <nanobind/nanobind.h>

#if defined(__GLIBC__) && defined(__GLIBCXX__)
#define XPR_THREADS_UNWIND 1
#include <cxxabi.h>
#include <unistd.h>
#endif

namespace xpr {

// The result of `call`, which runs Python code and so may give up Python's lock for a while.
template <typename Call>
inline auto call_python(Call&& call) -> decltype(call()) {
#ifdef XPR_THREADS_UNWIND
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  return call();
#endif
}

// As long as it lives other threads may have Python's lock.
class LockReleased {
 public:
  LockReleased() : thread_(PyEval_SaveThread()) {}
  ~LockReleased() {
    call_python([this] { PyEval_RestoreThread(thread_); });
  }
  LockReleased(const LockReleased&) = delete;
  LockReleased& operator=(const LockReleased&) = delete;

 private:
  PyThreadState* thread_;
};

}  // namespace xpr
