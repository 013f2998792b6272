"""`custom_jvp`: functions whose forward-mode rule the user gives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.context import context, inside_function
from xpr.core.primitive import uninterpreted
from xpr.core.trace import get_aval, is_valid_value
from xpr.core.wrapping import like
from xpr.interpreters.zeros import Zero, instantiate, is_float0, tangent_aval, zero_tangent
from xpr.primitives.custom import custom_jvp_call_p
from xpr.transforms.custom_calls import NondiffArguments, OutTree, bound_arguments
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import check_callable


class custom_jvp:
    """A function with a rule for its derivative: `@custom_jvp`, then `f.defjvp(rule)`.

    The rule takes `(primals, tangents)`, tuples with an entry for each argument, and returns the
    value and its tangent; it must be linear in the tangents, and reverse mode transposes it.
    Arguments at `nondiff_argnums` (or named in `nondiff_argnames`) are not arrays to differentiate:
    they come first in the rule's arguments.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 2.0 * tangents[0]
    >>> xpr.grad(f)(0.0)
    Array(2., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        check_callable(fun, "custom_jvp")
        like(self, fun)
        self.fun = fun
        self.nondiff = NondiffArguments(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    @property
    def nondiff_argnums(self) -> tuple[int, ...]:
        """The positions of the arguments that the rule gets in front, undifferentiated."""
        return self.nondiff.positions

    def __getattr__(self, name: str) -> Any:
        if name == "def_vmap":  # of the function inside: decorators may come in any order
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule and returns it, so that it can be a decorator.

        With `symbolic_zeros`, tangents known to be zero come as `SymbolicZero`s instead of arrays.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets the rule by one function for each argument; None for a zero derivative.

        Each takes `(tangent, out, *primals)` and returns its part of the tangent of `out`.
        """
        if self.nondiff:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            out = self(*primals)
            total: Any = tree_util.tree_map(zero_tangent, out)
            for rule, tangent in zip(jvps, tangents, strict=True):
                if rule is not None:
                    part = rule(tangent, out, *primals)
                    total = tree_util.tree_map(_add, total, part, is_leaf=_is_zero)
            return out, tree_util.tree_map(instantiate, total, is_leaf=_is_zero)

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
        args = bound_arguments(self.fun, args, kwargs, "custom_jvp")
        if self.nondiff:
            args = self.nondiff.as_constants(args)
        fixed, dynamic, rebuild = self.nondiff.split(args, name)
        leaves, tree = tree_util.tree_flatten(dynamic)
        for position, x in enumerate(leaves):
            if not is_valid_value(x):
                error = uninterpreted(custom_jvp_call_p.name, position, x)
                error.add_note(f"for the custom_jvp function {name}")
                raise error
        out_tree = OutTree()

        def flat_fun(*flat: Any) -> list[Any]:
            return out_tree.flatten(self.fun(*rebuild(tree_util.tree_unflatten(tree, flat))))

        rule = self.jvp
        symbolic = self.symbolic_zeros

        def flat_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            moves = [SymbolicZero.of(t) if symbolic else instantiate(t) for t in tangents]
            given = (
                tuple(tree_util.tree_unflatten(tree, primals)),
                tuple(tree_util.tree_unflatten(tree, moves)),
            )
            with inside_function(rule):
                found = rule(*fixed, *given)
            return _checked_jvp(found, rule, name, out_tree)

        flat_jvp.__name__ = name_of(rule)
        out = context.trace.process_custom_jvp_call(
            custom_jvp_call_p,
            flat_fun,
            flat_jvp,
            leaves,
            {"name": name, "symbolic_zeros": symbolic},
        )
        return out_tree.unflatten(out)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Works as a method: `self` is the first argument."""
        return self if instance is None else functools.partial(self, instance)


def _add(total: Any, part: Any) -> Any:
    if type(total) is Zero:
        return part
    return total + part


def _is_zero(x: Any) -> bool:
    return type(x) is Zero


class SymbolicZero:
    """A tangent that is known to be zero, as rules with `symbolic_zeros` see it.

    >>> import xpr, xpr.numpy as jnp
    >>> zero = xpr.custom_derivatives.SymbolicZero(xpr.typeof(jnp.ones(3)))
    >>> zero.aval
    ShapedArray(float32[3])
    """

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of an array."""
        return SymbolicZero(zero_tangent(val).aval)

    @staticmethod
    def of(tangent: Any) -> Any:
        """The tangent as the user's rule sees it."""
        return SymbolicZero(tangent.aval) if type(tangent) is Zero else tangent

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def __repr__(self) -> str:
        return "SymbolicZero"


def _checked_jvp(
    result: Any, rule: Callable[..., Any], name: str, out_tree: OutTree
) -> tuple[list[Any], list[Any]]:
    """The flat results of a user's rule; TypeError when they do not fit together."""
    who = f"Custom JVP rule {name_of(rule)} for function {name}"
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        raise TypeError(
            f"{who} must produce a pair (list or tuple of length two) representing primal and "
            f"tangent outputs, but got {result!r}."
        )
    out, out_tangent = result
    tree = tree_util.tree_structure(out)
    moves, tangent_tree = tree_util.tree_flatten(out_tangent)
    if tree != tangent_tree:
        raise TypeError(
            f"{who} must produce primal and tangent outputs with equal container (pytree) "
            f"structures, but got {tree} and {tangent_tree} respectively."
        )
    leaves = out_tree.remember(
        out,
        who,
        "the first element represents the primal output (equal in value to the output of the "
        f"custom_jvp-decorated function {name}{{}})",
        "JVP rule",
        f"custom_jvp-decorated function {name}",
    )
    tangents = []
    for x, t in zip(leaves, moves, strict=True):
        if isinstance(t, SymbolicZero):
            wanted = tangent_aval(get_aval(x))
            if (t.aval.shape, t.aval.dtype) != (wanted.shape, wanted.dtype):
                raise TypeError(_mismatch(who, get_aval(x), t.aval))
            tangents.append(Zero(t.aval))
            continue
        found, expected = get_aval(t), tangent_aval(get_aval(x))
        if is_float0(expected) and is_float0(found):
            tangents.append(Zero(expected))
        elif found.shape != expected.shape or found.dtype != expected.dtype:
            raise TypeError(_mismatch(who, get_aval(x), found))
        else:
            tangents.append(t)
    return leaves, tangents


def _mismatch(who: str, primal: Any, tangent: Any) -> str:
    return (
        "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and "
        f"dtypes. Expected {tangent_aval(primal).strip_weak_type()} (tangent type of "
        f"{primal.strip_weak_type()}) but got {tangent.strip_weak_type()}. This is the result of "
        f"{who}"
    )
