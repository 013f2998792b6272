"""What the compile layer needs to know about a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xpr.lowering.targets.flags import FlagSet, ProgramHints, common_flags
from xpr.lowering.targets.forms import PROCESSOR, Forms


def one_flag_set(hints: ProgramHints) -> list[FlagSet]:
    """The choice of a target whose flags do not depend on the program."""
    return [()]


def _never(hints: ProgramHints) -> bool:
    return False


@dataclass(frozen=True)
class Target:
    """One kind of device that programs are compiled for.

    ``choose_flags`` maps a program's hints to complete variants of the optimisation flags, the
    best first and the plainest last: the compiler takes the first one that compiles.
    """

    name: str
    base_flags: FlagSet
    choose_flags: Callable[[ProgramHints], list[FlagSet]] = one_flag_set
    tiles_products: Callable[[ProgramHints], bool] = _never
    """Whether a program with these hints may be compiled with data tiling."""

    plain: bool = False
    """Whether programs are written as plain StableHLO, for other compilers than IREE: with the
    rules of `plain/`, and without guards."""

    lapack_calls: bool = False
    """Whether plain programs call LAPACK's routines by the names that JAX has for them."""

    forms: Forms = PROCESSOR
    """The forms that operations take on such devices."""

    host_calls: bool = False
    """Whether a compiled program may call back into this Python process."""

    host_memory: bool = False
    """Whether programs compute in the host's memory: to call the host then costs no copies."""

    single_dispatch_loops: bool = False
    """Whether loops over small values may become one dispatch (`loops/registers/dispatch.py`)."""

    keeps_dispatches: bool = False
    """Whether compiled dispatches are kept for other programs (`iree/dispatches.py`)."""

    donation: bool = True
    """Whether programs may write results into the memory of donated operands."""

    missing_types: frozenset[str] = frozenset()
    """The dtypes, by name, that the device does not compute with."""

    exact_sums: bool = True
    """Whether the device's own compiler leaves sums of floats in the order they are written in."""

    whole_complex: bool = True
    """Whether choices between complex numbers, scans and tables of them compile; else they are
    made of their parts (`passes/complex_parts.py`)."""

    complex_transposes: bool = True
    """Whether transposes of complex numbers compile (`passes/complex_transposes.py`)."""

    exact_numbers: bool = False
    """Whether the compiler rewrites operations on floats as those of exact numbers
    (`passes/exact_numbers.py`)."""

    fuses_products: bool = False
    """Whether the processor computes `x * y + z` with one rounding, by an instruction."""

    grouped_convolutions: bool = True
    """Whether convolutions of groups of features come out right."""

    joins_symbolic_arrays: bool = True
    """Whether arrays of symbolic dimensions are joined right along other axes than the first; else
    by choices between padded ones."""

    integer_arithmetic: bool = True
    """Whether unsigned division, remainders and counts of leading zeros compile, and are right
    (`passes/spirv_arithmetic.py`)."""

    shaders: bool = False
    """Whether modules hold SPIR-V, which is given the barriers it lacks
    (`iree/shader_barriers.py`)."""

    repeats_conversions: bool = False
    """Whether each dispatch that reads a conversion to a wider type computes it again, and leaves
    it in the memory of a workgroup (`passes/conversions.py`)."""

    vectors_anywhere: bool = True
    """Whether vectors of elements are read and written right wherever they begin
    (`ir/alignment.py`)."""

    broadcasts_reductions: bool = True
    """Whether a reduction may be broadcast along a leading axis in its own dispatch
    (`passes/fused_producers.py`)."""

    folds_numbers: bool = True
    """Whether numbers made of numbers are computed in the lowering
    (`passes/constant_arithmetic.py`)."""

    longest_loop: int | None = None
    """How often a loop inside of a dispatch may go round, where there is a limit."""

    module_attributes: str = ""
    """What a module says of the device that it is for, as MLIR attributes."""

    for_device: Callable[[Any], Target] | None = field(default=None, compare=False)
    """The target of one device of the runtime, where devices differ."""

    overrides: dict[str, Callable[..., Any]] = field(default_factory=dict, compare=False)
    """Lowering rules by primitive name that replace the common rule on this target."""

    product_kernels: Callable[[], str | None] | None = field(default=None, compare=False)
    """Names the object with kernels for products of matrices (`rules/_packed_products.py`), for
    targets that have one."""

    block_kernels: Callable[[], str | None] | None = field(default=None, compare=False)
    """Names the kind of kernels for numbers in low precision (`rules/_block_products.py`)."""

    machine: Callable[[], str] | None = field(default=None, compare=False)
    """Names the machine a module is bound to, for targets that compile for the host only."""

    @property
    def host_libraries(self) -> bool:
        """Whether the host's libraries may do what they do faster than compiled code."""
        return self.host_calls and self.host_memory

    def flag_sets(self, hints: ProgramHints) -> list[FlagSet]:
        """Complete flag sets for a program with these hints, from best to plainest."""
        flags = (*self.base_flags, *common_flags(hints))
        return [(*flags, *variant) for variant in self.choose_flags(hints)]

    def machine_key(self) -> str:
        """The part of a cache key that tells machines apart; empty for portable modules."""
        return self.machine() if self.machine is not None else ""
