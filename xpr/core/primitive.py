"""Primitives: the operations jaxprs are made of, and `define`, which gives one all its rules.

A rule of each kind, by the names used throughout:

    abstract(*avals, **params)          -> aval, or a list of avals (multiple_results)
    reference(*numpy_arrays, **params)  -> ndarray, or a tuple of them: the meaning, in NumPy
    jvp(primals, tangents, **params)    -> result, its tangent (lists of them, multiple_results)
    transpose(cotangent, *args, **params) -> cotangents of the operands given as `Linear`, else None
    batch(axis, args, dims, **params)   -> result, its batch dimension (lists, multiple_results)

Tangents and cotangents may be `Zero`s (`xpr.interpreters.zeros`). Programs inside programs need
two more, for which other primitives have no use:

    linearize(trace, primals, tangents, params) -> results, tangents in the linear program
    partial_eval(trace, args, params)           -> results, known and unknown ones

The lowering rule lives in `lowering/rules/<family>.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core import trace
from xpr.core.effects import Effects
from xpr.core.errors import note_user_line, shown
from xpr.core.source_info import current

Rule = Callable[..., Any]


class Absent:
    """A rule that cannot exist, with the reason that the error will give."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reason!r})"


class NotDifferentiable(Absent):
    """The primitive has no derivative."""


class NotLinear(Absent):
    """The primitive is not linear, so it has no transpose."""


NOT_LINEAR = NotLinear("it is not linear")


class NotBatchable(Absent):
    """The primitive cannot be vectorised."""


class DerivedRule:
    """A short way to say a rule: `define` asks it for the rule of the primitive it is given to."""

    def rule_for(self, primitive: Primitive) -> Rule:
        raise NotImplementedError(f"{type(self).__name__} must make a rule")


# Errors to which the user's line is added: those of operands, and NaNs that `debug_nans` found.
_NOTED = (TypeError, ValueError, IndexError, NotImplementedError, FloatingPointError)


class Primitive:
    """An operation by name; `bind` applies it under the current trace."""

    __slots__ = (
        "abstract",
        "axis_names",
        "batch",
        "calls",
        "dce_rule",
        "doc",
        "eager",
        "effects",
        "family",
        "interprets",
        "jvp",
        "linearize",
        "multiple_results",
        "name",
        "partial_eval",
        "pp_params",
        "reference",
        "transpose",
        "vma",
    )

    # Whether references may be among the operands: see `xpr/core/references.py`.
    takes_references = False
    # Whether it acts on values of high types: see `xpr/core/high.py`.
    is_high: Any = False

    def __init__(self, name: str, family: str, multiple_results: bool = False) -> None:
        self.name = name
        self.family = family
        self.multiple_results = multiple_results
        self.abstract: Rule = _no_rule(name, "abstract")
        self.reference: Rule = _no_rule(name, "reference")
        self.jvp: Rule | Absent = _no_rule(name, "jvp")
        self.transpose: Rule | Absent = _no_rule(name, "transpose")
        self.batch: Rule | Absent = _no_rule(name, "batch")
        self.axis_names: Callable[[dict[str, Any]], Sequence[Any]] | None = None
        self.effects: Callable[[dict[str, Any]], Effects] | None = None
        self.vma: Rule | None = None
        self.linearize: Rule | None = None
        self.partial_eval: Rule | None = None
        self.eager = "reference"
        self.calls: str | None = None
        self.interprets = False
        self.dce_rule: Rule | None = None
        self.pp_params: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        self.doc = ""

    def bind(self, *args: Any, **params: Any) -> Any:
        """The result on `args`: computed now, or recorded when a function is being traced."""
        try:
            return trace.context.trace.process_primitive(self, args, params)
        except _NOTED as error:
            wrong = next((i for i, a in enumerate(args) if not trace.is_valid_value(a)), None)
            if wrong is not None and isinstance(error, TypeError):
                raise uninterpreted(self.name, wrong, args[wrong]) from None
            place = trace.context.source or current()
            note_user_line(error, f"in {self.name}, called from {place}")
            raise

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters for `bind` that make the equation with `params` anew."""
        return params

    def printed_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters that the printed jaxpr shows, in order."""
        return dict(sorted(params.items())) if self.pp_params is None else self.pp_params(params)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (get_primitive, (self.name,))


def uninterpreted(name: str, position: int, value: Any) -> TypeError:
    """The error for an operand that is no array and no number."""
    return TypeError(
        f"Error interpreting argument to {name} as a JAX value. The problematic value is of type "
        f"{type(value)} and was passed to {name} at position {position}: {shown(value)}. Expected "
        "an array, a NumPy value or a Python number"
    )


def check_operands(name: str, *operands: Any) -> None:
    """TypeError unless each operand of `name` is an array or a number: before it is looked at."""
    for position, x in enumerate(operands):
        if not trace.is_valid_value(x):
            raise uninterpreted(name, position, x)


def invalid_argument(value: Any, what: str) -> TypeError:
    """The error for an argument of the function `what` that is no array and no number."""
    text = value if isinstance(value, str) else shown(value)
    return TypeError(
        f"Argument '{text}' of type {type(value)} is not a valid JAX type: {what} takes arrays, "
        "NumPy values and Python numbers"
    )


def _no_rule(name: str, kind: str) -> Rule:
    def missing(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"primitive {name} has no {kind} rule")

    return missing


registry: dict[str, Primitive] = {}
"""Those whose files are loaded."""


def _load(name: str, /) -> None:
    """Loads the file of a primitive: `xpr.primitives`, which is above, tells how."""


def install_loader(load: Callable[[str], None]) -> None:
    """Says how the file of a primitive is loaded that no program has used yet."""
    global _load
    _load = load


def find_primitive(name: str) -> Primitive | None:
    """The primitive of that name, whose file is loaded if it was not; None if there is none."""
    if name not in registry:
        _load(name)
    return registry.get(name)


def get_primitive(name: str) -> Primitive:
    """The primitive of that name; KeyError if there is none."""
    found = registry.get(name) or find_primitive(name)
    if found is None:
        raise KeyError(name)
    return found


def define(
    name: str,
    *,
    family: str,
    doc: str,
    abstract: Rule,
    reference: Rule,
    jvp: Rule | DerivedRule | Absent,
    transpose: Rule | Absent,
    batch: Rule | DerivedRule | Absent,
    multiple_results: bool = False,
    eager: str = "reference",
    pp_params: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    dce: Rule | None = None,
    linearize: Rule | None = None,
    partial_eval: Rule | None = None,
    axis_names: Callable[[dict[str, Any]], Sequence[Any]] | None = None,
    effects: Callable[[dict[str, Any]], Effects] | None = None,
    vma: Rule | None = None,
    calls: str | None = None,
    interprets: bool = False,
    kind: type[Primitive] = Primitive,
) -> Primitive:
    """Makes the primitive `name` with all its rules and registers it.

    `family` is the file name its rules have in `xpr/primitives` and `lowering/rules`; `doc` one
    line that says what it computes. A derivative, transpose or batching rule that cannot exist is
    an `Absent` with the reason. `eager="compile"` marks a primitive for which the NumPy
    reference is far too slow: outside `jit` it is compiled instead. `eager="inline"` marks one
    whose reference binds other primitives and takes arrays as they are, and `eager="spmd"` one that
    runs on several devices, which its parameters name. `jvp` and `batch` may be
    marks (`LinearJVP`, `ElementwiseBatch`, ...) that make the rule from the primitive itself.
    `axis_names` says which named axes the parameters of a collective name, `effects` what the
    operation does beside computing (by default what the programs inside it do). `vma` says along
    which manual axes the results vary, see `xpr.core.manual`. `calls` names the parameter with the
    program of a primitive that evaluates it and does nothing else; `interprets` says that the
    reference rule runs programs, by the function that it is given as `interpret`, as loops do.
    `kind` is the class of the primitive, for those whose `bind` is special.
    """
    if name in registry:
        raise ValueError(f"primitive {name!r} is defined twice")
    if eager not in ("reference", "compile", "inline", "spmd"):
        raise ValueError(f"eager must be 'reference', 'compile', 'inline' or 'spmd', got {eager!r}")
    if not doc:
        raise ValueError(f"primitive {name!r} needs a line of documentation")
    primitive = kind(name, family, multiple_results)
    primitive.doc = doc
    primitive.abstract, primitive.reference = abstract, reference
    primitive.jvp = jvp.rule_for(primitive) if isinstance(jvp, DerivedRule) else jvp
    primitive.transpose = transpose
    primitive.batch = batch.rule_for(primitive) if isinstance(batch, DerivedRule) else batch
    primitive.linearize, primitive.partial_eval = linearize, partial_eval
    primitive.axis_names, primitive.effects, primitive.vma = axis_names, effects, vma
    primitive.eager, primitive.pp_params, primitive.dce_rule = eager, pp_params, dce
    primitive.calls, primitive.interprets = calls, interprets
    registry[name] = primitive
    return primitive
