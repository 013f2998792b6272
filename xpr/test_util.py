"""Checks of derivatives against finite differences, for tests of programs and of rules.

Central differences in a random direction test forward mode; reverse mode is tested by the identity
of inner products `<ct, J t> = <J^T ct, t>`. Directions come from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.transforms.derivatives import jvp, vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]

# (relative and absolute tolerance, step of the differences) by the bytes of a real component.
_DEFAULTS = {2: (1e-1, 1e-1), 4: (2e-2, 1e-2), 8: (1e-5, 1e-6)}


def _defaults(args: Any) -> tuple[float, float]:
    """Tolerance and step for the narrowest inexact dtype among the leaves of `args`."""
    sizes = [8]
    for x in tree_util.tree_leaves(args):
        dtype = get_aval(x).dtype
        if dtypes.is_inexact(dtype):
            sizes.append(dtype.itemsize // (2 if dtypes.is_complex(dtype) else 1))
    return _DEFAULTS[min(sizes)]


def _is_inexact(x: Any) -> bool:
    return dtypes.is_inexact(get_aval(x).dtype)


def _random_like(rng: np.random.Generator, x: Any) -> Any:
    """A direction of the type of `x`; the float0 zero for integers."""
    aval = get_aval(x)
    if not dtypes.is_inexact(aval.dtype):
        return np.zeros(aval.shape, dtypes.float0)
    values = rng.standard_normal(aval.shape)
    if dtypes.is_complex(aval.dtype):
        values = values + 1j * rng.standard_normal(aval.shape)
    return np.asarray(values).astype(aval.dtype)


def _random_tree(rng: np.random.Generator, tree: Any) -> Any:
    return tree_util.tree_map(lambda x: _random_like(rng, x), tree)


def _moved(args: Any, direction: Any, step: float) -> Any:
    def move(x: Any, d: Any) -> Any:
        if not _is_inexact(x):
            return x
        host = np.asarray(x)
        return (host + host.dtype.type(step) * d).astype(host.dtype)

    return tree_util.tree_map(move, args, direction)


def _differences(fun: Callable[..., Any], args: Any, direction: Any, step: float) -> Any:
    """Central differences of `fun` in a direction, in float64 or complex128."""
    above, below = fun(*_moved(args, direction, step)), fun(*_moved(args, direction, -step))

    def difference(a: Any, b: Any) -> Any:
        if not _is_inexact(a):
            return np.zeros(np.shape(a), dtypes.float0)
        wide = np.complex128 if dtypes.is_complex(get_aval(a).dtype) else np.float64
        return (np.asarray(a).astype(wide) - np.asarray(b).astype(wide)) / (2 * step)

    return tree_util.tree_map(difference, above, below)


def _compare(found: Any, expected: Any, rtol: float, atol: float, what: str) -> None:
    """AssertionError unless two trees of inexact arrays agree."""
    a, b = tree_util.tree_leaves(found), tree_util.tree_leaves(expected)
    if len(a) != len(b):
        raise AssertionError(f"{what}: {len(a)} results, expected {len(b)}")
    for x, y in zip(a, b, strict=True):
        if _is_inexact(x):
            wide = np.complex128 if dtypes.is_complex(get_aval(x).dtype) else np.float64
            np.testing.assert_allclose(
                np.asarray(x).astype(wide), y, rtol=rtol, atol=atol, err_msg=what
            )


def _inner(xs: Any, ys: Any) -> float:
    """The sum of Re(x y) over all leaves that are not of type float0."""
    total = 0.0
    for x, y in zip(tree_util.tree_leaves(xs), tree_util.tree_leaves(ys), strict=True):
        if _is_inexact(x):
            product = np.asarray(x).astype(np.complex128) * np.asarray(y).astype(np.complex128)
            total += float(np.sum(product.real))
    return total


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """AssertionError unless `f_jvp(args, tangents)` gives the value and the derivative of `f`.

    The derivative is compared with central differences of step `eps` in a random direction.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.test_util import check_jvp
    >>> check_jvp(jnp.sin, lambda x, t: xpr.jvp(jnp.sin, x, t), (jnp.float32(0.5),))
    """
    tolerance, step = _defaults(args)
    rtol, atol = tolerance if rtol is None else rtol, tolerance if atol is None else atol
    rng = np.random.default_rng(0)
    direction = _random_tree(rng, tuple(args))
    value, moved = f_jvp(tuple(args), direction)
    _compare(value, f(*args), rtol, atol, f"{err_msg} value of the JVP")
    expected = _differences(f, tuple(args), direction, step if eps is None else eps)
    _compare(moved, expected, rtol, atol, f"{err_msg} JVP against differences")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """AssertionError unless `f_vjp(*args)` gives the value of `f` and a right pullback.

    For a random direction and a random cotangent the inner products of the cotangent with central
    differences and of the pulled-back cotangent with the direction must agree.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.test_util import check_vjp
    >>> check_vjp(jnp.sin, lambda x: xpr.vjp(jnp.sin, x), (jnp.float32(0.5),))
    """
    tolerance, step = _defaults(args)
    rtol, atol = tolerance if rtol is None else rtol, tolerance if atol is None else atol
    rng = np.random.default_rng(0)
    value, pull = f_vjp(*args)
    _compare(value, f(*args), rtol, atol, f"{err_msg} value of the VJP")
    direction = _random_tree(rng, tuple(args))
    expected = _differences(f, tuple(args), direction, step if eps is None else eps)
    cotangent = _random_tree(rng, value)
    pulled = pull(cotangent)
    a, b = _inner(pulled, direction), _inner(cotangent, expected)
    # What the sums are made of sets the scale on which they may differ.
    scale = 1 + np.sqrt(sum(np.size(x) for x in tree_util.tree_leaves(value)))
    np.testing.assert_allclose(
        a, b, rtol=rtol, atol=atol * scale, err_msg=f"{err_msg} VJP against differences"
    )


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """AssertionError unless derivatives of `f` at `args` agree with differences, up to `order`.

    `modes` chooses forward mode ("fwd"), reverse mode ("rev") or both; from order 2 on they are
    mixed in every way. `eps` is the step of the differences.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.enable_x64(True):
    ...     check_grads(jnp.sin, (jnp.float64(0.5),), order=2)
    """
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise ValueError(f"check_grads: modes must be 'fwd' or 'rev', got {mode!r}")
    _check(f, tuple(args), order, modes, {"atol": atol, "rtol": rtol, "eps": eps}, "")


def _check(
    f: Callable[..., Any], args: Any, order: int, modes: Sequence[str], options: Any, path: str
) -> None:
    if "fwd" in modes:

        def f_jvp(primals: Any, tangents: Any) -> Any:
            return jvp(f, primals, tangents)

        check_jvp(f, f_jvp, args, err_msg=f"{path}fwd", **options)
        if order > 1:
            direction = _random_tree(np.random.default_rng(1), args)

            def derivative(*xs: Any) -> Any:
                return _inexact(jvp(f, xs, direction)[1])

            _check(derivative, args, order - 1, modes, options, f"{path}fwd of ")
    if "rev" in modes:

        def f_vjp(*primals: Any) -> Any:
            return vjp(f, *primals)

        check_vjp(f, f_vjp, args, err_msg=f"{path}rev", **options)
        if order > 1:

            def pulled(*xs: Any) -> Any:
                value, pull = vjp(f, *xs)
                cotangent = _random_tree(np.random.default_rng(2), value)
                return _inexact(pull(cotangent))

            _check(pulled, args, order - 1, modes, options, f"{path}rev of ")


def _inexact(tree: Any) -> list[Any]:
    """The leaves that have derivatives of their own."""
    return [x for x in tree_util.tree_leaves(tree) if _is_inexact(x)]
