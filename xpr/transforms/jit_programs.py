"""The programs of a jitted function: traced, and compiled once per device, from the caches.

`ProgramBuilder` knows a function and the options that `jit` was given. It takes calls apart, traces
the function at their types and compiles what was traced; `jit.py` calls the results, `stages.py`
hands them out one by one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.errors import shown
from xpr.core.extended_array import base_of, with_type
from xpr.core.references import belongs_to_trace
from xpr.core.trace import Trace, context
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.placement import common_device
from xpr.runtimes.base import Device
from xpr.transforms.shardings import Shardings
from xpr.transforms.signature import ArgumentRoles, name_of, places, source_of
from xpr.transforms.tracing import TracedProgram, argument_aval, debug_info, trace_function


class JitOptions:
    """What `jit` was told about a function."""

    __slots__ = ("device", "inline", "keep_unused", "roles", "shardings")

    def __init__(
        self,
        roles: ArgumentRoles,
        keep_unused: bool,
        inline: bool,
        device: Device | None,
        shardings: Shardings | None = None,
    ) -> None:
        self.roles = roles
        self.keep_unused = keep_unused
        self.inline = inline
        self.device = device if shardings is None else shardings.device
        self.shardings = shardings

    def key(self) -> tuple[Any, ...]:
        placed = None if self.shardings is None else self.shardings.key
        return (self.roles, self.keep_unused, self.inline, self.device, placed)


_KEPT = 16
"""So many programs are kept for the states of the mutable values that a function closes over."""


class CacheInfo:
    """Everything that was traced and compiled for one function with one set of options."""

    __slots__ = ("__weakref__", "calls", "fast", "native", "programs", "traced")

    def __init__(self) -> None:
        # For a key several only where the program depends on what mutable values are closed over.
        self.traced: dict[Any, tuple[TracedProgram, ...]] = {}
        self.programs: dict[Any, Any] = {}
        # How the next call of its kind finds its program: `jit.py` says what stands there.
        self.fast: dict[Any, Any] = {}
        self.calls: dict[Any, Any] = {}
        self.native: Any = None  # the same for the native part

    def add(self, key: Any, traced: TracedProgram, others: Sequence[TracedProgram]) -> None:
        """Keeps a traced program beside the latest of the others of its key.

        The compiled programs of those that are not kept go as well.
        """
        self.traced[key] = (*others[1 - _KEPT :], traced)
        gone = {id(p) for old in others[: 1 - _KEPT] for p in old.forms()}
        if gone:
            entries = list(self.programs.items())
            self.programs = {k: p for k, p in entries if id(p[1]) not in gone}

    def count(self) -> int:
        """How many programs were traced, and are kept."""
        return sum(map(len, self.traced.values()))

    def clear(self) -> None:
        self.traced.clear()
        self.programs.clear()
        self.fast.clear()
        self.calls.clear()
        if self.native is not None:
            self.native.clear()


# jit(f) made twice shares its traces, as long as f lives.
_by_function: weakref.WeakKeyDictionary[Any, dict[Any, CacheInfo]] = weakref.WeakKeyDictionary()
all_caches: weakref.WeakSet[CacheInfo] = weakref.WeakSet()


def cache_for(fun: Any, options: JitOptions) -> CacheInfo:
    try:
        per_function = _by_function.setdefault(fun, {})
    except TypeError:  # not hashable, or no weak references
        per_function = {}
    cache = per_function.get(options.key())
    if cache is None:
        cache = per_function[options.key()] = CacheInfo()
        all_caches.add(cache)
    return cache


def _in_these_states(known: Sequence[TracedProgram]) -> TracedProgram | None:
    """Which of the programs for a key was traced for the mutable values as they are now."""
    if not Trace.any_high:
        return known[0] if known else None
    from xpr.core.high import states_agree  # noqa: PLC0415  only for high types

    return next((t for t in known if states_agree(t.closed)), None)


class CallParts:
    """One call taken apart: its dynamic leaves, their tree and the static arguments."""

    __slots__ = ("donated", "leaves", "static_args", "static_kwargs", "tree")

    def __init__(
        self,
        leaves: list[Any],
        tree: Any,
        static_args: dict[int, Any],
        static_kwargs: dict[str, Any],
        donated: tuple[int, ...],
    ) -> None:
        self.leaves = leaves
        self.tree = tree
        self.static_args = static_args
        self.static_kwargs = static_kwargs
        self.donated = donated

    def with_leaves(self, leaves: list[Any]) -> CallParts:
        """The same call with other values."""
        return CallParts(leaves, self.tree, self.static_args, self.static_kwargs, self.donated)


class SpmdEntry:
    """A program that runs on all devices of a mesh."""

    __slots__ = ("out_tree", "program", "single")

    def __init__(self, program: Any, out_tree: Any) -> None:
        self.program = program
        self.out_tree = out_tree
        self.single = tree_util.treedef_is_leaf(out_tree) and len(program.out_avals) == 1


class ElementEntry:
    """A program with arguments or results of extended dtypes, which is one of their numbers."""

    __slots__ = ("_numbers", "_types", "out_tree", "single")

    def __init__(self, entry: Any, types: Sequence[ShapedArray]) -> None:
        self._numbers = entry.program
        self._types = types
        self.out_tree = entry.out_tree
        self.single = entry.single

    def program(self, leaves: Sequence[Any]) -> list[Any]:
        out = self._numbers([base_of(x) for x in leaves])
        return [with_type(aval, x) for aval, x in zip(self._types, out, strict=True)]


class ProgramBuilder:
    """A function with the options of `jit`, and what was traced and compiled for it."""

    def __init__(self, fun: Callable[..., Any], options: JitOptions) -> None:
        self._fun = fun
        self._options = options
        self._cache = cache_for(fun, options)

    @property
    def options(self) -> JitOptions:
        return self._options

    def take_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallParts:
        """Separates static from dynamic arguments and flattens the dynamic ones."""
        roles = self._options.roles
        static_args = {i: args[i] for i in places(roles.static_argnums, len(args))}
        static_kwargs = {k: kwargs[k] for k in roles.static_argnames if k in kwargs}
        for place, value in (*static_args.items(), *static_kwargs.items()):
            try:
                hash(value)
            except TypeError as error:
                where = f"index {place}" if isinstance(place, int) else f"name {place!r}"
                raise ValueError(
                    "Non-hashable static arguments are not supported. An error occurred while "
                    f"trying to hash an object of type {type(value)}, {shown(value)}. The error "
                    f"was:\n{type(error).__name__}: {error}\nIt is the static argument ({where}) "
                    f"of the jitted function {name_of(self._fun)}."
                ) from None
        dynamic = (
            tuple(a for i, a in enumerate(args) if i not in static_args) if static_args else args
        )
        named = {k: v for k, v in kwargs.items() if k not in static_kwargs}
        leaves, tree = tree_util.tree_flatten((dynamic, named))
        donated = self._donated_leaves(args, named, static_args) if self._has_donation() else ()
        return CallParts(leaves, tree, static_args, static_kwargs, donated)

    def _has_donation(self) -> bool:
        return bool(self._options.roles.donate_argnums or self._options.roles.donate_argnames)

    def _donated_leaves(
        self, args: tuple[Any, ...], named: dict[str, Any], static_args: dict[int, Any]
    ) -> tuple[int, ...]:
        roles = self._options.roles
        donated = places(roles.donate_argnums, len(args))
        flags: list[bool] = []
        for i, a in enumerate(args):
            if i not in static_args:
                count = tree_util.tree_structure(a).num_leaves
                flags += [i in donated] * count
        for name in sorted(named):
            count = tree_util.tree_structure(named[name]).num_leaves
            flags += [name in roles.donate_argnames] * count
        return tuple(i for i, donated in enumerate(flags) if donated)

    def leaf_aval(self, parts: CallParts, index: int) -> ShapedArray:
        """The type of one leaf; TypeError that names the argument when it is no array."""
        return argument_aval(self._fun, parts.leaves, index, parts.tree, parts.static_args, "jit")

    def traced_program(self, parts: CallParts, avals: Sequence[ShapedArray]) -> TracedProgram:
        """The traced program for these types, from the cache or by running the function."""
        statics = (
            tuple((i, type(v), v) for i, v in parts.static_args.items()),
            tuple((k, type(v), v) for k, v in sorted(parts.static_kwargs.items())),
        )
        shardings = self._options.shardings
        if shardings is not None and shardings.mesh is not None:
            if any(a.is_high for a in avals):
                raise NotImplementedError(
                    f"jit of {name_of(self._fun)} with shardings takes no values of high types"
                )
            avals = shardings.typed(avals, tree_util.tree_unflatten(parts.tree, parts.leaves)[0])
        bound = context.axis_env, context.manual_axes, context.spmd_names
        key = ((state.trace_key, bound), parts.tree, statics, *avals)
        known = self._cache.traced.get(key, ())
        traced = _in_these_states(known)
        if traced is None:
            if state.no_tracing:
                raise RuntimeError(
                    f"tracing function {name_of(self._fun)} at {source_of(self._fun)} for `jit`, "
                    "but 'no_tracing' is set"
                )
            if state.explain_recompile:
                from xpr.transforms.cache_misses import log_cache_miss  # noqa: PLC0415  rarely asked

                names = debug_info(self._fun, parts.tree, parts.static_args, "jit").arg_names
                log_cache_miss(self._fun, list(self._cache.traced), key, names)
            traced = trace_function(
                self._fun,
                parts.tree,
                avals,
                static_args=parts.static_args,
                static_kwargs=parts.static_kwargs,
                traced_for="jit",
            )
            if shardings is not None:
                args = tree_util.tree_unflatten(parts.tree, list(avals))[0]
                out_tree = traced.out_tree
                out = tree_util.tree_unflatten(out_tree, list(traced.closed.out_avals))
                shardings.check_layouts(args, out)
            # A program that closed over another trace's values belongs to that trace alone.
            if not any(map(belongs_to_trace, traced.closed.consts)):
                self._cache.add(key, traced, known)
        return traced

    def program_for(
        self,
        traced: TracedProgram,
        device: Device,
        donated: tuple[int, ...],
        *,
        wait: bool = True,
    ) -> Any:
        """The compiled program of `traced` on `device`; without `wait` it may still be compiled."""
        key = (id(traced), device, donated)
        found = self._cache.programs.get(key)
        if found is None:
            from xpr.dispatch.compiled import CompiledProgram  # noqa: PLC0415  the compile path is lazy

            program = CompiledProgram(
                traced.closed,
                name_of(self._fun),
                device,
                donated,
                keep_unused=self._options.keep_unused,
                wait=wait,
            )
            # The entry keeps `traced` alive, so that its id stays its own.
            found = self._cache.programs[key] = (program, traced)
        if wait:
            found[0].finish()
        return found[0]

    def device_for(
        self, traced: TracedProgram, parts: CallParts, otherwise: Device | None = None
    ) -> Device:
        """Where a call runs: `otherwise`, or on the default device, if nothing says it.

        Raises ValueError for arguments that belong on different devices.
        """
        options = self._options
        if options.device is None or options.shardings is not None:
            several = {a.device for a in parts.leaves if type(a) is ArrayImpl and a._committed}
            names: Sequence[str] = ()
            if len(several) > 1 or options.shardings is not None:
                names = debug_info(self._fun, parts.tree, parts.static_args, "jit").arg_names
            if options.shardings is not None:
                args, named = tree_util.tree_unflatten(parts.tree, parts.leaves)
                options.shardings.check_arguments(
                    args, named, parts.leaves, names, name_of(self._fun)
                )
                options.shardings.check_results(traced.out_tree)
            if options.device is None:
                device, chosen = common_device(parts.leaves, name_of(self._fun), names)
                return device if chosen or otherwise is None else otherwise
        return options.device
