// Programs that may run long: other threads run meanwhile, and Ctrl-C ends them.
#pragma once

#include "program.h"

namespace xpr {

// Runs `program` without Python's lock. Throws nb::python_error with what a signal's handler raised
// when Ctrl-C ended the program.
void run_without_lock(const Program& program, const Block* arguments, Block* results, bool parallel,
                      HostCalls* calls);

}  // namespace xpr
