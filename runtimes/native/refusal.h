// Why a module is left to IREE.
#pragma once

#include <stdexcept>
#include <string>

namespace xpr {

// Thrown for whatever in a module is not known or not right: IREE runs such a module, or says what
// is wrong with it.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown when what a program does next depends on values that are not there yet.
class NeedsValues : public Refusal {
 public:
  using Refusal::Refusal;
};

// Thrown when a program fails while it runs.
class ProgramError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const char* what) {
  if (!holds) throw Refusal(what);
}

}  // namespace xpr
