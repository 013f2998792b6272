"""Evaluates an equation in parts, as its sharding rule says, by the reference rules in NumPy.

The devices of a small mesh run in lockstep. No engine of the library takes part: what it does with
a rule is written here a second time, as plainly as can be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Literal, Var
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.sharding.rule import REDUCTIONS, Axes, FactorRule, Factors, LocalShapes, Spec

Array = np.ndarray[Any, Any]
Choice = Mapping[int, Axes]
"""For factors that are sharded the mesh axes."""

_UFUNCS: dict[str, Any] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass(frozen=True)
class Mesh:
    """Named axes and their sizes; devices are numbered row-major."""

    sizes: Mapping[str, int]

    def places(self) -> list[dict[str, int]]:
        """Each device's index along each axis."""
        ranges = itertools.product(*map(range, self.sizes.values()))
        return [dict(zip(self.sizes, found, strict=True)) for found in ranges]

    def count(self, axes: Axes) -> int:
        """The devices along `axes`."""
        return math.prod(self.sizes[a] for a in axes)

    def index(self, place: Mapping[str, int], axes: Axes) -> int:
        """The row-major place along `axes`."""
        found = 0
        for a in axes:
            found = found * self.sizes[a] + place[a]
        return found

    def groups(self, axes: Axes) -> list[list[int]]:
        """The devices that differ along `axes` alone, in order of their place along them."""
        found: dict[tuple[tuple[str, int], ...], list[tuple[int, int]]] = {}
        for device, place in enumerate(self.places()):
            rest = tuple((a, i) for a, i in place.items() if a not in axes)
            found.setdefault(rest, []).append((self.index(place, axes), device))
        return [[device for _, device in sorted(group)] for group in found.values()]


def _place_primitive(name: str, abstract: Callable[..., ShapedArray]) -> Primitive:
    made = Primitive(name, "test")
    made.abstract = abstract
    return made


def _gathered(x: ShapedArray, *, dim: int, count: int, **_: Any) -> ShapedArray:
    shape = list(x.shape)
    shape[dim] *= count
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


_index_p = _place_primitive("place_index", lambda **_: ShapedArray((), np.dtype(np.int32)))
_reduce_p = _place_primitive("place_reduce", lambda x, **_: x)
_shift_p = _place_primitive("place_shift", lambda x, **_: x)
_exchange_p = _place_primitive("place_exchange", lambda x, **_: x)
_gather_p = _place_primitive("place_gather", _gathered)


class TracedPlace:
    """A `Place` whose methods become equations, which `_lockstep` evaluates."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def index(self, axes: Axes) -> Any:
        return _index_p.bind(axes=axes)

    def count(self, axes: Axes) -> int:
        return self.mesh.count(axes)

    def reduce(self, x: Any, axes: Axes, op: str) -> Any:
        assert op in REDUCTIONS
        return _reduce_p.bind(x, axes=axes, op=op)

    def shift(self, x: Any, axes: Axes, by: int) -> Any:
        return _shift_p.bind(x, axes=axes, by=by)

    def exchange_places(self, x: Any, axes: Axes, sources: Sequence[int]) -> Any:
        return _exchange_p.bind(x, axes=axes, sources=tuple(sources))

    def gather(self, x: Any, axes: Axes, dim: int) -> Any:
        return _gather_p.bind(x, axes=axes, dim=dim, count=self.mesh.count(axes))


def fold(parts: Sequence[Array], op: str) -> Array:
    """The reduction of the parts, in order and in their own type."""
    found = parts[0]
    for part in parts[1:]:
        found = _UFUNCS[op](found, part)
    return found


def _together(mesh: Mesh, name: str, params: dict[str, Any], xs: list[Array]) -> list[Array]:
    """What the devices get from a collective."""
    axes = params["axes"]
    if name == "place_index":
        return [np.asarray(mesh.index(p, axes), np.int32) for p in mesh.places()]
    found: dict[int, Array] = {}
    for group in mesh.groups(axes):
        parts = [xs[d] for d in group]
        for i, d in enumerate(group):
            if name == "place_reduce":
                found[d] = fold(parts, params["op"])
            elif name == "place_exchange":
                found[d] = parts[params["sources"][i]]
            elif name == "place_gather":
                found[d] = np.concatenate(parts, axis=params["dim"])
            else:
                source = i - params["by"]
                inside = 0 <= source < len(parts)
                found[d] = parts[source] if inside else np.zeros_like(parts[i])
    return [found[d] for d in range(len(xs))]


def reference(primitive: Primitive, args: Sequence[Array], params: dict[str, Any]) -> list[Array]:
    """The results of one primitive by its reference rule."""
    with np.errstate(all="ignore"):
        found = primitive.reference(*args, **params)
    return list(found) if primitive.multiple_results else [found]


def _lockstep(closed: ClosedJaxpr, mesh: Mesh, args: list[list[Array]]) -> list[list[Array]]:
    """A program run by each device on its own arguments; the results of each device."""
    jaxpr = closed.jaxpr
    devices = range(len(args))
    env: dict[Var, list[Array]] = {}
    for v, c in zip(jaxpr.constvars, closed.consts, strict=True):
        env[v] = [np.asarray(c) for _ in devices]
    for i, v in enumerate(jaxpr.invars):
        env[v] = [args[d][i] for d in devices]

    def read(atom: Any) -> list[Array]:
        if isinstance(atom, Literal):
            return [np.asarray(atom.val, atom.aval.dtype) for _ in devices]
        return env[atom]

    for eqn in jaxpr.eqns:
        operands = [read(a) for a in eqn.invars]
        if eqn.primitive.family == "test":
            xs = operands[0] if operands else [np.zeros(())] * len(args)
            env[eqn.outvars[0]] = _together(mesh, eqn.primitive.name, eqn.params, xs)
            continue
        each = [reference(eqn.primitive, [o[d] for o in operands], eqn.params) for d in devices]
        for i, v in enumerate(eqn.outvars):
            env[v] = [np.asarray(found[i], v.aval.dtype) for found in each]
            assert all(x.shape == v.aval.shape for x in env[v]), eqn.primitive.name
    return [[read(v)[d] for v in jaxpr.outvars] for d in devices]


def spec_of(factors: Factors, choice: Choice) -> Spec:
    """The mesh axes of each axis of an array with these factors."""
    return tuple(tuple(a for f in axis for a in choice.get(f, ())) for axis in factors)


def local_shape(shape: Sequence[int], spec: Spec, mesh: Mesh) -> tuple[int, ...]:
    """The shape of one device's part."""
    return tuple(n // mesh.count(axes) for n, axes in zip(shape, spec, strict=True))


def cut(x: Array, spec: Spec, mesh: Mesh, place: Mapping[str, int]) -> Array:
    """The part of `x` that the device at `place` has."""
    index = []
    for n, axes in zip(x.shape, spec, strict=True):
        size = n // mesh.count(axes)
        start = mesh.index(place, axes) * size
        index.append(slice(start, start + size))
    return x[tuple(index)]


def is_possible(rule: FactorRule, choice: Choice, mesh: Mesh) -> bool:
    """Whether the engine may shard so: sizes divide, and axes are cut by their major factors."""
    for f, axes in choice.items():
        if f in rule.whole or rule.sizes[f] % mesh.count(axes):
            return False
    for factors in itertools.chain(*rule.operands, *rule.results):
        for i, f in enumerate(factors):
            before = factors[:i]
            if f in choice and any(mesh.count(choice.get(g, ())) != rule.sizes[g] for g in before):
                return False
    return True


def run_in_parts(
    primitive: Primitive,
    params: dict[str, Any],
    rule: FactorRule,
    args: Sequence[Array],
    out_avals: Sequence[ShapedArray],
    choice: Choice,
    mesh: Mesh,
) -> list[list[Array]]:
    """The results of each device."""
    specs = [spec_of(f, choice) for f in rule.operands]
    places = mesh.places()
    parts = [[cut(x, s, mesh, p) for x, s in zip(args, specs, strict=True)] for p in places]
    local = LocalShapes(
        tuple(x.shape for x in parts[0]),
        tuple(
            local_shape(a.shape, spec_of(f, choice), mesh)
            for a, f in zip(out_avals, rule.results, strict=True)
        ),
        tuple(choice.get(f, ()) for f in range(len(rule.sizes))),
    )
    if rule.apply is not None:
        apply, place = rule.apply, TracedPlace(mesh)
        closed = trace_to_jaxpr(
            lambda *xs: list(apply(place, xs, params, local)),
            [ShapedArray(x.shape, x.dtype) for x in parts[0]],
        )
        found = _lockstep(closed, mesh, parts)
    else:
        own = params if rule.localize is None else rule.localize(params, local)
        found = [reference(primitive, xs, own) for xs in parts]
    for shape, device in itertools.product(local.results, found):
        assert len(device) == len(local.results), shape
    over: dict[str, Axes] = {op: () for op in rule.reduced.values()}
    for f, op in rule.reduced.items():
        over[op] += choice.get(f, ())
    for op, axes in over.items():
        for group in mesh.groups(axes) if axes else []:
            for i in range(len(out_avals)):
                total = fold([found[d][i] for d in group], op)
                for d in group:
                    found[d][i] = total.astype(out_avals[i].dtype)
    return found


def choices(rule: FactorRule) -> list[tuple[Choice, Mesh]]:
    """Each factor sharded over one and over two mesh axes, and each two factors at once."""
    counts = {
        f: [c for c in (2, 3, 5, 7) if n and n % c == 0] or ([2] if n == 0 else [])
        for f, n in enumerate(rule.sizes)
    }
    found: list[tuple[Choice, Mesh]] = []
    for f, possible in counts.items():
        for c in possible[:2]:
            found.append(({f: ("x",)}, Mesh({"x": c})))
        for c in possible[:1]:
            if rule.sizes[f] % (2 * c) == 0:
                found.append(({f: ("y", "x")}, Mesh({"x": c, "y": 2})))
    for (f, cs), (g, ds) in itertools.permutations(counts.items(), 2):
        if cs and ds:
            found.append(({f: ("x",), g: ("y",)}, Mesh({"x": cs[0], "y": ds[0]})))
        if rule.sizes[f] in (2, 3, 4, 6) and ds:
            # A minor factor can be sharded where the major ones are so entirely.
            found.append(({f: ("x",), g: ("y",)}, Mesh({"x": rule.sizes[f], "y": ds[0]})))
    return [(c, m) for c, m in found if is_possible(rule, c, m)]
