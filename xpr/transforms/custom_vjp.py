"""`custom_vjp`: functions whose reverse-mode rule the user gives; and `custom_gradient`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray, unreduced_axes
from xpr.core.context import context, inside_function
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.trace import get_aval, is_valid_value
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import like, wraps
from xpr.interpreters.zeros import (
    Zero,
    cotangent_aval,
    instantiate,
    is_float0,
    zero_tangent,
)
from xpr.primitives import _ops as ops
from xpr.primitives._custom_linear import remat_opt_call
from xpr.primitives.custom import custom_vjp_call_p
from xpr.transforms.arguments import FlatFunction, check_leaf
from xpr.transforms.custom_calls import NondiffArguments, OutTree, bound_arguments
from xpr.transforms.custom_jvp import SymbolicZero
from xpr.transforms.pullbacks import as_array
from xpr.transforms.reference_arguments import check_references, check_returned, has_references
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import abstractify, check_callable

_NUMBERS = (bool, int, float, complex)


class CustomVJPPrimal:
    """An argument as a forward rule with `symbolic_zeros` sees it: its value, and whether it is
    differentiated.

    >>> import xpr
    >>> argument = xpr.custom_derivatives.CustomVJPPrimal(1.5, perturbed=False)
    >>> argument.value, argument.perturbed
    (1.5, False)
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a tree of `CustomVJPPrimal`s, as forward rules with `symbolic_zeros` get them.

    Raises TypeError for another leaf.

    >>> custom_vjp_primal_tree_values({"a": CustomVJPPrimal(3.0, True)})
    {'a': 3.0}
    """

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, CustomVJPPrimal):
            raise TypeError(f"unexpected leaf type {type(leaf)}: leaves are CustomVJPPrimal")
        return leaf.value

    return tree_util.tree_map(value, tree)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of each array in the tree `val`, as a rule of derivatives may return it.

    With `symbolic_zeros` these are `SymbolicZero`s. Tangents of integers have the type `float0`.

    >>> import xpr.numpy as jnp
    >>> zero_from_primal({"a": jnp.ones(2)})
    {'a': Array([0., 0.], dtype=float32)}
    """

    def zero(x: Any) -> Any:
        if symbolic_zeros:
            return SymbolicZero.from_primal_value(x)
        tangent = zero_tangent(x)
        made = instantiate(tangent)
        # A scalar zero is a NumPy number until an operation makes an array of it.
        return made if is_float0(tangent.aval) else ops.convert(made, tangent.aval.dtype)

    return tree_util.tree_map(zero, val)


class custom_vjp:
    """A function with a rule for reverse mode: `@custom_vjp`, then `f.defvjp(fwd, bwd)`.

    `fwd(*args)` returns the value and residuals, any pytree of arrays. `bwd(residuals, cotangent)`
    returns a tuple with a cotangent for each argument; None stands for zeros. Arguments at
    `nondiff_argnums` are no arrays to differentiate: `fwd` gets them in their places, `bwd` in
    front. Forward mode raises TypeError.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))
    >>> xpr.grad(lambda x: 10.0 * clip_gradient(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        check_callable(fun, "custom_vjp")
        like(self, fun)
        self.fun = fun
        self.nondiff = NondiffArguments(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = self.optimize_remat = False

    @property
    def nondiff_argnums(self) -> tuple[int, ...]:
        """The positions of the arguments that the rules get in front, undifferentiated."""
        return self.nondiff.positions

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the two rules.

        With `symbolic_zeros`, `fwd` gets objects with `.value` and `.perturbed` in place of arrays,
        and `bwd` gets `SymbolicZero`s for cotangents known to be zero. With `optimize_remat`, the
        function itself is called where it turns out that nothing reads the residuals of `fwd`,
        such as the first run of a `checkpoint`.
        """
        check_callable(fwd, "custom_vjp.defvjp")
        check_callable(bwd, "custom_vjp.defvjp")
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError(
                "remat optimization for custom_vjp does not support symbolic zeros"
            )
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros
        self.optimize_remat = optimize_remat

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule for `vmap` of a function that is a `custom_vmap` itself; returns the rule.

        Raises AttributeError for another function.
        """
        define = getattr(self.fun, "def_vmap", None)
        if define is None:
            raise AttributeError(
                f"custom_vjp of {name_of(self.fun)}: def_vmap needs a function that is decorated "
                "with xpr.custom_batching.custom_vmap first"
            )
        return define(rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name} using defvjp.")
        args = bound_arguments(self.fun, args, kwargs, "custom_vjp")
        fixed, dynamic, rebuild = self.nondiff.split(args, name)
        self.nondiff.check_no_tracers(fixed, name)
        leaves, tree = tree_util.tree_flatten(dynamic)
        for x in leaves:
            check_leaf(x, f"the custom_vjp function {name}")
        if has_references(leaves):
            check_references("custom_vjp", self.fun, args)
        out_tree = OutTree()

        def flat_fun(*flat: Any) -> list[Any]:
            found = out_tree.flatten(self.fun(*rebuild(tree_util.tree_unflatten(tree, flat))))
            if has_references(found):
                check_returned(f"custom_vjp primal function {name}", out_tree.unflatten(found))
            return found

        rules = _FlatRules(self, name, tree, fixed, rebuild, out_tree)
        forward = rules.forward
        if self.optimize_remat:
            forward = functools.partial(rules.optimized_forward, flat_fun)
        out = context.trace.process_custom_vjp_call(
            custom_vjp_call_p,
            flat_fun,
            _named(forward, self.fwd),
            _named(rules.backward, self.bwd),
            leaves,
            {"name": name, "symbolic_zeros": self.symbolic_zeros},
        )
        return out_tree.unflatten(out)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Works as a method: `self` is the first argument."""
        return self if instance is None else functools.partial(self, instance)


def _named(rule: Callable[..., Any], users: Callable[..., Any]) -> Callable[..., Any]:
    """The flat form of a user's rule, under the name that jaxprs show."""

    def flat_rule(*args: Any) -> Any:
        return rule(*args)

    flat_rule.__name__ = name_of(users)
    return flat_rule


class _FlatRules:
    """The user's rules for one call, on flat lists, with their results checked."""

    def __init__(
        self,
        function: custom_vjp,
        name: str,
        tree: Any,
        fixed: Sequence[Any],
        rebuild: Callable[[Sequence[Any]], list[Any]],
        out_tree: OutTree,
    ) -> None:
        self.function = function
        self.name = name
        self.tree = tree
        self.fixed = list(fixed)
        self.rebuild = rebuild
        self.out_tree = out_tree
        self.residual_tree: Any = None
        self.numbers: dict[int, Any] = {}
        self.in_avals: list[ShapedArray] = []

    def forward(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any]]:
        fwd = self.function.fwd
        assert fwd is not None
        self.in_avals = [get_aval(x) for x in primals]
        if self.function.symbolic_zeros:
            primals = [CustomVJPPrimal(x, p) for x, p in zip(primals, perturbed, strict=True)]
        args = self.rebuild(tree_util.tree_unflatten(self.tree, primals))
        with inside_function(fwd):
            pair = fwd(*args)
        who = f"Custom VJP fwd rule {name_of(fwd)} for function {self.name}"
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise TypeError(
                f"{who} must produce a pair (list or tuple of length two) where the first element "
                "represents the primal output (equal to those of the custom_vjp-decorated function "
                f"{self.name}) and the second element represents residuals (i.e. values stored "
                "from the forward pass for use on the backward pass), but instead of a pair the "
                f"fwd rule produced {pair!r}."
            )
        out, residuals = pair
        leaves = self.out_tree.remember(
            out,
            who,
            "the first element represents the primal output (equal to the output of the "
            f"custom_vjp-decorated function {self.name}) and the second element represents "
            "residuals (i.e. values stored from the forward pass for use on the backward pass)",
            "fwd rule",
            f"custom_vjp-decorated function {self.name}",
        )
        kept, self.residual_tree = tree_util.tree_flatten(residuals)
        if has_references((*leaves, *kept)):
            rule = f"custom_vjp fwd function {name_of(fwd)}"
            check_returned(rule, out, place="[0]")
            given = [x.value if isinstance(x, CustomVJPPrimal) else x for x in primals]
            check_returned(rule, residuals, given, "[1]", anywhere=False)
        # Python's numbers stay what they are: the backward rule may branch on them.
        self.numbers = {i: x for i, x in enumerate(kept) if type(x) in _NUMBERS}
        kept = [x for i, x in enumerate(kept) if i not in self.numbers]
        for x in (*leaves, *kept):
            if not is_valid_value(x):
                raise TypeError(f"{who} returned a value of type {type(x)}, which is no array")
        return kept, leaves

    def optimized_forward(
        self,
        fun: Callable[..., list[Any]],
        primals: Sequence[Any],
        perturbed: Sequence[bool],
    ) -> tuple[list[Any], list[Any]]:
        """The forward rule as a call that becomes one of `fun` if nothing reads the residuals."""
        counts: list[int] = []

        def fwd(*xs: Any) -> list[Any]:
            kept, leaves = self.forward(xs, perturbed)
            counts.append(len(kept))
            return [*kept, *leaves]

        found = remat_opt_call(fwd, fun, primals)
        return found[: counts[0]], found[counts[0] :]

    def backward(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        bwd = self.function.bwd
        assert bwd is not None
        cts = [SymbolicZero(ct.aval) if type(ct) is Zero else as_array(ct) for ct in cts]
        given = iter(residuals)
        count = len(residuals) + len(self.numbers)
        kept = [self.numbers[i] if i in self.numbers else next(given) for i in range(count)]
        kept_tree = tree_util.tree_unflatten(self.residual_tree, kept)
        with inside_function(bwd):
            found = bwd(*self.fixed, kept_tree, self.out_tree.unflatten(cts))
        return self._checked(found)

    def _checked(self, found: Any) -> list[Any]:
        """One cotangent for each leaf of the arguments, `Zero` where the user gave None."""
        dummy = tree_util.tree_unflatten(self.tree, [0] * self.tree.num_leaves)
        if isinstance(found, list):
            found = tuple(found)
        if not isinstance(found, tuple) or len(found) != len(dummy):
            raise TypeError(_structure_message(found, self.tree))
        flat: list[Any] = []
        for given, argument in zip(found, dummy, strict=True):
            wanted = tree_util.tree_structure(argument)
            if given is None:
                flat += [None] * wanted.num_leaves
                continue
            try:
                flat += tree_util.flatten_axes("custom_vjp bwd", wanted, given)
            except ValueError:
                raise TypeError(_structure_message(found, self.tree)) from None
        return [
            self._cotangent(tree_util.keystr(path), ct, a)
            for (path, _), ct, a in zip(
                tree_util.tree_leaves_with_path(dummy), flat, self.in_avals, strict=True
            )
        ]

    def _cotangent(self, path: str, ct: Any, aval: ShapedArray) -> Any:
        """A cotangent of the type of the input at `path`; ValueError if it is of another one.

        Floating and integer numbers become those of an inexact type that is expected.
        """
        expected = cotangent_aval(aval)
        if ct is None or is_float0(expected):
            return Zero(expected)
        if isinstance(ct, SymbolicZero):
            if (ct.aval.shape, ct.aval.dtype) != (expected.shape, expected.dtype):
                raise ValueError(
                    "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does not "
                    f"match that of the input: at output{path} it is {ct.aval.str_short()}, the "
                    f"input {aval.str_short()}. Consider just returning a None here instead of a "
                    f"SymbolicZero (bwd rule of {self.name})"
                )
            return Zero(expected)
        found = get_aval(ct)
        if found.dtype != expected.dtype and _converts(found.dtype, expected.dtype):
            ct = ops.convert(ct, expected.dtype)
            found = get_aval(ct)
        more = (found.vma - expected.vma).intersection(context.manual_axes)
        sums = unreduced_axes(found) != unreduced_axes(expected)
        if found.shape != expected.shape or found.dtype != expected.dtype or more or sums:
            what = (
                "shapes"
                if found.shape != expected.shape
                else "dtypes"
                if found.dtype != expected.dtype
                else "manual axis types"
                if more
                else "unreduced axes"
            )
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple "
                f"of the primal function, but at output{path} the bwd rule produced an output of "
                f"type {found.str_short()} corresponding to an input of type {aval.str_short()}, "
                f"so the {what} do not match (bwd rule of {self.name})"
            )
        return ct


def _converts(found: Any, wanted: Any) -> bool:
    """Whether cotangents of one dtype may stand for those of another, as they may in JAX."""
    kinds = dtypes.kind(found), dtypes.kind(wanted)
    return kinds[1] in "fc" and kinds[0] in "biufc" and kinds != ("c", "f")


def _structure_message(found: Any, tree: Any) -> str:
    return (
        "Custom VJP bwd rule must produce an output with the same container (pytree) structure as "
        "the args tuple of the primal function, and in particular must produce a tuple of length "
        "equal to the number of arguments to the primal function, but got bwd output structure "
        f"{tree_util.tree_structure(found)} for primal input structure {tree}."
    )


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns its value and, beside it, the function that pulls cotangents back.

    `fun(*args)` returns `(out, pull)`; `pull(cotangent)` returns the cotangent of the argument, or
    a tuple of them for several.

    >>> import xpr
    >>> @xpr.custom_gradient
    ... def f(x):
    ...     return x ** 2, lambda ct: (ct * x,)
    >>> xpr.grad(f)(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    check_callable(fun, "custom_gradient")

    @api_boundary
    @wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        pulls: list[Any] = []

        def value(*xs: Any) -> Any:
            return fun(*xs, **kwargs)[0]

        def fwd(*xs: Any) -> Any:
            out, pull = fun(*xs, **kwargs)
            closed, consts = closure_convert(pull, out)
            pulls.append(closed)
            return out, consts

        def bwd(consts: Any, ct: Any) -> Any:
            found = pulls[-1](ct, *consts)
            return found if isinstance(found, (tuple, list)) else (found,)

        function = custom_vjp(value)
        function.defvjp(fwd, bwd)
        return function(*args)

    return wrapped


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Any, list[Any]]:
    """`fun` with the arrays it closes over made arguments.

    Returns `(converted, consts)`: `converted(*args, *consts)` computes `fun(*args)` for arguments
    of the types of `example_args`. Only values that may be differentiated, the tracers that `fun`
    closes over, become arguments.

    >>> import xpr
    >>> def f(y):
    ...     converted, consts = xpr.closure_convert(lambda x: x * y, 1.0)
    ...     return converted(3.0, *consts)
    >>> xpr.grad(f)(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    leaves, tree = tree_util.tree_flatten((example_args, {}))
    flat = FlatFunction(fun, tree)
    closed, consts = hoist_consts(
        trace_to_jaxpr(flat, [abstractify(x) for x in leaves]), tracers_only=True
    )
    count = len(consts)
    # Not the function itself: it holds what it closes over.
    out_tree = flat.out_tree

    def converted(*args: Any) -> Any:
        own, outer = (args[: len(args) - count], args[len(args) - count :]) if count else (args, ())
        given, given_tree = tree_util.tree_flatten((own, {}))
        if given_tree != tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the structure of "
                f"its example arguments, {tree}, but got {given_tree}"
            )
        out = eval_jaxpr(closed.jaxpr, closed.consts, *outer, *given)
        return tree_util.tree_unflatten(out_tree, out)

    return converted, consts
