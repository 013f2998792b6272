// The functions of blocks.cpp, whose names end in the kind of processor that they are for.
//
// They take operands, results, sizes, and then the place of the workgroup along three axes.
#pragma once

#include <cstdint>

#if defined(__AVX512VNNI__)
#define XPR_BLOCKS(kernel) xpr_##kernel##_vnni
#elif defined(__AVX2__)
#define XPR_BLOCKS(kernel) xpr_##kernel##_int8
#else
#error "there are no kernels for this processor"
#endif

// Rows of float32 and the same rounded to int8; how long they are, and whether the halves of blocks
// come apart.
using Round = void(const float*, uint8_t*, int32_t, int32_t, int64_t, int64_t, int64_t);

// Rounded rows, the blocks of a matrix and the result; m, n and k, and the rows of the matrix that a
// workgroup takes.
using Blocks = void(const uint8_t*, const uint8_t*, float*, int32_t, int32_t, int32_t, int32_t,
                    int64_t, int64_t, int64_t);

extern "C" {
[[gnu::visibility("hidden")]] Round XPR_BLOCKS(round_blocks);
[[gnu::visibility("hidden")]] Blocks XPR_BLOCKS(blocks_q8_0);
[[gnu::visibility("hidden")]] Blocks XPR_BLOCKS(blocks_q4_0);
}
