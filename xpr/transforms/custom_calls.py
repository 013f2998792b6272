"""What functions with rules of their own share: arguments that are no arrays, trees of results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.errors import UnexpectedTracerError
from xpr.core.trace import Tracer, get_aval, is_valid_value
from xpr.primitives.custom import stop_gradient
from xpr.transforms.signature import name_of, signature_of


def bound_arguments(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], decorator: str
) -> tuple[Any, ...]:
    """All arguments by position, defaults put in; TypeError for what cannot be so passed.

    The keywords that a `functools.partial` holds stay with it, and so do defaults of arguments that
    have no position.
    """
    signature = None if isinstance(fun, functools.partial) else signature_of(fun)
    if signature is None:
        without, positions = list(kwargs), tuple(args)
    else:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"The input arguments to the {decorator}-decorated function {name_of(fun)} could "
                f"not be resolved to positional-only arguments. Binding failed with the error:\n"
                f"{error}"
            ) from None
        bound.apply_defaults()
        without, positions = [name for name in bound.kwargs if name in kwargs], bound.args
    if without:
        raise TypeError(
            f"The input arguments to the {decorator}-decorated function {name_of(fun)} could not "
            "be resolved to positional-only arguments. Binding failed with the error:\n"
            f"The following keyword arguments could not be resolved to positions: "
            f"{', '.join(without)}"
        )
    return positions


class NondiffArguments:
    """The positions of arguments that a rule gets in front, undifferentiated."""

    def __init__(
        self, fun: Callable[..., Any], argnums: Sequence[int], argnames: Sequence[str]
    ) -> None:
        positions = list(argnums)
        if argnames:
            signature = signature_of(fun)
            names = list(signature.parameters) if signature is not None else []
            for name in argnames:
                if name not in names:
                    raise ValueError(
                        f"nondiff_argnames: {name_of(fun)} has no argument {name!r}; it has {names}"
                    )
                positions.append(names.index(name))
        self.positions = tuple(sorted(set(positions)))

    def __bool__(self) -> bool:
        return bool(self.positions)

    def as_constants(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments, of which the undifferentiated ones are constants to differentiation."""
        places = {p + len(args) if p < 0 else p for p in self.positions}
        return tuple(as_constant(x) if i in places else x for i, x in enumerate(args))

    def split(
        self, args: Sequence[Any], name: str
    ) -> tuple[list[Any], tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]]:
        """The fixed arguments, the others, and the way to put them together again."""
        places = [p + len(args) if p < 0 else p for p in self.positions]
        for p in places:
            if not 0 <= p < len(args):
                raise TypeError(
                    f"{name} has nondiff_argnums={self.positions}, but got only {len(args)} "
                    "positional arguments"
                )
        fixed = [args[p] for p in places]
        dynamic = tuple(a for i, a in enumerate(args) if i not in places)

        def rebuild(others: Sequence[Any]) -> list[Any]:
            rest = iter(others)
            values = dict(zip(places, fixed, strict=True))
            return [values[i] if i in values else next(rest) for i in range(len(args))]

        return fixed, dynamic, rebuild

    def check_no_tracers(self, fixed: Sequence[Any], name: str) -> None:
        """UnexpectedTracerError if an undifferentiated argument holds a tracer."""
        for position, value in zip(self.positions, fixed, strict=True):
            if any(isinstance(x, Tracer) for x in tree_util.tree_leaves(value)):
                raise UnexpectedTracerError(
                    f"Found a tracer in the nondiff_argnums argument {position} of the custom_vjp "
                    f"function {name}. Pass arrays as ordinary arguments and return None for their "
                    "cotangents."
                )


def as_constant(x: Any) -> Any:
    """A tree that is not differentiated: its traced arrays as constants to differentiation."""
    if not any(isinstance(leaf, Tracer) for leaf in tree_util.tree_leaves(x)):
        return x
    return tree_util.tree_map(
        lambda leaf: stop_gradient(leaf) if isinstance(leaf, Tracer) else leaf, x
    )


_SAME_TREE = ", and in particular of the same container/pytree structure"
_SAME_TYPES = ", and in particular with leaves of the same shape/dtype"


class _Text:
    """A text that is printed as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _types_of(leaves: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(a.shape, a.dtype) for a in map(get_aval, leaves)]


def _spelled(tree: Any, types: Sequence[tuple[Any, Any]]) -> str:
    texts = [_Text(f"{d}[{','.join(map(str, s))}]") for s, d in types]
    return repr(tree_util.tree_unflatten(tree, texts))


def _shown(out: Any) -> str:
    leaves, tree = tree_util.tree_flatten(out)
    valid = all(map(is_valid_value, leaves))
    return _spelled(tree, _types_of(leaves)) if valid else repr(tree)


class OutTree:
    """The tree of a function's results, told by whichever of its forms ran."""

    def __init__(self) -> None:
        self.tree: Any = None
        self._types: list[tuple[Any, Any]] | None = None

    def flatten(self, out: Any) -> list[Any]:
        """The leaves of the function's result."""
        leaves, self.tree = tree_util.tree_flatten(out)
        if all(map(is_valid_value, leaves)):
            self._types = _types_of(leaves)
        return leaves

    def remember(self, out: Any, who: str, first: str, rule: str, function: str) -> list[Any]:
        """The leaves of a rule's primal result; TypeError unless it is of the function's type.

        It is checked where the function has been traced before. In the message stand `first`, what
        the rule must produce, and the names of the `rule` and of the `function`.
        """
        leaves, tree = tree_util.tree_flatten(out)
        expected = f"{who} must produce a pair (list or tuple of length two) where {first}"
        if self.tree is not None and self.tree != tree:
            what = "container/pytree structure"
            found = f"but instead the {rule} output's first element had {what}:\n    {_shown(out)}"
            own = "" if self._types is None else _spelled(self.tree, self._types)
            raise TypeError(
                f"{expected.replace('{}', _SAME_TREE)}, "
                f"{found}\nwhile the {function} had output {what}:\n    {own or self.tree}."
            )
        valid = all(map(is_valid_value, leaves))
        if valid and self._types is not None and self._types != _types_of(leaves):
            raise TypeError(
                f"{expected.replace('{}', _SAME_TYPES)}, but instead the {rule} output's first "
                f"element had shapes/dtypes of:\n    {_shown(out)}\nwhile the {function} had "
                f"output shapes/dtypes of:\n    {_spelled(tree, self._types)}"
            )
        self.tree = tree
        return leaves

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The tree of results with these leaves."""
        return tree_util.tree_unflatten(self.tree, leaves)
