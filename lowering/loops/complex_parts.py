"""Programs of complex numbers as programs of their real and imaginary parts.

A register, and an element in a loop's memory, is a real number. A loop that has complex numbers is
therefore taken apart before it is tried as one dispatch: each complex value of its jaxpr becomes
two real ones. What moves elements does so twice; sums, products and comparisons are written out;
all other elementwise operations become `part_of_complex`, which computes one of the two parts by
the lowering rule of the operation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, eval_jaxpr, sub_jaxprs
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.constants import number_of
from xpr.lowering.loops.calls import CALLS, SOLVES
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.loops.registers.table import PRIVATE
from xpr.lowering.registry import find_rule
from xpr.primitives import _ops as ops
from xpr.primitives._complex import real_dtype
from xpr.primitives._scatter_rules import combiner
from xpr.primitives.elementwise import div_p
from xpr.primitives.gather import gather_fill
from xpr.primitives.rules import full_like

Avals = Sequence[ShapedArray]


class Pair:
    """The real and the imaginary parts of complex numbers."""

    __slots__ = ("im", "re")

    def __init__(self, re: Any, im: Any) -> None:
        self.re = re
        self.im = im


def has_complex(jaxpr: Jaxpr) -> bool:
    """Whether complex numbers occur in a program."""
    atoms = [*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars]
    for eqn in jaxpr.eqns:
        atoms += [*eqn.invars, *eqn.outvars]
    return any(dtypes.is_complex(v.aval.dtype) for v in atoms) or any(
        has_complex(s) for e in jaxpr.eqns for s in sub_jaxprs(e.params)
    )


def in_parts(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program whose operands and results are parts; NotInMemory if it has no such form."""
    if not has_complex(closed.jaxpr):
        return closed

    def flat(*args: Any) -> list[Any]:
        return _split(closed.out_avals, _evaluated(closed, _joined(closed.in_avals, args)))

    return trace_to_jaxpr(flat, parts_of_avals(closed.in_avals))


def parts_of_avals(avals: Iterable[ShapedArray]) -> list[ShapedArray]:
    """Two real types for each complex one."""
    out: list[ShapedArray] = []
    for a in avals:
        if dtypes.is_complex(a.dtype):
            out += [ShapedArray(a.shape, real_dtype(a.dtype))] * 2
        else:
            out.append(a)
    return out


def count_of_parts(avals: Iterable[ShapedArray]) -> int:
    """How many real values stand for values of these types."""
    return len(parts_of_avals(avals))


def parts_of(ctx: LoweringContext, x: Value) -> tuple[Value, ...]:
    """A value of the program around, in parts."""
    if not dtypes.is_complex(x.dtype):
        return (x,)
    number = number_of(x)
    if number is not None:
        part, whole = real_dtype(x.dtype), complex(number)
        return ctx.constant(whole.real, part, x.shape), ctx.constant(whole.imag, part, x.shape)
    return ctx.parts(x)


def whole_values(ctx: LoweringContext, avals: Avals, parts: Iterable[Value]) -> list[Value]:
    """Values of the program around, made of their parts."""
    left = iter(parts)
    return [
        ctx.complex(next(left), next(left)) if dtypes.is_complex(a.dtype) else next(left)
        for a in avals
    ]


# ---- loops


def scan_in_parts(
    jaxpr: ClosedJaxpr, num_consts: int, num_carry: int
) -> tuple[ClosedJaxpr, int, int]:
    """A scan's program in parts, and how many constants and carried values it then has."""
    avals = jaxpr.in_avals
    carry_end = num_consts + num_carry
    return (
        in_parts(jaxpr),
        count_of_parts(avals[:num_consts]),
        count_of_parts(avals[num_consts:carry_end]),
    )


def _scan(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    params = eqn.params
    jaxpr, num_consts, num_carry = scan_in_parts(
        params["jaxpr"], params["num_consts"], params["num_carry"]
    )
    changes = {"jaxpr": jaxpr, "num_consts": num_consts, "num_carry": num_carry}
    return eqn.primitive.bind(*_flat(operands), **params | changes)


def _while(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    params = eqn.params
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    changes = {
        "cond_jaxpr": in_parts(cond),
        "body_jaxpr": in_parts(body),
        "cond_nconsts": count_of_parts(cond.in_avals[: params["cond_nconsts"]]),
        "body_nconsts": count_of_parts(body.in_avals[: params["body_nconsts"]]),
    }
    return eqn.primitive.bind(*_flat(operands), **params | changes)


def _cond(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    changes = {"branches": tuple(map(in_parts, eqn.params["branches"]))}
    return eqn.primitive.bind(*_flat(operands), **eqn.params | changes)


_CONTROL: dict[str, Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
_CALLS = CALLS | SOLVES


# ---- evaluation


def _joined(avals: Avals, args: Iterable[Any]) -> list[Any]:
    left = iter(args)
    return [
        Pair(next(left), next(left)) if dtypes.is_complex(a.dtype) else next(left) for a in avals
    ]


def _flat(xs: Iterable[Any]) -> list[Any]:
    return [p for x in xs for p in ((x.re, x.im) if isinstance(x, Pair) else (x,))]


def _split(avals: Avals, xs: Sequence[Any]) -> list[Any]:
    return _flat(_paired(x, a) for x, a in zip(xs, avals, strict=True))


def _paired(x: Any, aval: ShapedArray) -> Any:
    """Numbers that are written in the program, in parts where they are complex."""
    if isinstance(x, Pair) or not dtypes.is_complex(aval.dtype):
        return x
    values = np.asarray(x, aval.dtype)
    return Pair(np.array(np.real(values))[()], np.array(np.imag(values))[()])


def _evaluated(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    consts = [
        _paired(c, v.aval) for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]
    return eval_jaxpr(closed.jaxpr, consts, *operands, bind=_bind)


def _bind(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    operands = [_paired(x, v.aval) for x, v in zip(operands, eqn.invars, strict=True)]
    name, params = eqn.primitive.name, eqn.params
    avals = [v.aval for v in eqn.outvars]
    if name in _CALLS and any(map(has_complex, sub_jaxprs(params))):
        return _evaluated(params[_CALLS[name]], operands)
    if not any(dtypes.is_complex(v.aval.dtype) for v in (*eqn.invars, *eqn.outvars)):
        if not any(map(has_complex, sub_jaxprs(params))):
            found = eqn.primitive.bind(*operands, **params)
            return found if eqn.primitive.multiple_results else [found]
        if name not in _CONTROL:
            raise NotInMemory(f"{name} of complex numbers", eqn.source_info)
    if name in _CONTROL:
        return _joined(avals, _CONTROL[name](eqn, operands))
    form = _FORMS.get(name)
    if form is not None:
        return form(eqn, *operands)
    if name in _LINEAR:
        return _each_part(eqn, operands)
    if eqn.primitive.family in _ELEMENTWISE:
        return _by_own_rule(eqn, operands)
    raise NotInMemory(f"{name} of complex numbers", eqn.source_info)


# ---- operations

_ELEMENTWISE = frozenset(("elementwise", "power", "elementary", "compare"))
# Operations that do the same to the real and to the imaginary parts.
_LINEAR = frozenset(
    (
        *("neg", "add", "add_any", "sub", "select_n", "copy", "stop_gradient", "name"),
        *("broadcast_in_dim", "reshape", "squeeze", "transpose", "rev", "slice", "pad", "tile"),
        *("concatenate", "split", "stack", "unstack", "dynamic_slice", "dynamic_update_slice"),
        *("gather", "scatter", "scatter-add", "scatter-sub", "reduce_sum", "cumsum"),
        "optimization_barrier",
    )
)


def _each_part(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Twice the same operation; real operands, such as indices, go into both."""
    sides = []
    for side in (0, 1):
        args = [(x.re, x.im)[side] if isinstance(x, Pair) else x for x in operands]
        found = eqn.primitive.bind(*args, **_params_of_part(eqn, side))
        sides.append(found if eqn.primitive.multiple_results else [found])
    return [
        Pair(re, im) if dtypes.is_complex(v.aval.dtype) else re
        for v, re, im in zip(eqn.outvars, *sides, strict=True)
    ]


def _params_of_part(eqn: JaxprEqn, side: int) -> dict[str, Any]:
    params, name, dtype = eqn.params, eqn.primitive.name, eqn.invars[0].aval.dtype
    if name == "gather":
        fill = complex(gather_fill(dtype, params["fill_value"]))
        return params | {"fill_value": (fill.real, fill.imag)[side]}
    if name.startswith("scatter"):
        if name == "scatter" and params["update_jaxpr"] is not None:
            raise NotInMemory("a scatter with a function", eqn.source_info)
        return params | {"update_jaxpr": combiner(name, real_dtype(dtype))}
    return params


def _times(x: Pair, y: Pair) -> Pair:
    re = ops.sub(ops.mul(x.re, y.re), ops.mul(x.im, y.im))
    return Pair(re, ops.add(ops.mul(x.re, y.im), ops.mul(x.im, y.re)))


def _mul(_: JaxprEqn, x: Pair, y: Pair) -> Sequence[Any]:
    return [_times(x, y)]


def _square(_: JaxprEqn, x: Pair) -> Sequence[Any]:
    return [_times(x, x)]


def _integer_pow(eqn: JaxprEqn, x: Pair) -> Sequence[Any]:
    exponent = abs(eqn.params["y"])
    one = Pair(full_like(x.re, 1), full_like(x.re, 0))
    found: Pair | None = None
    while exponent:
        if exponent & 1:
            found = x if found is None else _times(found, x)
        exponent >>= 1
        if exponent:
            x = _times(x, x)
    if found is None or eqn.params["y"] >= 0:
        return [found or one]
    (aval,) = (v.aval for v in eqn.outvars)
    return _computed(div_p, {}, (aval, aval), aval, [one, found])


def _reduce_prod(eqn: JaxprEqn, x: Pair) -> Sequence[Any]:
    """By halving, axis after axis."""
    shape = list(eqn.invars[0].aval.shape)
    for axis in sorted(eqn.params["axes"], reverse=True):
        if shape[axis] == 0:
            raise NotInMemory("a product of no complex numbers", eqn.source_info)
        while shape[axis] > 1:
            n = shape[axis]
            half = n // 2
            y = _times(_stretch(x, shape, axis, 0, half), _stretch(x, shape, axis, half, 2 * half))
            if n % 2:
                last = _stretch(x, shape, axis, n - 1, n)
                y = Pair(
                    *(_joined_along(axis, a, b) for a, b in zip(_both(y), _both(last), strict=True))
                )
            x, shape[axis] = y, half + n % 2
        del shape[axis]
        x = Pair(*(ops.reshape(v, shape) for v in _both(x)))
    return [x]


def _both(x: Pair) -> tuple[Any, Any]:
    return x.re, x.im


def _joined_along(axis: int, *xs: Any) -> Any:
    return ops.bind("concatenate", *xs, dimension=axis)


def _stretch(x: Pair, shape: Sequence[int], axis: int, low: int, high: int) -> Pair:
    starts, ends = [0] * len(shape), list(shape)
    starts[axis], ends[axis] = low, high
    params = {"start_indices": tuple(starts), "limit_indices": tuple(ends), "strides": None}
    return Pair(*(ops.bind("slice", v, **params) for v in _both(x)))


def _equal(_: JaxprEqn, x: Pair, y: Pair) -> Sequence[Any]:
    return [ops.bind("and", ops.eq(x.re, y.re), ops.eq(x.im, y.im))]


def _unequal(_: JaxprEqn, x: Pair, y: Pair) -> Sequence[Any]:
    return [ops.bind("or", ops.bind("ne", x.re, y.re), ops.bind("ne", x.im, y.im))]


def _real(_: JaxprEqn, x: Pair) -> Sequence[Any]:
    return [x.re]


def _imag(_: JaxprEqn, x: Pair) -> Sequence[Any]:
    return [x.im]


def _complex(_: JaxprEqn, re: Any, im: Any) -> Sequence[Any]:
    return [Pair(re, im)]


def _conj(_: JaxprEqn, x: Any) -> Sequence[Any]:
    return [Pair(x.re, ops.neg(x.im)) if isinstance(x, Pair) else Pair(x, full_like(x, 0))]


def _convert(eqn: JaxprEqn, x: Any) -> Sequence[Any]:
    dtype = eqn.params["new_dtype"]
    part = real_dtype(dtype)
    if not isinstance(x, Pair):
        re = ops.convert(x, part)
        return [Pair(re, full_like(re, 0))]
    if dtypes.is_complex(dtype):
        return [Pair(ops.convert(x.re, part), ops.convert(x.im, part))]
    if dtype == np.bool_:
        return [ops.bind("or", ops.convert(x.re, dtype), ops.convert(x.im, dtype))]
    return [ops.convert(x.re, dtype)]


def _dot_general(eqn: JaxprEqn, x: Any, y: Any) -> Sequence[Any]:
    wanted = eqn.params["preferred_element_type"]
    if not (isinstance(x, Pair) and isinstance(y, Pair)):
        raise NotInMemory("a product of several dtypes", eqn.source_info)
    part = None if wanted is None else real_dtype(np.dtype(wanted))

    def of(a: Any, b: Any) -> Any:
        return eqn.primitive.bind(a, b, **eqn.params | {"preferred_element_type": part})

    re = ops.sub(of(x.re, y.re), of(x.im, y.im))
    return [Pair(re, ops.add(of(x.re, y.im), of(x.im, y.re)))]


_FORMS: dict[str, Callable[..., Sequence[Any]]] = {
    "mul": _mul,
    "square": _square,
    "integer_pow": _integer_pow,
    "reduce_prod": _reduce_prod,
    "eq": _equal,
    "ne": _unequal,
    "real": _real,
    "imag": _imag,
    "complex": _complex,
    "conj": _conj,
    "convert_element_type": _convert,
    "dot_general": _dot_general,
}

IN_PARTS = _LINEAR | _FORMS.keys()
"""Operations that are few operations on the parts."""


# ---- a part of the result of any elementwise operation


def _abstract(
    *_: ShapedArray, of: Primitive, how: Any, given: Avals, out: ShapedArray, side: int | None
) -> ShapedArray:
    del of, how, given, side
    return ShapedArray(out.shape, real_dtype(out.dtype))


part_of_complex_p = Primitive("part_of_complex", "elementwise")
part_of_complex_p.abstract = _abstract


def _by_own_rule(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    (out,) = (v.aval for v in eqn.outvars)
    given = tuple(v.aval for v in eqn.invars)
    return _computed(eqn.primitive, eqn.params, given, out, operands)


def _computed(
    of: Primitive, how: dict[str, Any], given: Avals, out: ShapedArray, operands: Sequence[Any]
) -> Sequence[Any]:
    params = {"of": of, "how": how, "given": given, "out": out}
    flat = _flat(operands)
    if not dtypes.is_complex(out.dtype):
        return [part_of_complex_p.bind(*flat, **params, side=None)]
    re, im = (part_of_complex_p.bind(*flat, **params, side=side) for side in (0, 1))
    return [Pair(re, im)]


def _part_on_registers(
    ctx: LoweringContext,
    *parts: Value,
    of: Primitive,
    how: dict[str, Any],
    given: Avals,
    out: ShapedArray,
    side: int | None,
) -> Value:
    shape = max((x.shape for x in parts), key=len)
    operands = whole_values(ctx, given, parts)
    ctx.in_avals = [ShapedArray(x.shape, x.dtype) for x in operands]
    ctx.out_avals = [ShapedArray(shape, out.dtype)]
    found = find_rule(of, ctx.target)(ctx, *operands, **how)
    return found if side is None else ctx.parts(found)[side]


PRIVATE[part_of_complex_p] = _part_on_registers
