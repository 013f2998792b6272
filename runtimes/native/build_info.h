// What this build of the extension is.
#pragma once

#include <string>

namespace xpr {

// Counts up whenever Python's side and this one have to change together.
inline constexpr int kInterface = 14;

// The compiler and the processor that the extension was made with and for.
std::string build_info();

}  // namespace xpr
