#include "build_info.h"

namespace xpr {
namespace {

#if defined(__x86_64__) || defined(_M_X64)
constexpr const char* kProcessor = "x86_64";
#elif defined(__aarch64__) || defined(_M_ARM64)
constexpr const char* kProcessor = "aarch64";
#else
constexpr const char* kProcessor = "another processor";
#endif

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "GCC " __VERSION__;
#else
constexpr const char* kCompiler = "another compiler";
#endif

}  // namespace

std::string build_info() { return std::string(kCompiler) + ", " + kProcessor; }

}  // namespace xpr
