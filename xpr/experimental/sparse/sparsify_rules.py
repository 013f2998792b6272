"""What operations are on sparse operands; by the names of their primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xpr.numpy as jnp
from xpr.core.jaxpr import JaxprEqn, bind_equation, eval_jaxpr
from xpr.core.trace import get_aval
from xpr.experimental.sparse._array import BCOO
from xpr.experimental.sparse.arithmetic import (
    add_sparse,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
)
from xpr.experimental.sparse.creation import bcoo_todense
from xpr.experimental.sparse.pieces import (
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_rev,
    bcoo_slice,
)
from xpr.experimental.sparse.products import bcoo_dot_general
from xpr.experimental.sparse.reordering import (
    bcoo_broadcast_in_dim,
    bcoo_reshape,
    bcoo_squeeze,
    bcoo_transpose,
    sum_duplicates,
)

_DENSE = "If this is your intent, use sparse.todense() to convert your arguments to dense matrices."
_LINEAR = ("neg", "real", "imag", "copy", "copy_p", "reduce_precision", "conj")
_ZERO_AT_ZERO = (
    "abs", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "convert_element_type", "expm1",
    "floor", "integer_pow", "is_finite", "log1p", "round", "sign", "sin", "sinh", "sqrt", "square",
    "tan", "tanh", "erf", "erf_inv", "bessel_i1e",
)  # fmt: skip


def evaluate(closed: Any, args: Sequence[Any]) -> list[Any]:
    """A program on operands some of which are sparse."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args, bind=_bind)


def _bind(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    if not any(isinstance(x, BCOO) for x in operands):
        return bind_equation(eqn, operands)
    name = eqn.primitive.name
    for inner in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in _CALLS and inner in eqn.params:
            return evaluate(eqn.params[inner], operands)
    rule = _RULES.get(name)
    if rule is None:
        raise NotImplementedError(
            f"sparse rule for {name} is not implemented because it would result in dense output. "
            f"{_DENSE}"
        )
    return [rule(eqn, *operands)]


_CALLS = ("jit", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat")


def _on_data(eqn: JaxprEqn, mat: BCOO) -> BCOO:
    return mat.with_data(bind_equation(eqn, [mat.data])[0])


def _on_sums(eqn: JaxprEqn, mat: BCOO) -> BCOO:
    """A function that is not linear needs the sum of what an index names twice."""
    if eqn.primitive.name == "integer_pow" and eqn.params["y"] <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with exponent {eqn.params['y']} is not implemented "
            f"because it would result in dense output. {_DENSE}"
        )
    if not mat.unique_indices:
        mat = sum_duplicates(mat, mat.nse, remove_zeros=False)
    return _on_data(eqn, mat)


def _add(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return add_sparse(x, y)
    mat, other = (x, y) if isinstance(x, BCOO) else (y, x)
    if get_aval(other).shape != mat.shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the "
            "output shape is larger than Y.shape. This is to prevent silent densification of a "
            "large sparse array. If this is your intent, use sparse.todense() to convert your "
            f"arguments to dense matrices. Got {mat.shape} and {get_aval(other).shape}"
        )
    dense = bcoo_todense(mat)
    return bind_equation(eqn, [dense, other] if isinstance(x, BCOO) else [other, dense])[0]


def _sub(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return add_sparse(x, y.with_data(-y.data))
    return _add(eqn, x, y)


def _mul(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    del eqn
    x, y = (bcoo_todense(z) if isinstance(z, BCOO) and not z.ndim else z for z in (x, y))
    if not (isinstance(x, BCOO) or isinstance(y, BCOO)):
        return x * y
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        if x.indices is y.indices and x.unique_indices and x.shape == y.shape:
            return x.with_data(x.data * y.data)
        return bcoo_multiply_sparse(x, y)
    mat, other = (x, y) if isinstance(x, BCOO) else (y, x)
    return _scaled(mat, other)


def _scaled(mat: BCOO, other: Any) -> BCOO:
    data = bcoo_multiply_dense(mat, other)
    return BCOO((data, mat.indices), shape=mat.shape, **mat.known())


def _div(eqn: JaxprEqn, x: Any, y: Any) -> BCOO:
    if isinstance(y, BCOO):
        raise NotImplementedError(
            "Division by a sparse array is not implemented because it would result in dense "
            f"output. {_DENSE}"
        )
    if not jnp.ndim(y):
        return x.with_data(bind_equation(eqn, [x.data, y])[0])
    return _scaled(x, 1 / jnp.asarray(y))


def _dot_general(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    return bcoo_dot_general(
        x,
        y,
        dimension_numbers=eqn.params["dimension_numbers"],
        preferred_element_type=eqn.params.get("preferred_element_type"),
    )


def _concatenate(eqn: JaxprEqn, *operands: Any) -> BCOO:
    dense = [x for x in operands if not isinstance(x, BCOO)]
    if dense:
        raise NotImplementedError(
            f"concatenating sparse arrays with arrays is not implemented. {_DENSE}"
        )
    return bcoo_concatenate(operands, dimension=eqn.params["dimension"])


def _dynamic_slice(eqn: JaxprEqn, mat: BCOO, *starts: Any) -> BCOO:
    return bcoo_dynamic_slice(mat, starts, eqn.params["slice_sizes"])


_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_LINEAR, _on_data),
    **dict.fromkeys(_ZERO_AT_ZERO, _on_sums),
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "dot_general": _dot_general,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "transpose": lambda eqn, x: bcoo_transpose(x, permutation=eqn.params["permutation"]),
    "reduce_sum": lambda eqn, x: _reduced(x, eqn.params["axes"]),
    "reshape": lambda eqn, x: bcoo_reshape(x, new_sizes=eqn.params["new_sizes"]),
    "squeeze": lambda eqn, x: bcoo_squeeze(x, dimensions=eqn.params["dimensions"]),
    "rev": lambda eqn, x: bcoo_rev(x, eqn.params["dimensions"]),
    "slice": lambda eqn, x: bcoo_slice(
        x,
        start_indices=eqn.params["start_indices"],
        limit_indices=eqn.params["limit_indices"],
        strides=eqn.params["strides"],
    ),
    "broadcast_in_dim": lambda eqn, x: bcoo_broadcast_in_dim(
        x,
        shape=eqn.outvars[0].aval.shape,
        broadcast_dimensions=eqn.params["broadcast_dimensions"],
    ),
}


def _reduced(mat: BCOO, axes: Sequence[int]) -> Any:
    found = bcoo_reduce_sum(mat, axes=axes)
    return found if found.ndim else bcoo_todense(found)
