"""The programs of exported functions: with fixed sizes, and with symbolic dimensions."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, eval_closed
from xpr.core.polynomials import Monomial, is_call, variables
from xpr.core.references import AbstractRef
from xpr.core.symbolic import SymbolicDim
from xpr.core.trace import Trace
from xpr.export.function_fits import RUN, FunctionFitter
from xpr.export.generalize import (
    Fitter,
    SizeDependenceError,
    count_of_points,
    generalize_data,
    specialize,
)
from xpr.export.program_data import (
    Arrays,
    Json,
    dtype_of,
    dtype_text,
    program_data,
    program_from_data,
)
from xpr.export.symbolic import (
    SymbolicAval,
    SymbolicScope,
    dim_data,
    dim_of,
    ones,
    sample_sizes,
    scope_of,
    sizes_in_a_row,
)
from xpr.runtimes.bundle import ArgumentType
from xpr.runtimes.bundle.arguments import symbolic_sizes
from xpr.transforms.tracing import ShapeDtypeStruct

Sizes = tuple[int, ...]
"""The values of the symbolic dimensions, in the order of the scope's names."""

_SMALL, _LARGE = 96, 6000


class Program(ABC):
    """What an exported function computes, for each choice of its symbolic dimensions."""

    scope: SymbolicScope | None = None
    """The symbolic dimensions and what is required of them; None where all sizes are fixed."""

    in_avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]

    @abstractmethod
    def at(self, sizes: Sizes) -> ClosedJaxpr:
        """The program for these sizes, as it was traced: derivatives are made of this one."""

    @abstractmethod
    def data(self) -> tuple[Json, Arrays]:
        """The program as JSON, and the arrays that it names."""

    @abstractmethod
    def derived(
        self, rule: Callable[[ClosedJaxpr], ClosedJaxpr], more_inputs: Callable[[Any], Any]
    ) -> Program:
        """The program that `rule` makes of this one.

        It takes the same inputs, and one for each result, of the type that `more_inputs` gives.
        """

    def sizes(self, names: Sequence[str], avals: Sequence[ShapedArray]) -> Sizes:
        """The symbolic dimensions that arguments of these types tell.

        Raises ValueError, naming the argument, for types that do not fit.
        """
        for name, want, found in zip(names, self.in_avals, avals, strict=True):
            check_argument(name, want, found)
        return ()


def check_argument(name: str, want: Any, found: ShapedArray) -> None:
    """Raises ValueError unless the rank and dtype, and the sizes that are fixed, are as wanted."""
    if found.dtype != want.dtype:
        raise ValueError(f"Dtype mismatch for {name}: expected {want.dtype}, got {found.dtype}")
    if len(found.shape) != len(want.shape):
        raise ValueError(
            f"Rank mismatch for {name}: expected shape {want.shape}, got {found.shape}"
        )
    for axis, (size, given) in enumerate(zip(want.shape, found.shape, strict=True)):
        if isinstance(size, int) and size != given:
            raise ValueError(
                f"Shape mismatch for {name}.shape[{axis}]: expected {size}, got {given}"
            )


class FixedProgram(Program):
    """A program all sizes of which are known."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._closed = closed
        self.on_arrays = on_arrays(closed)
        self.in_avals = tuple(closed.in_avals)
        self.out_avals = tuple(closed.out_avals)

    def at(self, sizes: Sizes) -> ClosedJaxpr:
        return self._closed

    def data(self) -> tuple[Json, Arrays]:
        tables, arrays = program_data(self.on_arrays)
        return {"scope": None, "tables": tables}, arrays

    def derived(
        self, rule: Callable[[ClosedJaxpr], ClosedJaxpr], more_inputs: Callable[[Any], Any]
    ) -> Program:
        return FixedProgram(rule(self._closed))


class OpenProgram(Program):
    """A program whose open sizes are those of each call's arguments, and have no names.

    `make` gives the program for the types of the first `sized` inputs; it has no general form.
    """

    def __init__(
        self,
        in_avals: Sequence[Any],
        out_avals: Sequence[Any],
        make: Callable[[Sequence[ShapedArray]], ClosedJaxpr],
        sized: int | None = None,
    ) -> None:
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self._make = make
        self._sized = len(self.in_avals) if sized is None else sized
        self._made: dict[Sizes, ClosedJaxpr] = {}

    def at(self, sizes: Sizes) -> ClosedJaxpr:
        found = self._made.get(sizes)
        if found is None:
            if len(self._made) >= _KEPT:
                self._made.clear()
            rest = iter(sizes)
            avals = []
            for a in self.in_avals[: self._sized]:
                shape = tuple(d if isinstance(d, int) else next(rest, -1) for d in a.shape)
                if -1 in shape:
                    raise self._without_form()
                avals.append(ShapedArray(shape, a.dtype))
            found = self._made[sizes] = self._make(avals)
        return found

    def sizes(self, names: Sequence[str], avals: Sequence[ShapedArray]) -> Sizes:
        super().sizes(names, avals)
        types = zip(self.in_avals[: self._sized], avals[: self._sized], strict=True)
        return tuple(
            n
            for want, found in types
            for d, n in zip(want.shape, found.shape, strict=True)
            if not isinstance(d, int)
        )

    def data(self) -> tuple[Json, Arrays]:
        raise self._without_form()

    def derived(
        self, rule: Callable[[ClosedJaxpr], ClosedJaxpr], more_inputs: Callable[[Any], Any]
    ) -> Program:
        in_avals = [*self.in_avals, *map(more_inputs, self.out_avals)]
        return OpenProgram(
            in_avals,
            self.in_avals,
            lambda avals: rule(self._make(avals)),
            self._sized,
        )

    @staticmethod
    def _without_form() -> ValueError:
        return ValueError(
            "the program leaves sizes open without names, so that it can be called and not "
            "stored: export it once more, by xpr.export.export(xpr.jit(program.call)) with the "
            "types of its arguments, whose sizes may be symbolic"
        )


class SymbolicProgram(Program):
    """A program for symbolic dimensions.

    `make` gives the program for a choice of them; its general form is made of those for several
    choices, small ones and a large one, when it is first needed: at once, unless the types of the
    results are given.
    """

    def __init__(
        self,
        scope: SymbolicScope,
        in_avals: Sequence[Any],
        make: Callable[[dict[str, int]], ClosedJaxpr],
        general: tuple[Json, Arrays] | None = None,
        out_avals: Sequence[Any] | None = None,
    ) -> None:
        self.scope = self.symbolic_scope = scope
        self.in_avals = tuple(in_avals)
        self._make = make
        self._made: dict[Sizes, ClosedJaxpr] = {}
        self._has_functions = any(is_call(n) for d in _symbolic_dims(self.in_avals) for n in d)
        self._given = general
        if out_avals is None:
            tables, _ = self._general
            out_avals = [
                SymbolicAval(tuple(_dim(d, scope) for d in shape), dtype_of(name), bool(weak))
                for shape, name, weak in _out_types(tables[-1])
            ]
        self.out_avals = tuple(out_avals)

    @functools.cached_property
    def _general(self) -> tuple[Json, Arrays]:
        """The program for any sizes: its tables, and the arrays that they name."""
        return self._generalized() if self._given is None else self._given

    def at(self, sizes: Sizes) -> ClosedJaxpr:
        found = self._made.get(sizes)
        if found is None:
            if len(self._made) >= _KEPT:
                self._made.clear()
            named = dict(zip(self.symbolic_scope.names, sizes, strict=True))
            found = self._made[sizes] = self._make(named)
        return found

    def at_named(self, sizes: dict[str, int]) -> ClosedJaxpr:
        """The program for sizes by name, as it was traced."""
        return self.at(tuple(sizes[n] for n in self.symbolic_scope.names))

    def on_arrays_at(self, sizes: dict[str, int]) -> ClosedJaxpr:
        """The program for sizes by name, without the high types that may be inside."""
        return on_arrays(self.at_named(sizes))

    def fitter(self, least: int = 2, greatest: int = _SMALL) -> Fitter:
        """Choices of the sizes from which a general form can be made, and what makes it."""
        names = self.symbolic_scope.free_names()
        count = count_of_points(names)
        points = sample_sizes(self.symbolic_scope, count, greatest, least)
        return self._fitter(points, least) if self._has_functions else Fitter(names, points)

    def _fitter(self, points: list[dict[str, int]], least: int) -> Fitter:
        """One that knows more than polynomials."""
        names = self.symbolic_scope.free_names()
        runs = {}
        for name in names:
            rows = sizes_in_a_row(self.symbolic_scope, name, points[0], least, RUN)
            runs[name] = list(range(len(points), len(points) + len(rows)))
            points = [*points, *rows]
        return FunctionFitter(names, points, runs)

    def _generalized(self) -> tuple[Json, Arrays]:
        points = self.fitter().points
        points += [p for p in sample_sizes(self.symbolic_scope, 1, _LARGE) if p not in points]
        try:
            return self._made_of(Fitter(self.symbolic_scope.free_names(), points))
        except SizeDependenceError as error:
            if len(self.symbolic_scope.free_names()) > _MAX_FUNCTION_NAMES:
                raise
            first = error
        self._has_functions = True
        try:
            return self._made_of(self._fitter(points, 2))
        except ValueError:
            # It says best what is wrong: fewer and more different sizes were tried.
            raise first from None

    def _made_of(self, fitter: Fitter) -> tuple[Json, Arrays]:
        """The general form, from the programs at the fitter's points."""
        found = [program_data(self.on_arrays_at(p)) for p in fitter.points]
        arrays = found[0][1]
        for _, others in found[1:]:
            for name, array in others.items():
                mine = arrays.get(name)
                if mine is None or not _same(mine, array):
                    raise SizeDependenceError(
                        "the function closes over an array that depends on the symbolic "
                        "dimensions, of "
                        f"shape {array.shape} for one choice of them: compute it with xpr.numpy, "
                        "not with NumPy"
                    )
        tables = generalize_data([tables for tables, _ in found], fitter)
        for sizes in ones(self.symbolic_scope):
            self._check_ones(sizes, tables, arrays)
        return tables, arrays

    def _check_ones(self, sizes: dict[str, int], tables: Json, arrays: Arrays) -> None:
        """Sizes of one are special in Python: the general form must compute what is traced there.

        Both may use different operations (nothing needs to be broadcast, for one) and must then
        agree on random arguments. Raises SizeDependenceError if they do not.
        """
        general = specialize(tables, sizes)
        told = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        try:
            traced = self.on_arrays_at(sizes)
            if program_data(traced)[0] == general:
                return
            agree = _same_results(traced, program_from_data(general, arrays))
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise SizeDependenceError(f"the function fails for {told}{_ADVICE}: {error}") from error
        if not agree:
            raise SizeDependenceError(
                f"the function computes something else for {told} than for greater sizes{_ADVICE}"
            )

    def data(self) -> tuple[Json, Arrays]:
        scope = {
            "names": self.symbolic_scope.names,
            "constraints": [c.text for c in self.symbolic_scope.constraints],
            "inputs": [
                [[dim_data(d) for d in a.shape], dtype_text(a.dtype), bool(a.weak_type)]
                for a in self.in_avals
            ],
        }
        tables, arrays = self._general
        return {"scope": scope, "tables": tables}, arrays

    def derived(
        self, rule: Callable[[ClosedJaxpr], ClosedJaxpr], more_inputs: Callable[[Any], Any]
    ) -> Program:
        in_avals = [*self.in_avals, *map(more_inputs, self.out_avals)]
        return SymbolicProgram(
            self.symbolic_scope, in_avals, lambda sizes: rule(self.at_named(sizes))
        )

    def sizes(self, names: Sequence[str], avals: Sequence[ShapedArray]) -> Sizes:
        types = []
        for name, want, found in zip(names, self.in_avals, avals, strict=True):
            check_argument(name, want, found)
            shape = [dim_data(d) for d in want.shape]
            dtype = dtype_text(want.dtype)
            types.append(ArgumentType({"path": name, "shape": shape, "dtype": dtype}))
        constraints = [c.data() for c in self.symbolic_scope.constraints]
        found_sizes = symbolic_sizes(types, [a.shape for a in avals], constraints)
        return tuple(found_sizes[n] for n in self.symbolic_scope.names)


def _symbolic_dims(avals: Sequence[Any]) -> Iterator[Monomial]:
    for aval in avals:
        for d in aval.shape:
            if isinstance(d, SymbolicDim):
                yield from d.terms


_KEPT = 128
_MAX_FUNCTION_NAMES = 2
"""Of so many free symbolic dimensions others may be quotients and the like."""

_ADVICE = "; a constraint such as 'b >= 2' excludes that"
_TOLERANCE = 1e-3


def _same_results(first: ClosedJaxpr, second: ClosedJaxpr) -> bool:
    """Whether two programs of the same types agree on random arguments."""
    rng = np.random.default_rng(0)
    args = [_random(a, rng) for a in first.in_avals]
    for a, b in zip(eval_closed(first, args), eval_closed(second, args), strict=True):
        x, y = np.asarray(a), np.asarray(b)
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.dtype == dtypes.float0 or x.dtype.kind == "b":
            same = np.array_equal(x, y)
        else:
            wide = [v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (x, y)]
            scale = np.max(np.abs(wide[0]), initial=1.0)
            same = np.allclose(*wide, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True)
        if not same:
            return False
    return True


def _random(aval: ShapedArray, rng: np.random.Generator) -> Any:
    """An argument of a type: numbers around one, or small integers."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    kind = dtypes.kind(aval.dtype)
    values = rng.integers(0, 2, aval.shape) if kind in "biu" else rng.normal(1, 0.5, aval.shape)
    return np.asarray(values).astype(aval.dtype)


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _dim(data: Json, scope: SymbolicScope) -> Any:
    return data if isinstance(data, int) else dim_of({"terms": data["dim"]}, scope)


def _out_types(table: Json) -> list[Json]:
    """The types of a program's results, from its data."""
    types = [*table["const_types"], *table["in_types"]]
    types += [t for eqn in table["eqns"] for t in eqn[2]]
    return [types[out] if isinstance(out, int) else out[1] for out in table["outs"]]


def stored_program(data: Json, arrays: Arrays) -> Program:
    """The program that `Program.data` wrote; ValueError for damaged data."""
    stored, tables = data["scope"], data["tables"]
    if stored is None:
        return FixedProgram(program_from_data(tables, arrays))
    scope = SymbolicScope(stored["constraints"])
    for name in stored["names"]:
        scope.name(name)
    in_avals = [
        SymbolicAval(tuple(dim_of(d, scope) for d in shape), dtype_of(dtype), bool(weak))
        for shape, dtype, weak in stored["inputs"]
    ]
    return SymbolicProgram(
        scope,
        in_avals,
        lambda sizes: program_from_data(specialize(tables, sizes), arrays),
        (tables, arrays),
    )


def on_arrays(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program without the high types that may be inside; perhaps itself.

    The rules that functions have for their derivatives are no longer in it. Raises
    NotImplementedError if arguments or results are of high types.
    """
    if Trace.any_high:
        from xpr.core.high import has_high  # noqa: PLC0415  only for high types
        from xpr.interpreters.high import lowered  # noqa: PLC0415

        if has_high(closed.jaxpr):
            return lowered(closed).alone()
    return closed


def trace_program(
    fun_jit: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Program, Any]:
    """The program of a jitted function for these arguments, and what `trace` gives for them.

    Arguments whose shapes have symbolic dimensions give a program for all of them.
    """
    paths, tree = tree_util.tree_flatten_with_path((args, kwargs))
    names = ["args" + tree_util.keystr(path[1:]) for path, _ in paths]
    leaves = [leaf for _, leaf in paths]
    scope = scope_of(leaves, names)
    if scope is None:
        traced = fun_jit.trace(*args, **kwargs)
        if any(
            isinstance(v.aval, AbstractRef)
            for v in (*traced.jaxpr.jaxpr.constvars, *traced.jaxpr.jaxpr.invars)
        ):
            raise NotImplementedError(
                f"export: {traced.fun_name} takes references or closes over them: such a program "
                "can be called and compiled ahead of time, but not exported; let it take their "
                "values and return the new ones"
            )
        return FixedProgram(traced.jaxpr), traced

    def trace(sizes: dict[str, int]) -> Any:
        known = [_with_sizes(leaf, sizes) for leaf in leaves]
        positional, named = tree_util.tree_unflatten(tree, known)
        return fun_jit.trace(*positional, **named)

    _check_solvable(leaves, names)
    first = sample_sizes(scope, 1, _SMALL)[0]
    traced = trace(first)
    symbolic_leaves = iter(_dynamic(leaves, traced.jaxpr.in_avals, first))
    in_avals = [next(symbolic_leaves) for _ in traced.jaxpr.in_avals]
    return SymbolicProgram(scope, in_avals, lambda sizes: trace(sizes).jaxpr), traced


def _check_solvable(leaves: Sequence[Any], names: Sequence[str]) -> None:
    """ValueError if the shapes of arguments do not tell a symbolic dimension of theirs."""
    shapes = [tuple(getattr(leaf, "shape", ())) for leaf in leaves]
    dims: list[SymbolicDim] = [d for shape in shapes for d in shape if isinstance(d, SymbolicDim)]
    wanted = {n for d in dims for n in d.names}
    known: set[str] = set()
    for _ in wanted:
        for d in dims:
            unknown = set(d.names) - known
            if len(unknown) == 1 and [m for m in d.terms if unknown & variables({m: 1})] == [
                tuple(unknown)
            ]:
                known |= unknown
    if known != wanted:
        given = ", ".join(
            f"{n}.shape = {s}"
            for n, s in zip(names, shapes, strict=True)
            if any(isinstance(d, SymbolicDim) for d in s)
        )
        raise ValueError(
            f"Cannot solve for values of dimension variables {sorted(wanted - known)}. We can only "
            f"solve linear uni-variate constraints: each of them must be a size, or a multiple of "
            f"it and a number, where the others are known. Got {given}"
        )
    for constraint in dims[0].scope.constraints if dims else ():
        used = variables(constraint.left) | variables(constraint.right)
        defined = constraint.relation == "==" and len(used - known) == 1
        if not used <= known and not defined:
            raise ValueError(
                f"Encountered dimension variable '{min(used - known)}' in the constraint "
                f"{constraint.text!r}, and no shape of the arguments has it: they have "
                f"{sorted(known)}"
            )


def _with_sizes(leaf: Any, sizes: dict[str, int]) -> Any:
    """An argument with values for its symbolic dimensions."""
    shape = getattr(leaf, "shape", ())
    if not any(isinstance(d, SymbolicDim) for d in shape):
        return leaf
    known = tuple(d.value(sizes) if isinstance(d, SymbolicDim) else d for d in shape)
    weak, sharding = getattr(leaf, "weak_type", False), getattr(leaf, "sharding", None)
    return ShapeDtypeStruct(known, leaf.dtype, sharding=sharding, weak_type=weak)


def _dynamic(
    leaves: Sequence[Any], avals: Sequence[ShapedArray], sizes: dict[str, int]
) -> list[SymbolicAval]:
    """The types of the inputs with their symbolic dimensions; static arguments are left out."""
    found: list[SymbolicAval] = []
    rest = iter(leaves)
    for aval in avals:
        for leaf in rest:
            shape = tuple(getattr(leaf, "shape", ()))
            known = tuple(d.value(sizes) if isinstance(d, SymbolicDim) else d for d in shape)
            if known == aval.shape:
                found.append(SymbolicAval(shape, aval.dtype, aval.weak_type))
                break
    return found
