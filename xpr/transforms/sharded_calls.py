"""Calls of jitted functions that several devices run: their mesh, shardings and program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr import tree_util
from xpr.core.config import state
from xpr.dispatch.meshes import Places, needs_mesh, put_somewhere
from xpr.dispatch.placement import to_device
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.runtimes import processes
from xpr.runtimes.base import Device
from xpr.sharding import Mesh, NamedSharding, Sharding
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import ShapeDtypeStruct, TracedProgram, abstractify, debug_info

if TYPE_CHECKING:
    from xpr.core.jaxpr import ClosedJaxpr
    from xpr.dispatch.spmd import SpmdProgram
    from xpr.transforms.jit_programs import CallParts, ProgramBuilder


def is_sharded(function: ProgramBuilder, traced: TracedProgram, leaves: Sequence[Any]) -> bool:
    """Whether a call concerns several devices: by its arguments, its options or its program."""
    shardings = function._options.shardings
    return (
        any(isinstance(x, ShardedArrayImpl) for x in leaves)
        or (shardings is not None and shardings.mesh is not None)
        or traced.needs_mesh(needs_mesh)
        or state.meshes is not None
    )


def on_device(device: Device, traced: TracedProgram, parts: CallParts) -> CallParts:
    """A call of a function that `jit` was told to run on one device, with whole arrays there.

    As it is where types or the program itself name a mesh.
    """
    spread = [type(x) is ShardedArrayImpl and x.aval.sharding is None for x in parts.leaves]
    if not any(spread) or traced.needs_mesh(needs_mesh):
        return parts
    return parts.with_leaves(
        [to_device(x, device, True) if s else x for x, s in zip(parts.leaves, spread, strict=True)]
    )


def are_types_sharded(leaves: Sequence[Any]) -> bool:
    """Whether a type that stands for an argument (of `lower`) says that it is on a mesh."""
    return any(
        isinstance(x, ShapeDtypeStruct)
        and isinstance(x.sharding, NamedSharding)
        and isinstance(x.sharding.mesh, Mesh)
        for x in leaves
    )


def device_of_types(leaves: Sequence[Any], function: str, names: Sequence[str]) -> Device | None:
    """The one device on which a type that stands for an argument says that it is."""
    if not any(isinstance(x, ShapeDtypeStruct) and x.sharding is not None for x in leaves):
        return None
    places = Places(function)
    places.add_arguments(leaves, names)
    return places.devices[0] if len(places.devices) == 1 else None


def asked_shardings(
    function: ProgramBuilder, traced: TracedProgram, parts: CallParts
) -> tuple[Mesh | None, list[Sharding | None], list[Sharding | None]]:
    """The mesh of a call, and the shardings that arguments have or get, and results shall have.

    There is no mesh for a call that one device is to run.
    """
    leaves = parts.leaves
    if not is_sharded(function, traced, leaves) and not are_types_sharded(leaves):
        return None, [None] * len(leaves), [None] * len(traced.closed.out_avals)
    places, given_in, given_out = _asked(function, traced, parts)
    name = name_of(function._fun)
    wanted = [_argument(name, x, s) for x, s in zip(leaves, given_in, strict=True)]
    return places.chosen(), wanted, given_out


def _asked(
    function: ProgramBuilder, traced: TracedProgram, parts: CallParts
) -> tuple[Places, list[Sharding | None], list[Sharding | None]]:
    """Where a call is to run, and what `in_shardings` and `out_shardings` say."""
    name = name_of(function._fun)
    info = debug_info(function._fun, parts.tree, parts.static_args, "jit")
    options = function._options.shardings
    closed = traced.closed
    given_in: list[Sharding | None] = [None] * len(parts.leaves)
    given_out: list[Sharding | None] = [None] * len(closed.out_avals)
    places = Places(name)
    if options is not None:
        given_in, given_out = options.of_call(parts, traced.out_tree, name)
        for s in given_in:
            if s is not None:
                places.add_sharding(s, "ARG_SHARDING")
        for s in given_out:
            if s is not None:
                places.add_sharding(s, "explicit output sharding")
    places.add_arguments(parts.leaves, info.arg_names)
    places.add_program(closed)
    device = function._options.device
    if device is not None and options is None and traced.needs_mesh(needs_mesh):
        places.add((device,), None, f"the device that jit of {name} was given")
    return places, given_in, given_out


def program_of(
    function: ProgramBuilder, traced: TracedProgram, parts: CallParts, *, compiled: bool = True
) -> SpmdProgram | None:
    """The program of a call, from the cache or made now; None if one device is to run it.

    Without `compiled` it is partitioned only. Raises ValueError for arguments that belong on other
    devices than the mesh, and for sizes that a sharding does not divide.
    """
    name = name_of(function._fun)
    places, given_in, given_out = _asked(function, traced, parts)
    mesh = places.chosen()
    if mesh is None:
        return None
    closed = traced.closed
    shardings = tuple(
        _argument(name, leaf, given) for leaf, given in zip(parts.leaves, given_in, strict=True)
    )
    key = ("spmd", id(traced), mesh, shardings, tuple(given_out), parts.donated)
    found = function._cache.programs.get(key)
    if found is None:
        _check_constants(name, closed)
        _check_sizes(
            shardings,
            closed.in_avals,
            name,
            "argument",
            lambda: debug_info(function._fun, parts.tree, parts.static_args, "jit").arg_names,
        )
        _check_sizes(given_out, closed.out_avals, name, "result", lambda: _names(traced.out_tree))
        from xpr.dispatch.spmd import SpmdProgram  # noqa: PLC0415  the partitioner is lazy

        program = SpmdProgram(
            closed,
            name,
            mesh,
            shardings,
            given_out,
            parts.donated,
            refinement=places.refinement(),
        )
        # The entry keeps `traced` alive, so that its id stays its own.
        found = function._cache.programs[key] = (program, traced)
    program: SpmdProgram = found[0]
    if compiled:
        program.load()
    return program


def _argument(function: str, leaf: Any, given: Sharding | None) -> Sharding | None:
    """How an argument is wanted: as `in_shardings` says, or as it is if it was put there."""
    own = put_somewhere(leaf)
    if given is None:
        return own
    if own is None:
        if processes.current is not None and isinstance(leaf, np.ndarray):
            _check_host(function, leaf, given)
        return given
    if not own.is_equivalent_to(given, len(leaf.shape)):
        raise ValueError(
            f"Sharding passed to jit does not match the sharding on the respective arg of "
            f"{function}. Got jit sharding: {given},\narg sharding: {own} for arg type: "
            f"{abstractify(leaf)}"
        )
    return own


def _check_host(function: str, leaf: np.ndarray[Any, Any], given: Sharding) -> None:
    """ValueError for a NumPy array that would be cut over processes: it may differ between them."""
    if not given.is_fully_addressable and not given.is_fully_replicated:
        raise ValueError(
            f"Passing non-trivial shardings for numpy inputs is not allowed: {function} got "
            f"{abstractify(leaf).str_short()} for {given}. To fix this error, either specify a "
            "replicated sharding explicitly or use `xpr.make_array_from_process_local_data(...)` "
            "to convert your host local numpy inputs to an xpr.Array which you can pass to jit. If "
            "the numpy input is the same on each process, then you can use "
            "`xpr.make_array_from_callback(...)` or `xpr.device_put(...)`."
        )


def _check_constants(function: str, closed: ClosedJaxpr) -> None:
    """RuntimeError for an array of several processes that a function closes over."""
    for c in closed.consts:
        if type(c) is ShardedArrayImpl and not c.is_fully_addressable:
            raise RuntimeError(
                "Closing over xpr.Array that spans non-addressable (non process local) devices is "
                f"not allowed. Please pass such arrays as arguments to {function}. Got xpr.Array: "
                f"{c.aval.str_short()}"
            )


def _names(tree: Any) -> list[str]:
    """What one writes after the name of a tree for each of its leaves."""
    numbers = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path(numbers)[0]]


def _check_sizes(
    shardings: Sequence[Sharding | None],
    avals: Sequence[Any],
    function: str,
    kind: str,
    names: Callable[[], Sequence[str]],
) -> None:
    """ValueError, with a note of which one, for a size that its sharding does not divide."""
    for i, (sharding, aval) in enumerate(zip(shardings, avals, strict=True)):
        if sharding is None:
            continue
        try:
            sharding.shard_shape(aval.shape)
        except ValueError as error:
            found = names()
            which = found[i] if i < len(found) else ""
            error.add_note(" ".join(filter(None, ("for the", kind, which, "of", function))))
            raise
