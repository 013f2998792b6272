"""What transformations share about arguments: `argnums`, trees and the checks on their leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.errors import shown
from xpr.core.primitive import invalid_argument
from xpr.core.references import Ref
from xpr.core.trace import get_aval, is_valid_value
from xpr.transforms.signature import name_of, source_of

Argnums = int | Sequence[int]


class FlatFunction:
    """A function of pytrees as one of flat lists; it remembers the tree of its latest result.

    With `has_aux` the function returns a pair, of which the second part, auxiliary data, is
    appended to the flat result as it is.
    """

    def __init__(self, fun: Callable[..., Any], in_tree: Any, has_aux: bool = False) -> None:
        self.fun = fun
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree: Any = None
        self.aux_tree: Any = None
        self.count = 0

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = tree_util.tree_unflatten(self.in_tree, leaves)
        out = self.fun(*args, **kwargs)
        extra: list[Any] = []
        if self.has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                what = f"a tuple of length {len(out)}" if isinstance(out, tuple) else str(type(out))
                raise TypeError(
                    "expected function with aux output to return a two-element tuple, but got "
                    f"{what} with value {shown(out)}"
                )
            out, aux = out
            extra, self.aux_tree = tree_util.tree_flatten(aux)
        flat, self.out_tree = tree_util.tree_flatten(out)
        self.count = len(flat)
        for leaf in flat:
            if not is_valid_value(leaf):
                raise TypeError(
                    f"function {name_of(self.fun)} at {source_of(self.fun)} returned a value of "
                    f"type {type(leaf)}, which is not a valid JAX type: {shown(leaf)}"
                )
        return [*flat, *extra]

    def result(self, flat: Sequence[Any]) -> Any:
        """The tree of results from the first of the flat values."""
        return tree_util.tree_unflatten(self.out_tree, flat[: self.count])

    def aux(self, flat: Sequence[Any]) -> Any:
        """The auxiliary data from the flat values that follow the results."""
        return tree_util.tree_unflatten(self.aux_tree, flat[self.count :])


def check_argnums(argnums: Any, what: str) -> tuple[int, ...]:
    """`argnums` as a tuple; TypeError unless it is an int or a sequence of ints."""
    found = tuple(argnums) if isinstance(argnums, Sequence) else (argnums,)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in found):
        raise TypeError(f"{what}: argnums must be an int or a sequence of ints, got {argnums!r}")
    return found


def positions(argnums: Argnums, count: int, what: str) -> tuple[int, ...]:
    """`argnums` as positions among `count` positional arguments, negative ones from the end."""
    nums = check_argnums(argnums, what)
    found = []
    for n in nums:
        place = n + count if n < 0 else n
        if not 0 <= place < count:
            least = max(nums) + 1 if n >= 0 else -n
            raise TypeError(
                f"differentiating with respect to argnums={argnums} requires at least {least} "
                f"positional arguments to be passed by the caller, but got only {count} "
                "positional arguments."
            )
        found.append(place)
    return tuple(found)


class Selected:
    """`fun` as a function of the positional arguments at `argnums` alone."""

    def __init__(
        self, fun: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: Any, what: str
    ) -> None:
        self.places = positions(argnums, len(args), what)
        self.dynamic = tuple(args[i] for i in self.places)
        self.alone = isinstance(argnums, int)
        self._fun = fun
        self._args = list(args)
        self._kwargs = kwargs

    def __call__(self, *dynamic: Any) -> Any:
        args = list(self._args)
        for place, value in zip(self.places, dynamic, strict=True):
            args[place] = value
        return self._fun(*args, **self._kwargs)

    @property
    def __name__(self) -> str:
        return name_of(self._fun)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self._fun


def check_leaf(x: Any, what: str) -> None:
    """TypeError unless `x` is an array, a number or a tracer."""
    if not is_valid_value(x):
        raise invalid_argument(x, what)


def check_differentiable_input(x: Any, what: str, holomorphic: bool, allow_int: bool) -> None:
    """The checks of `grad` and `jacrev` on a leaf of an argument to differentiate."""
    check_leaf(x, what)
    if isinstance(x, Ref):
        raise TypeError(
            f"{what} cannot differentiate with respect to a reference, got one of type {x.aval}: "
            "give its value, and make a reference in the function"
        )
    if get_aval(x).is_high:
        return
    dtype = get_aval(x).dtype
    kind = dtypes.kind(dtype)
    if holomorphic:
        if kind != "c":
            raise TypeError(
                f"{what} with holomorphic=True requires inputs with complex dtype, but got "
                f"{dtype.name}."
            )
        return
    if kind not in "fc" and not (allow_int and kind in "biuVx"):
        raise TypeError(
            f"{what} requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.inexact), but got {dtype.name}. If you want to use Boolean- or integer-valued "
            "inputs, use vjp or set allow_int to True."
        )


def check_real_output(x: Any, what: str, holomorphic: bool) -> None:
    """The checks of `grad` and `jacrev` on the dtype of a result."""
    dtype = get_aval(x).dtype
    kind = dtypes.kind(dtype)
    if holomorphic:
        if kind != "c":
            raise TypeError(
                f"{what} with holomorphic=True requires outputs with complex dtype, but got "
                f"{dtype.name}."
            )
        return
    if kind == "c":
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {dtype.name}. For holomorphic differentiation, pass "
            "holomorphic=True. For differentiation of non-holomorphic functions involving complex "
            "outputs, use xpr.vjp directly."
        )
    if kind != "f":
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {dtype.name}. For differentiation of functions with integer "
            "outputs, use xpr.vjp directly."
        )
