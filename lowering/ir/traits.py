"""What is known of each operation: one table for all of them.

An operation that is not in the table is refused by the verifier, and cannot be printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What an operation does with the elements of its operands."""

    CONSTANT = auto()
    """It has none."""
    ELEMENTWISE = auto()
    """An element of the result depends on the elements in the same place."""
    LAYOUT = auto()
    """The same elements in other axes: broadcasts, reshapes, transposes."""
    MOVEMENT = auto()
    """Some of the elements, in other places: slices, pads, concatenations."""
    REDUCTION = auto()
    CONTRACTION = auto()
    """Products of matrices and convolutions."""
    INDEXED = auto()
    """Gathers, scatters and updates, at places that are operands."""
    SORT = auto()
    CONTROL = auto()
    """Loops and branches."""
    BARRIER = auto()
    CALL = auto()
    TERMINATOR = auto()
    """The last operation of a block."""
    DISPATCH = auto()
    """One dispatch, written by hand."""
    EXECUTABLE = auto()
    """A dispatch whose program stands beside the functions: nothing is computed in it."""
    REGISTER = auto()
    """What is done on registers and memory in such a dispatch."""
    UNKNOWN = auto()
    """It is not in the table."""

    # A table by kinds is looked up for each operation of a program: by identity that is cheap.
    __hash__ = object.__hash__


MOVES = frozenset({Kind.LAYOUT, Kind.MOVEMENT})
"""The kinds that put elements elsewhere, and compute none."""

ON_ELEMENTS = MOVES | {Kind.ELEMENTWISE}
"""The kinds whose elements a consumer can compute anew, each from a few of the operands'."""

PURE = ON_ELEMENTS | {Kind.CONSTANT}
"""The kinds of which equal operations can be merged, and unused ones removed."""

SLICES = frozenset({"stablehlo.slice", "stablehlo.dynamic_slice"})
"""The operations that take a part of an array, wherever it begins."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of one operation.

    `syntax` names the form in which it is printed; `attributes` are those that it must have.
    """

    kind: Kind
    syntax: str = "generic"
    attributes: tuple[str, ...] = ()
    regions: int = 0
    forms_dispatches: bool = False
    """Whether the operations of its regions become dispatches."""
    may_fuse: bool = False
    """Whether IREE may compute it in the dispatch of what uses it, though it makes new elements."""


def _all(names: str, traits: Traits, dialect: str = "stablehlo") -> dict[str, Traits]:
    return {f"{dialect}.{name}": traits for name in names.split()}


_SIZES = ("window_dimensions", "padding")

TRAITS: dict[str, Traits] = {
    **_all("constant", Traits(Kind.CONSTANT, "number", ("value",))),
    **_all("iota", Traits(Kind.CONSTANT, "iota", ("dim",))),
    **_all(
        "abs cbrt ceil cosine count_leading_zeros exponential exponential_minus_one floor log "
        "log_plus_one logistic negate not popcnt round_nearest_afz round_nearest_even rsqrt sign "
        "sine sqrt tan tanh",
        Traits(Kind.ELEMENTWISE, "unary"),
    ),
    **_all("real imag complex clamp", Traits(Kind.ELEMENTWISE)),
    **_all("map", Traits(Kind.ELEMENTWISE, attributes=("dimensions",), regions=1)),
    **_all(
        "add and atan2 divide maximum minimum multiply or power remainder shift_left "
        "shift_right_arithmetic shift_right_logical subtract xor",
        Traits(Kind.ELEMENTWISE, "binary"),
    ),
    **_all("compare", Traits(Kind.ELEMENTWISE, "compare", ("direction", "kind"))),
    **_all("select", Traits(Kind.ELEMENTWISE, "select")),
    **_all("convert bitcast_convert", Traits(Kind.ELEMENTWISE, "plain")),
    **_all("reshape", Traits(Kind.LAYOUT, "plain")),
    **_all("broadcast_in_dim transpose", Traits(Kind.LAYOUT, "along", ("dims",))),
    **_all("slice", Traits(Kind.MOVEMENT, "slice", ("start", "limit", "strides"))),
    **_all("concatenate", Traits(Kind.MOVEMENT, "concatenate", ("dim",))),
    **_all("pad", Traits(Kind.MOVEMENT, "pad", ("low", "high", "interior"))),
    **_all("reverse", Traits(Kind.MOVEMENT, "reverse", ("dims",))),
    **_all("dynamic_slice", Traits(Kind.MOVEMENT, "dynamic_slice", ("sizes",))),
    **_all("dynamic_update_slice", Traits(Kind.INDEXED, "plain")),
    **_all("reduce", Traits(Kind.REDUCTION, attributes=("dimensions",), regions=1, may_fuse=True)),
    **_all("reduce_window", Traits(Kind.REDUCTION, attributes=_SIZES, regions=1, may_fuse=True)),
    **_all(
        "dot_general",
        Traits(Kind.CONTRACTION, "dot_general", may_fuse=True),
    ),
    **_all(
        "convolution",
        Traits(Kind.CONTRACTION, "convolution", may_fuse=True),
    ),
    **_all(
        "gather",
        Traits(Kind.INDEXED, attributes=("dimension_numbers", "slice_sizes"), may_fuse=True),
    ),
    **_all("scatter", Traits(Kind.INDEXED, attributes=("scatter_dimension_numbers",), regions=1)),
    **_all("sort", Traits(Kind.SORT, attributes=("dimension",), regions=1)),
    **_all("while", Traits(Kind.CONTROL, regions=2, forms_dispatches=True)),
    **_all("case", Traits(Kind.CONTROL, regions=-1, forms_dispatches=True)),
    **_all("optimization_barrier", Traits(Kind.BARRIER, "listed")),
    **_all("optimization_barrier", Traits(Kind.BARRIER, "listed"), "util"),
    **_all("return", Traits(Kind.TERMINATOR, "terminator")),
    **_all("return", Traits(Kind.TERMINATOR, "return"), "func"),
    **_all("call", Traits(Kind.CALL, "call", ("callee",)), "func"),
    # Plain StableHLO only (`plain/`).
    **_all("reduce_precision", Traits(Kind.ELEMENTWISE, attributes=("exponent_bits",))),
    **_all("fft", Traits(Kind.CONTRACTION, attributes=("fft_type", "fft_length"))),
    **_all("cholesky", Traits(Kind.CONTRACTION, attributes=("lower",))),
    **_all("triangular_solve", Traits(Kind.CONTRACTION, attributes=("left_side", "lower"))),
    **_all("custom_call", Traits(Kind.CALL, attributes=("call_target_name",))),
    **_all(
        "acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma "
        "next_after polygamma sinh zeta",
        Traits(Kind.ELEMENTWISE),
        "chlo",
    ),
    **_all("top_k", Traits(Kind.SORT, attributes=("k",)), "chlo"),
    # What takes symbolic dimensions as values (`xpr/export/symbolic_forms.py`).
    **_all("dynamic_broadcast_in_dim", Traits(Kind.LAYOUT, attributes=("broadcast_dimensions",))),
    **_all("dynamic_iota", Traits(Kind.CONSTANT, attributes=("iota_dimension",))),
    **_all("real_dynamic_slice", Traits(Kind.MOVEMENT)),
    **_all("get_dimension_size", Traits(Kind.CONSTANT, attributes=("dimension",))),
    **_all("dynamic_reshape", Traits(Kind.LAYOUT)),
    **_all("dynamic_pad", Traits(Kind.MOVEMENT)),
    **_all("dynamic_gather", Traits(Kind.INDEXED, attributes=("dimension_numbers",))),
    **_all("torch_index_select", Traits(Kind.INDEXED, attributes=("dim", "batch_dims"))),
    **_all("tensor.reshape", Traits(Kind.LAYOUT, "symbolic_reshape"), "flow"),
    **_all("tensor.tie_shape", Traits(Kind.BARRIER), "flow"),
    **_all("dim from_elements", Traits(Kind.REGISTER), "tensor"),
    **_all("extract_slice", Traits(Kind.MOVEMENT, "extract_slice", ("sizes",)), "tensor"),
    **_all("insert_slice", Traits(Kind.INDEXED, "insert_slice", ("sizes",)), "tensor"),
    # Dispatches that are written by hand.
    **_all("dispatch.region", Traits(Kind.DISPATCH, "dispatch", regions=1), "flow"),
    **_all("return", Traits(Kind.TERMINATOR, "terminator"), "flow"),
    **_all("for", Traits(Kind.CONTROL, "for", regions=1), "scf"),
    **_all("while", Traits(Kind.CONTROL, "loop", regions=2), "scf"),
    **_all("yield", Traits(Kind.TERMINATOR, "terminator"), "scf"),
    **_all("condition", Traits(Kind.TERMINATOR, "condition"), "scf"),
    **_all("if", Traits(Kind.CONTROL, "if", regions=2), "scf"),
    # Programs on memory that stand beside the functions, and their dispatch.
    **_all("dispatch", Traits(Kind.EXECUTABLE, "executable", ("symbol",)), "flow"),
    "hal.dispatch.extern": Traits(
        Kind.EXECUTABLE, "extern", ("entry", "workgroups", "target", "data")
    ),
    **_all("interface.workgroup.id", Traits(Kind.REGISTER, "workgroup"), "hal"),
    **_all("interface.binding.subspan", Traits(Kind.REGISTER, "binding", ("binding",)), "hal"),
    **_all("alloca", Traits(Kind.REGISTER, "empty"), "memref"),
    **_all("view", Traits(Kind.REGISTER, "view"), "memref"),
    **_all("load", Traits(Kind.REGISTER, "load"), "vector"),
    **_all("store", Traits(Kind.REGISTER, "store"), "vector"),
    **_all("load", Traits(Kind.REGISTER, "extract"), "memref"),
    **_all("from_elements", Traits(Kind.REGISTER, "elements"), "vector"),
    **_all("constant", Traits(Kind.REGISTER, "number", ("value",)), "arith"),
    **_all(
        "addf addi andi divf divsi divui maximumf maxsi maxui minimumf minsi minui mulf muli ori "
        "remsi remui shli shrsi shrui subf subi xori",
        Traits(Kind.REGISTER, "binary"),
        "arith",
    ),
    **_all("negf", Traits(Kind.REGISTER, "unary"), "arith"),
    **_all(
        "absf absi ceil exp expm1 floor log log1p round roundeven sqrt tanh",
        Traits(Kind.REGISTER, "unary"),
        "math",
    ),
    **_all("fma", Traits(Kind.REGISTER, "ternary"), "math"),
    **_all("cmpf cmpi", Traits(Kind.REGISTER, "predicate", ("predicate",)), "arith"),
    **_all("select", Traits(Kind.REGISTER, "select"), "arith"),
    **_all(
        "bitcast extf extsi extui fptosi fptoui index_cast index_castui sitofp truncf trunci "
        "uitofp",
        Traits(Kind.REGISTER, "to"),
        "arith",
    ),
    **_all("broadcast", Traits(Kind.REGISTER, "to"), "vector"),
    **_all("extract", Traits(Kind.REGISTER, "first"), "vector"),
    **_all("shuffle", Traits(Kind.REGISTER, "shuffle", ("places",)), "vector"),
    **_all("transfer_read", Traits(Kind.REGISTER, "transfer_read"), "vector"),
    **_all("transfer_write", Traits(Kind.REGISTER, "transfer_write"), "vector"),
    **_all("empty", Traits(Kind.REGISTER, "empty"), "tensor"),
    **_all("extract", Traits(Kind.REGISTER, "extract"), "tensor"),
    **_all("insert", Traits(Kind.REGISTER, "insert"), "tensor"),
}
"""By the operations' names."""
