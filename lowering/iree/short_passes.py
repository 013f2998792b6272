"""Shorter lists of IREE's passes, from the text of a program to the phase stream.

Up to the phase `flow` IREE runs some two hundred passes over each program. For the programs that
xpr writes most of them find nothing to do: conversions of other frameworks' operations, of
quantized numbers, of arrays of unknown size, of globals, and some thirty times what makes a
program canonical, behind passes that have changed nothing. Each of these builds all of its rewrite
patterns anew, which for a small program takes ten times as long as the patterns take to be
applied. So these lists have IREE's passes in IREE's order, with the options that IREE gives them,
and leave out those that changed none of 1400 programs (the operation table, random programs and
loops, the benchmarks): what comes out is the same text, but for the order of some constants.

Each is for one minor release of the compiler (`versions/passes_3_13.py`), and for programs of
operations that are known here; others go IREE's own way, as do programs in which something is
computed when the module is loaded, from where that shows. So does what fails with these lists,
before it is taken for a failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xpr.lowering.iree.versions.base import IreeVersion, Steps

REVISION = 1
"""Tells apart modules that were compiled with older lists."""

# Others change the passes or their options.
_NEEDED = frozenset(
    {
        "--iree-input-type=stablehlo",
        "--iree-input-demote-f64-to-f32=false",
        "--iree-input-demote-i64-to-i32=false",
        "--iree-opt-const-eval=false",
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-dispatch-creation-enable-aggressive-fusion=true",
    }
)
NOT_HOISTED = "--iree-opt-const-expr-hoisting=false"
_OTHER = re.compile(r"--iree-(opt|input|dispatch-creation|global-opt|flow|preprocessing)-")

_KNOWN = frozenset(
    "abs add and atan2 bitcast_convert broadcast_in_dim case cbrt ceil clamp compare complex "
    "concatenate constant convert convolution cosine count_leading_zeros divide dot_general "
    "dynamic_slice dynamic_update_slice exponential exponential_minus_one floor gather if imag "
    "iota is_finite log log_plus_one logistic map maximum minimum multiply negate not "
    "optimization_barrier or pad popcnt power real reduce reduce_window remainder reshape return "
    "reverse round_nearest_afz round_nearest_even rsqrt scatter select shift_left "
    "shift_right_arithmetic shift_right_logical sign sine slice sqrt subtract tan tanh transpose "
    "while xor".split()
)
# To look for plain text is ten times as fast as these expressions.
_OPERATION = re.compile(r"stablehlo\.(\w+)")
_UNKNOWN_SIZE = re.compile(r"tensor<[^>]*\?")
_OTHERS = ("chlo.", "util.global", "util.initializer", "!quant.", "tuple<")
_BRANCHES = ("stablehlo.while", "stablehlo.if", "stablehlo.case", "call @")
_SLOT = re.compile(r"^ *%slot_.*$", re.M)
_INTEGER = re.compile(r"tensor<[0-9x]*u?i(?:2|4|8|16|32|64)>")


PHASES = (
    *("input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow"),
    "stream",
)
"""The phases that the steps are for, in their order."""


def steps_for(text: str, flags: Sequence[str], version: IreeVersion) -> Steps:
    """The steps for a program with these flags; none if it is to go IREE's own way."""
    if not are_for(flags) or not _are_known(text):
        return {}
    branches = any(name in text for name in _BRANCHES)
    others = _SLOT.sub("", text) if "%slot_" in text else text
    integers = "arith." in others or _INTEGER.search(text) is not None
    return version.steps(branches=branches, integers=integers, hoists=NOT_HOISTED not in flags)


def _are_known(text: str) -> bool:
    if any(name in text for name in _OTHERS):
        return False
    if "?" in text and _UNKNOWN_SIZE.search(text):
        return False
    return _KNOWN.issuperset(_OPERATION.findall(text))


def hoisting_or_not(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags without the one that says whether constants are hoisted."""
    return tuple(flag for flag in flags if flag != NOT_HOISTED)


def are_for(flags: Sequence[str]) -> bool:
    """Whether the lists are for programs that are compiled with these flags."""
    others = {flag for flag in flags if _OTHER.match(flag)} - _NEEDED - {NOT_HOISTED}
    return _NEEDED.issubset(flags) and not others
