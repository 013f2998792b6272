"""What a program looks like to the flag choice, and the flags it gets.

Measured with IREE 3.13.0 on two cores of an x86-64 machine with AVX-512, one thread (local-sync)
unless said otherwise, float32. "plain" is no optimisation flag at all.

====================================  ========  ==========  ===========  ================
program                               plain     fast        data tiling  note
====================================  ========  ==========  ===========  ================
sum of 16M values                     8.4 ms    2.3 ms      2.3 ms
the same, two threads                 8.4 ms    2.4 ms                   split: 1.6 ms
row sums of 4096 x 4096               3.6 ms    2.3 ms      2.3 ms
column sums of 4096 x 4096            10 ms     10 ms       10 ms        in two steps: 4 ms
mean of squares of 1M values          0.93 ms   0.15 ms     0.15 ms
softmax 4096 x 1024                   8.9 ms    4.1 ms      4.1 ms
layer norm 4096 x 1024                5.0 ms    2.5 ms      2.5 ms       needs both flags
n-body, 1024 bodies                   5.9 ms    4.0 ms      26 ms
tanh(x) sin(x) + exp(x), 4M values    3.2 ms    3.1 ms      3.1 ms
dot of two vectors of 1M values       0.92 ms   0.30 ms     0.30 ms      split: 0.40 ms
matrix 4096 x 4096 times vector       2.4 ms    2.4 ms      13 ms
matmul 64, 128, 256, 384              in us: 6.6, 30, 203, 715           9, 34, 203, 790
matmul 512, 1024                      2.3, 54 ms            1.85, 16 ms
matmul 100, 300, 1000                 66, 672 us, 41 ms     23, 320 us, 14 ms
matmul 32 x 1024 x 1024               1.66 ms               0.98 ms
matmul 8 x 1024 x 1024                0.42 ms               0.69 ms
MLP, batch 128, 784-512-512-10        2.2 ms    2.2 ms      1.4 ms
its training step                     5.3 ms    5.2 ms      3.4 ms
convolution 3x3, 64 channels, NHWC    3.4 ms    3.5 ms      3.5 ms
the same, NCHW                        269 ms    269 ms      270 ms       transposed: 4 ms
====================================  ========  ==========  ===========  ================

No flag helps with the last and with column sums, but another program does: reshape to blocks of 32
rows and sum twice; transpose to NHWC and HWIO, with a barrier behind the transposes, or IREE moves
them back into the convolution.

The opt levels O1 to O3 gave nothing beyond the two "fast" flags, LLVM's loop and vectoriser flags
and all ukernels nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass

FlagSet = tuple[str, ...]

# To find what is known when a module is loaded IREE compares each operation with all of those it
# depends on: chains of 5000 additions took 55 s, of 65 in all, 200 sines 5 of 9. So large programs
# compute such values when they run. And what is found becomes globals, with which a program takes a
# longer way through the compiler: of 30 programs with indices in them 1.2 times as long, of a
# Hessian of 20 numbers 1.6 times.
_NOTHING_LASTS: FlagSet = ("--iree-opt-const-expr-hoisting=false",)
_LARGE = 1500

# What every target gets. Without the two demotion flags IREE may turn float64 and int64 into 32-bit
# types in silence. A source map serves only the stack traces of IREE's own tools: 0.6 of 10 kB. By
# default IREE compiles a part of the program a second time to evaluate constant expressions (an
# MLP's training step: 1.35 s, and 1.10 s without; they are evaluated when the module is loaded
# instead).
COMMON_FLAGS: FlagSet = (
    "--iree-input-type=stablehlo",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-input-demote-i64-to-i32=false",
    "--iree-vm-bytecode-module-strip-source-map=true",
    "--iree-opt-const-eval=false",
)

# Compile time: the library of microkernels is parsed for each module, and slows data tiling down
# (430 ms, and 290 ms without, for code that is no slower).
LLVM_CPU_FLAGS: FlagSet = (
    "--iree-llvmcpu-enable-ukernels=none",
    "--iree-llvmcpu-link-ukernel-bitcode=false",
    "--iree-llvmcpu-debug-symbols=false",
)

# The first lets a reduction keep several partial sums, without which it is one serial chain; the
# result is closer to the exact one too (a transformer block: error 2.5e-5, against 7.6e-5). The
# second fuses reductions with what feeds them. Both are a part of opt level O2.
_FAST: FlagSet = (
    "--iree-llvmcpu-reassociate-fp-reductions=true",
    "--iree-dispatch-creation-enable-aggressive-fusion=true",
)

# Gives a single long sum to several threads, at the price of a second pass.
_SPLIT_REDUCTION: FlagSet = ("--iree-dispatch-creation-enable-split-reduction=true",)
_SPLIT_LENGTH = 1 << 19

_DATA_TILING: FlagSet = ("--iree-opt-data-tiling=true",)

# Operations are computed again for each use. IREE does not get through with some operations that
# give two results, if these are found to be the same bytes later.
_PLAIN: FlagSet = ("--iree-dispatch-creation-fuse-multi-use=false",)


@dataclass(frozen=True, slots=True)
class ProgramHints:
    """The facts about one program that decide which compiler flags suit it.

    Every field has the value of a program that has nothing of the kind, so a caller states only
    what it knows. A contraction is a ``dot_general`` (batch axes left out): ``m`` and ``n`` are
    the products of its free sizes, ``k`` that of its contracted sizes.
    """

    matmul_size: tuple[int, int, int] | None = None
    """``(m, n, k)`` of the contraction with the largest ``m * n * k`` where ``m, n > 1``."""

    matvec_size: tuple[int, int] | None = None
    """``(free, k)`` of the largest contraction in which one operand has no free axis."""

    has_batched_contraction: bool = False
    """Whether a contraction has batch axes."""

    reduction_length: int = 1
    """The largest number of values that one reduction combines into one result."""

    has_control_flow: bool = False
    """Whether a branch or a loop decides what is computed; not one inside of a dispatch."""

    has_barriers: bool = False
    """Whether a barrier stands between any two operations."""

    has_lasting_values: bool = True
    """Whether what is made of constants alone is better computed once, when the module is loaded;
    True for programs of which that is not known (`facts.py`)."""

    num_equations: int = 0

    num_operations: int = 0
    """How many operations the program has when it is lowered."""


def common_flags(hints: ProgramHints) -> FlagSet:
    """Flags for such a program on every target."""
    return _NOTHING_LASTS if hints.num_operations > _LARGE else ()


def llvm_cpu_flag_sets(hints: ProgramHints) -> list[FlagSet]:
    """Optimisation flags for CPU code, from the best for such a program to the plainest.

    The plainer sets are for the programs that the better ones cannot compile: data tiling finds
    vectors too large, fusion exceeds a limit on stack allocations or duplicates a result.
    """
    fast = _FAST
    if not hints.has_lasting_values and hints.num_operations <= _LARGE:
        fast += _NOTHING_LASTS
    if hints.reduction_length >= _SPLIT_LENGTH:
        fast += _SPLIT_REDUCTION
    sets = [fast, _PLAIN]
    if suits_data_tiling(hints):
        sets.insert(0, fast + _DATA_TILING)
    return sets


def suits_data_tiling(hints: ProgramHints) -> bool:
    """Whether repacking the operands of matrix products pays.

    It does where the right operand is too large for the inner cache, or where its rows do not
    divide into whole vectors.
    """
    if hints.matmul_size is None:
        return False
    m, n, k = hints.matmul_size
    large = min(m, n) >= 16 and n * k >= 1 << 18
    uneven = min(m, n, k) >= 32 and n % 32 != 0
    if not large and not uneven:
        return False
    work = m * n * k
    if hints.has_batched_contraction and work < 1 << 29:
        # Most attempts with a batched contraction fail, as in the gradient of attention, and the
        # time of the first compile is lost.
        return False
    if hints.matvec_size is None:
        return True
    # A matrix-vector product of the same program loses 0.6 ns per element, a matrix-matrix
    # product gains 0.035 ns per multiplication.
    free, length = hints.matvec_size
    return work > 18 * free * length
