"""`jax.interpreters.ad`: derivative rules of primitives.

`defjvp`, `deflinear` and the like give rules to primitives that programs define; see
`xpr.compat.primitives` for the tables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr.compat.modules.extend.linear_util import WrappedFun
from xpr.compat.primitives import primitive_jvps as primitive_jvps
from xpr.compat.primitives import primitive_transposes as primitive_transposes
from xpr.core.primitive import Primitive
from xpr.interpreters.jvp import JVPTrace as JVPTrace
from xpr.interpreters.jvp import JVPTracer as JVPTracer
from xpr.interpreters.jvp import jvp_flat
from xpr.interpreters.transpose import Linear as UndefinedPrimal
from xpr.interpreters.transpose import is_linear as is_undefined_primal
from xpr.interpreters.zeros import Zero as Zero
from xpr.interpreters.zeros import add_tangents as add_tangents
from xpr.interpreters.zeros import instantiate as instantiate_zeros
from xpr.interpreters.zeros import zero_tangent
from xpr.interpreters.zeros import zeros as zeros_like_aval
from xpr.primitives._jax_names import primitive_of

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "jvp",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]

add_jaxvals_p = primitive_of("add_jaxvals_p")


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two tangents."""
    return add_jaxvals_p.bind(x, y)


def jvp(fun: WrappedFun, has_aux: bool = False, instantiate: Any = True) -> Any:
    """A wrapped function of `(primals, tangents)` that gives results and their tangents.

    Tangents may be `Zero`, and so are those of results that do not depend on others, unless
    `instantiate` is true (of all of them, or of each). With `has_aux`, `fun` gives a pair of
    results and another value; the second result here is a function that gives that value.
    """
    kept: list[Any] = []

    def layer(
        f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        def flat(*args: Any) -> Sequence[Any]:
            if not has_aux:
                return f(*args)
            out, aux = f(*args)
            kept[:] = [aux]
            return out

        out, moved = jvp_flat(flat, primals, tangents)
        whole = [instantiate] * len(moved) if isinstance(instantiate, bool) else instantiate
        return out, [instantiate_zeros(t) if w else t for t, w in zip(moved, whole, strict=True)]

    wrapped = fun.wrap(layer)
    return (wrapped, lambda: kept[0]) if has_aux else wrapped


def get_primitive_transpose(primitive: Primitive) -> Callable[..., Any]:
    """The transpose rule; NotImplementedError if there is none."""
    try:
        return primitive_transposes[primitive]
    except KeyError:
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for '{primitive}' not implemented"
        ) from None


def defjvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Gives a tangent rule for each operand: `rule(tangent, *primals, **params)`; None is zero."""
    with_result = [
        None if rule is None else functools.partial(_without_result, rule) for rule in rules
    ]
    defjvp2(primitive, *with_result)


def _without_result(
    rule: Callable[..., Any], tangent: Any, result: Any, *primals: Any, **params: Any
) -> Any:
    del result
    return rule(tangent, *primals, **params)


def defjvp2(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """As `defjvp`, with rules that take the result: `rule(tangent, result, *primals, **params)`."""
    if primitive.multiple_results:
        raise ValueError(f"defjvp needs a primitive of one result, {primitive} has several")

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        parts = [
            rule(tangent, result, *primals, **params)
            for rule, tangent in zip(rules, tangents, strict=True)
            if rule is not None and not isinstance(tangent, Zero)
        ]
        if not parts:
            return result, zero_tangent(result)
        return result, functools.reduce(add_tangents, parts)

    primitive_jvps[primitive] = jvp


def deflinear2(primitive: Primitive, transpose: Callable[..., Any]) -> None:
    """Makes a primitive linear in all operands: `transpose(cotangent, *operands, **params)`."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        if all(isinstance(t, Zero) for t in tangents):
            zero: Any = zero_tangent
            return result, [*map(zero, result)] if primitive.multiple_results else zero(result)
        return result, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose


def deflinear(primitive: Primitive, transpose: Callable[..., Any]) -> None:
    """As `deflinear2`, with a rule that takes the cotangent alone."""

    def full(cotangent: Any, *operands: Any, **params: Any) -> Any:
        if isinstance(cotangent, Zero):
            return [Zero(x.aval) for x in operands]
        return transpose(cotangent, **params)

    deflinear2(primitive, full)


def defbilinear(
    primitive: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]
) -> None:
    """Makes a primitive linear in each of two operands.

    `lhs_rule(cotangent, x, y, **params)` is the cotangent of the first operand, `x` being an
    `UndefinedPrimal`, and `rhs_rule` that of the second.
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        (x, y), (x_dot, y_dot) = primals, tangents
        result = primitive.bind(x, y, **params)
        parts = []
        if not isinstance(x_dot, Zero):
            parts.append(primitive.bind(x_dot, y, **params))
        if not isinstance(y_dot, Zero):
            parts.append(primitive.bind(x, y_dot, **params))
        return result, functools.reduce(add_tangents, parts)

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_undefined_primal(x):
            zero = isinstance(cotangent, Zero)
            return (Zero(x.aval) if zero else lhs_rule(cotangent, x, y, **params)), None
        zero = isinstance(cotangent, Zero)
        return None, (Zero(y.aval) if zero else rhs_rule(cotangent, x, y, **params))

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose
