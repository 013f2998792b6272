// The functions of blocks.cpp as a library of IREE's, with which programs whose other dispatches
// are kept, or have none, are put together without LLVM.
#include "blocks.h"

#define XPR_LIBRARY "xpr_blocks"
#define XPR_NAME(kernel) XPR_BLOCKS(kernel)
#define XPR_KERNELS(DO) DO(round_blocks) DO(blocks_q8_0) DO(blocks_q4_0)

#include "library.h"
