"""What `linearize` and `vjp` return: derivatives at a point, as pytrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.aval import ShapedArray, same_sharding, same_type
from xpr.core.jaxpr import Jaxpr
from xpr.core.references import Ref
from xpr.core.trace import get_aval
from xpr.interpreters.transpose import Linear, backward_pass
from xpr.interpreters.zeros import Zero, cotangent_aval, instantiate, is_float0, zeros
from xpr.transforms.arguments import check_leaf
from xpr.transforms.signature import name_of, source_of


class LinearProgram:
    """What a linearized function is but for its residuals: compared by identity."""

    def __init__(
        self,
        fun: Callable[..., Any],
        jaxpr: Jaxpr,
        in_tree: Any,
        in_avals: tuple[ShapedArray, ...],
        wanted: tuple[bool, ...],
        out_tree: Any,
        out_avals: tuple[ShapedArray, ...],
        nonzero: tuple[bool, ...],
    ) -> None:
        self.fun = fun
        self.jaxpr = jaxpr
        self.in_tree = in_tree
        self.in_avals = in_avals
        self.wanted = wanted
        self.out_tree = out_tree
        self.out_avals = out_avals
        self.nonzero = nonzero


class Linearized:
    """A derivative at a point, a pytree whose leaves are its residuals.

    So it can leave and enter compiled functions.
    """

    def __init__(self, residuals: Sequence[Any], program: LinearProgram) -> None:
        self.residuals = list(residuals)
        self.program = program

    def __init_subclass__(cls) -> None:
        tree_util.register_pytree_node(cls, cls._flattened, cls._made)

    def _flattened(self) -> tuple[tuple[Any, ...], Any]:
        return tuple(self.residuals), self.program

    @classmethod
    def _made(cls, program: Any, residuals: Sequence[Any]) -> Any:
        return cls(residuals, program)


def as_array(x: Any) -> Any:
    """A Python or NumPy number that came out of a program, as an array of the current trace."""
    if hasattr(x, "aval"):
        return x
    aval = get_aval(x)
    if aval.is_high or is_float0(aval):
        return x
    # One more operation than needed, but a rare one: the result was a constant.
    from xpr.primitives.convert import convert_element_type_p  # noqa: PLC0415

    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


def _spelled(aval: ShapedArray) -> str:
    return str(aval.strip_weak_type())


def flatten_cotangent(
    cotangent: Any, out_tree: Any, out_avals: Sequence[ShapedArray], fun: Any, what: str
) -> list[Any]:
    cts, ct_tree = tree_util.tree_flatten(cotangent)
    if ct_tree != out_tree:
        raise ValueError(
            f"unexpected tree structure.\n\nThe argument to {what} must match the pytree structure "
            f"of the differentiated function {name_of(fun)} at {source_of(fun)}, which returned "
            f"{out_tree}, but got {ct_tree}."
        )
    for ct, a in zip(cts, out_avals, strict=True):
        check_leaf(ct, what)
        found, expected = get_aval(ct), cotangent_aval(a)
        same = same_type(found, expected)
        if not same or not same_sharding(found, expected):
            raise ValueError(
                f"unexpected JAX type (e.g. shape/dtype) for argument to {what}: got "
                f"{_spelled(found)}, but expected {_spelled(expected)} because the corresponding "
                f"output of the differentiated function had JAX type {_spelled(a)} ({name_of(fun)})"
            )
    return [Zero(get_aval(ct)) if is_float0(get_aval(ct)) else ct for ct in cts]


@tree_util.register_static
class NotNeeded:
    """Stands in `args_res` for an argument that the derivative does not depend on."""

    def __repr__(self) -> str:
        return "NotNeeded()"

    def __eq__(self, other: object) -> bool:
        return type(other) is NotNeeded

    def __hash__(self) -> int:
        return hash(NotNeeded)


class _Wish:
    """What becomes of one cotangent, for `with_refs`: compared by what it is."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class GradValue(_Wish):
    """Asks `with_refs` for a cotangent as a result.

    >>> import xpr
    >>> value, pull = xpr.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pull.with_refs(GradValue(), DontWant())(1.0)
    (Array(3., dtype=float32, weak_type=True), DidntWant())
    """


class DontWant(_Wish):
    """Tells `with_refs` that a cotangent is not wanted.

    >>> import xpr
    >>> value, pull = xpr.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pull.with_refs(DontWant(), GradValue())(1.0)[0]
    DidntWant()
    """


@tree_util.register_static
class DidntWant(_Wish):
    """The result in the place of a cotangent that was not wanted.

    >>> DidntWant() == DidntWant()
    True
    """


@tree_util.register_static
class GradRef(_Wish):
    """The result in the place of a cotangent that was added to a reference.

    >>> import xpr
    >>> total = xpr.new_ref(0.0)
    >>> value, pull = xpr.vjp(lambda x: x * x, 2.0)
    >>> pull.with_refs(total)(1.0), float(total[...])
    ((GradRef(),), 4.0)
    """


class Pullback(Linearized):
    """What `vjp` returns: maps cotangents of the results to those of the arguments.

    `args_res` is a list with an entry for each argument: its tree, whose leaves are `NotNeeded()`
    where the derivative does not depend on them. It may be written to: what stands there is what
    the next call uses. `opaque_residuals` is what else it depends on.
    """

    _places: tuple[tuple[int, ...], ...] = ()  # for each leaf of the arguments, which residuals
    _taken: list[Any] | None = None

    def know_arguments(self, leaves: Sequence[Any]) -> None:
        """The leaves of the primals; those that are residuals appear in `args_res`."""
        places: dict[int, list[int]] = {}
        for i, r in enumerate(self.residuals):
            places.setdefault(id(r), []).append(i)
        self._places = tuple(tuple(places.get(id(x), ())) for x in leaves)

    def _flattened(self) -> tuple[tuple[Any, ...], Any]:
        return tuple(self.current()), (self.program, self._places)

    @classmethod
    def _made(cls, program: Any, residuals: Sequence[Any]) -> Any:
        made = cls(residuals, program[0])
        made._places = program[1]
        return made

    @property
    def args_res(self) -> list[Any]:
        if self._taken is None:
            tree = self.program.in_tree
            places = self._places or ((),) * tree.num_leaves
            leaves = [self.residuals[at[0]] if at else NotNeeded() for at in places]
            self._taken = list(tree_util.tree_unflatten(tree, leaves))
        return self._taken

    @property
    def opaque_residuals(self) -> list[Any]:
        taken = {i for at in self._places for i in at}
        return [r for i, r in enumerate(self.residuals) if i not in taken]

    def current(self) -> list[Any]:
        """The residuals, those that `args_res` holds from there."""
        if self._taken is None:
            return self.residuals
        leaves = tree_util.tree_leaves(self._taken, is_leaf=lambda x: isinstance(x, NotNeeded))
        if len(leaves) != self.program.in_tree.num_leaves:
            raise ValueError(
                f"args_res must have the {self.program.in_tree.num_leaves} leaves of the "
                f"arguments of {name_of(self.program.fun)}, got {len(leaves)}"
            )
        found = list(self.residuals)
        for at, leaf in zip(self._places, leaves, strict=True):
            for i in at:
                found[i] = leaf
        return found

    def __call__(self, cotangent: Any, *more: Any) -> Any:
        program = self.program
        if more:
            raise TypeError(
                f"The function returned by `jax.vjp` applied to {name_of(program.fun)} was called "
                f"with {1 + len(more)} arguments, but functions returned by `jax.vjp` must be "
                "called with a single argument corresponding to the single value returned by the "
                "function being differentiated: give a tuple if it returns one"
            )
        cts = flatten_cotangent(
            cotangent, program.out_tree, program.out_avals, program.fun, "VJP function"
        )
        return tree_util.tree_unflatten(program.in_tree, self.flat(cts))

    def flat(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of all leaves of the arguments from those of all leaves of the result."""
        program = self.program
        given = [ct for ct, nz in zip(cts, program.nonzero, strict=True) if nz]
        jaxpr = program.jaxpr
        linear = [Linear(v.aval) for v in jaxpr.invars]
        found = iter(backward_pass(jaxpr, self.current(), linear, given))
        return [
            as_array(instantiate(next(found))) if w else zeros(cotangent_aval(a))
            for a, w in zip(program.in_avals, program.wanted, strict=True)
        ]

    def with_refs(self, *wishes: Any) -> Callable[[Any], Any]:
        """The pullback that adds some cotangents to references instead of returning them.

        `wishes` has the structure of the arguments. Each leaf is a reference of the cotangent's
        type, to which the cotangent is added (the result has `GradRef()` there), `DontWant()` (the
        result has `DidntWant()`) or `GradValue()`, for the cotangent itself.
        """
        leaves, tree = tree_util.tree_flatten(wishes)
        if tree != self.program.in_tree:
            raise ValueError(
                f"with_refs takes references in the structure of the arguments of "
                f"{name_of(self.program.fun)}, {self.program.in_tree}, got {tree}"
            )
        return tree_util.Partial(_pull_into, self, leaves)

    def __repr__(self) -> str:
        return f"<VJP function of {name_of(self.program.fun)}>"


def _pull_into(pull: Pullback, wishes: Sequence[Any], cotangent: Any) -> Any:
    found = tree_util.tree_leaves(pull(cotangent))
    for i, wish in enumerate(wishes):
        if isinstance(wish, Ref):
            wish[...] = wish[...] + found[i]
            found[i] = GradRef()
        elif isinstance(wish, DontWant):
            found[i] = DidntWant()
    return tree_util.tree_unflatten(pull.program.in_tree, found)
