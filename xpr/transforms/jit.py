"""`jit`: trace once per signature, compile once per device, then call.

The fast path of a call is `JittedFunction.__call__`: it looks at each argument once, makes one
dictionary look-up and invokes the executable. Calls with pytrees, keywords, NumPy values and
donation go through `_general_call`, a look-up by structure and types; the first call of its kind,
static arguments and calls under another trace take `_slow_call`.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.errors import shown
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.trace import Tracer, context, get_aval, is_valid_value
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.eager import eager_trace
from xpr.dispatch.placement import committed, common_device, default_device
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.primitives.call import jit_p
from xpr.runtimes.base import Device
from xpr.transforms import memory_calls, sharded_calls
from xpr.transforms.constraints import constrained_as
from xpr.transforms.shardings import UNSPECIFIED, Shardings, requested
from xpr.transforms.signature import (
    ArgumentRoles,
    argument_roles,
    name_of,
    places,
    source_of,
    takes_keyword,
)
from xpr.transforms.tracing import (
    TracedProgram,
    abstractify,
    check_callable,
    debug_info,
    trace_function,
)


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


class CacheInfo:
    """Everything that was traced and compiled for one function with one set of options."""

    __slots__ = ("__weakref__", "calls", "fast", "programs", "traced")

    def __init__(self) -> None:
        self.traced: dict[Any, TracedProgram] = {}
        self.programs: dict[Any, Any] = {}
        self.fast: dict[Any, _Entry] = {}
        self.calls: dict[Any, _Entry | _SpmdEntry] = {}

    def clear(self) -> None:
        self.traced.clear()
        self.programs.clear()
        self.fast.clear()
        self.calls.clear()


# jit(f) made twice shares its traces, as long as f lives.
_by_function: weakref.WeakKeyDictionary[Any, dict[Any, CacheInfo]] = weakref.WeakKeyDictionary()
_all_caches: weakref.WeakSet[CacheInfo] = weakref.WeakSet()


def _cache_for(fun: Any, options: JitOptions) -> CacheInfo:
    try:
        per_function = _by_function.setdefault(fun, {})
    except TypeError:  # not hashable, or no weak references
        per_function = {}
    cache = per_function.get(options.key())
    if cache is None:
        cache = per_function[options.key()] = CacheInfo()
        _all_caches.add(cache)
    return cache


class _Entry:
    """A compiled program that takes exactly the arrays of the call and nothing else."""

    __slots__ = (
        "committed",
        "device",
        "executable",
        "is_default",
        "out_avals",
        "out_tree",
        "program",
        "single",
    )

    def __init__(self, program: Any, out_tree: Any, fixed: bool) -> None:
        self.program = program
        self.executable = program.executable
        self.device = program.device
        # Whether work that no argument committed to a device belongs on this one, too.
        self.is_default = fixed or program.device is default_device()
        self.committed = fixed
        self.out_avals = tuple(program.out_avals)
        self.out_tree = out_tree
        self.single = tree_util.treedef_is_leaf(out_tree) and len(self.out_avals) == 1


class _SpmdEntry:
    """A program that runs on all devices of a mesh."""

    __slots__ = ("out_tree", "program", "single")

    def __init__(self, program: Any, out_tree: Any) -> None:
        self.program = program
        self.out_tree = out_tree
        self.single = tree_util.treedef_is_leaf(out_tree) and len(program.out_avals) == 1


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


class JittedFunction:
    """A function that is traced and compiled when it is first called with new types."""

    def __init__(self, fun: Callable[..., Any], options: JitOptions) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._options = options
        self._cache = _cache_for(fun, options)
        self._fast = self._cache.fast
        self._calls = self._cache.calls
        roles = options.roles
        placed = options.shardings is not None and options.shardings.mesh is None
        self._has_static = bool(
            roles.static_argnums or roles.static_argnames or options.device or placed
        )

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if context.trace is not eager_trace:
            return self._slow_call(args, kwargs, None)
        if kwargs:
            return self._general_call(args, kwargs)
        key: list[Any] = [state.trace_key]
        buffers = []
        device: Any = None
        committed = False
        for a in args:
            if type(a) is not ArrayImpl:
                return self._general_call(args, kwargs)
            key.append(a.aval)
            buffer = a._buffers[0]
            buffers.append(buffer)
            if device is not buffer.device:
                if device is not None:
                    return self._general_call(args, kwargs)
                device = buffer.device
            if a._committed:
                committed = True
        key.append(device)
        entry = self._fast.get(tuple(key))
        if entry is None or not (committed or entry.is_default):
            return self._general_call(args, kwargs)
        results = entry.executable(buffers)
        committed = committed or entry.committed
        if entry.single:
            return ArrayImpl(entry.out_avals[0], (results[0],), committed)
        return entry.out_tree.unflatten(
            [ArrayImpl(t, (b,), committed) for t, b in zip(entry.out_avals, results, strict=True)]
        )

    def _general_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with any arguments: found again by their structure, types and static values."""
        if not self._has_static:
            leaves, tree_key = tree_util.flatten_args_key(args, kwargs)
            device: Any = None
            key: list[Any] = [state.trace_key, tree_key]
            for leaf in leaves:
                kind = type(leaf)
                if kind is ArrayImpl:
                    key.append(leaf.aval)
                    if leaf._committed:
                        found = leaf._buffers[0].device
                        if device is not None and device is not found:
                            return self._slow_call(args, kwargs, None)  # raises
                        device = found
                elif kind is ShardedArrayImpl:
                    key.append((leaf.aval, leaf._sharding))
                elif kind is np.ndarray:
                    key.append((leaf.shape, leaf.dtype))
                elif kind is float or kind is int or kind is bool or kind is complex:
                    key.append(kind)
                else:
                    return self._slow_call(args, kwargs, None)
            key.append(device)
            entry = self._calls.get(tuple(key))
            if entry is not None:
                out = entry.program(leaves)
                return out[0] if entry.single else entry.out_tree.unflatten(out)
            return self._slow_call(args, kwargs, tuple(key))
        return self._slow_call(args, kwargs, None)

    def _slow_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], call_key: tuple[Any, ...] | None
    ) -> Any:
        if state.disable_jit:
            return self._fun(*args, **kwargs)
        parts = self.take_apart(args, kwargs)
        avals = [self.leaf_aval(parts, i) for i in range(len(parts.leaves))]
        traced = self.traced_program(parts, avals)
        if context.trace is not eager_trace or any(isinstance(x, Tracer) for x in parts.leaves):
            out = self._bind(traced, parts)
        else:
            out = self._run(traced, parts, args if not kwargs else None, call_key)
        return tree_util.tree_unflatten(traced.out_tree, out)

    def _bind(self, traced: TracedProgram, parts: CallParts) -> Sequence[Any]:
        closed, extra = traced.hoisted
        leaves: Sequence[Any] = parts.leaves
        outputs: Sequence[Any] | None = None
        shardings = self._options.shardings
        if shardings is not None and shardings.mesh is not None:
            # Inside another program the shardings of arguments and results are constraints.
            inputs, outputs = shardings.of_call(parts, traced.out_tree, name_of(self._fun))
            leaves = [constrained_as(x, s) for x, s in zip(leaves, inputs, strict=True)]
        operands = [*extra, *leaves]
        if self._options.inline:
            found = eval_jaxpr(closed.jaxpr, closed.consts, *operands)
        else:
            donated = set(parts.donated)
            found = jit_p.bind(
                *operands,
                jaxpr=closed,
                name=name_of(self._fun),
                donated_invars=(False,) * len(extra)
                + tuple(i in donated for i in range(len(leaves))),
                inline=False,
                keep_unused=self._options.keep_unused,
            )
        if outputs is None:
            return found
        return [constrained_as(x, s) for x, s in zip(found, outputs, strict=True)]

    def _run(
        self,
        traced: TracedProgram,
        parts: CallParts,
        plain: tuple[Any, ...] | None,
        call_key: tuple[Any, ...] | None,
    ) -> Sequence[Any]:
        shardings = self._options.shardings
        if memory_calls.is_concerned(shardings, traced, parts.leaves):
            return memory_calls.call(
                lambda p: self._run_on_devices(traced, p, None, None),
                shardings,
                traced,
                parts,
                name_of(self._fun),
            )
        return self._run_on_devices(traced, parts, plain, call_key)

    def _run_on_devices(
        self,
        traced: TracedProgram,
        parts: CallParts,
        plain: tuple[Any, ...] | None,
        call_key: tuple[Any, ...] | None,
    ) -> Sequence[Any]:
        if sharded_calls.is_sharded(self, traced, parts.leaves):
            spmd = sharded_calls.program_of(self, traced, parts)
            if spmd is not None:
                if call_key is not None and len(call_key) == len(parts.leaves) + 3:
                    self._calls[call_key] = _SpmdEntry(spmd, traced.out_tree)
                return spmd(parts.leaves)
        fixed = self._options.device is not None
        device = self.device_for(traced, parts)
        program = self.program_for(traced, device, parts.donated)
        out = program(parts.leaves)
        if fixed:
            out = [committed(a) for a in out]
        entry = _Entry(program, traced.out_tree, fixed)
        # Some nodes (deques, say) have other leaves under the quick key than in truth.
        if call_key is not None and len(call_key) == len(parts.leaves) + 3:
            self._calls[call_key] = entry
        if plain is not None and program.simple and not parts.static_args:
            key = _plain_key(plain, device)
            if key is not None and not (state.debug_nans or state.debug_infs):
                self._fast[key] = entry
        return out

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

    # ---- stages, also used by `trace`, `lower` and `compile`

    def take_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallParts:
        """Separates static from dynamic arguments and flattens the dynamic ones."""
        roles = self._options.roles
        static_args = {i: args[i] for i in places(roles.static_argnums, len(args))}
        static_kwargs = {k: kwargs[k] for k in roles.static_argnames if k in kwargs}
        for place, value in (*static_args.items(), *static_kwargs.items()):
            try:
                hash(value)
            except TypeError:
                where = f"index {place}" if isinstance(place, int) else f"name {place!r}"
                raise ValueError(
                    "Non-hashable static arguments are used in a jit function: static argument "
                    f"({where}) of type {type(value)} for function {name_of(self._fun)} is "
                    f"non-hashable: {shown(value)}"
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
        leaf = parts.leaves[index]
        try:
            return get_aval(leaf) if is_valid_value(leaf) else abstractify(leaf)
        except TypeError as error:
            info = debug_info(self._fun, parts.tree, parts.static_args, "jit")
            raise TypeError(
                f"Error interpreting argument to {name_of(self._fun)} as an abstract array. The "
                "problematic value is "
                f"of type {type(leaf)} and was passed to the function at path "
                f"{info.arg_names[index]}: {error}\n"
                "This typically means that a jit-wrapped function was called with a non-array "
                "argument, and this "
                "argument was not marked as static using the static_argnums or static_argnames "
                "parameters of jit."
            ) from None

    def traced_program(self, parts: CallParts, avals: Sequence[ShapedArray]) -> TracedProgram:
        """The traced program for these types, from the cache or by running the function."""
        statics = (
            tuple((i, type(v), v) for i, v in parts.static_args.items()),
            tuple((k, type(v), v) for k, v in sorted(parts.static_kwargs.items())),
        )
        shardings = self._options.shardings
        if shardings is not None and shardings.mesh is not None:
            avals = shardings.typed(avals, tree_util.tree_unflatten(parts.tree, parts.leaves)[0])
        bound = context.axis_env, context.manual_axes
        key = ((state.trace_key, bound), parts.tree, statics, *avals)
        traced = self._cache.traced.get(key)
        if traced is None:
            if state.no_tracing:
                raise RuntimeError(
                    f"tracing function {name_of(self._fun)} at {source_of(self._fun)} for `jit`, "
                    "but 'no_tracing' is set"
                )
            if state.explain_recompile and self._cache.traced:
                warnings.warn(self._explain(key, parts), stacklevel=4)
            traced = trace_function(
                self._fun,
                parts.tree,
                avals,
                static_args=parts.static_args,
                static_kwargs=parts.static_kwargs,
                traced_for="jit",
            )
            # A program that closed over another trace's values belongs to that trace alone.
            if not any(isinstance(c, Tracer) for c in traced.closed.consts):
                self._cache.traced[key] = traced
        return traced

    def program_for(self, traced: TracedProgram, device: Device, donated: tuple[int, ...]) -> Any:
        """The compiled program of `traced` on `device`."""
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
            )
            # The entry keeps `traced` alive, so that its id stays its own.
            found = self._cache.programs[key] = (program, traced)
        return found[0]

    def _explain(self, key: tuple[Any, ...], parts: CallParts) -> str:
        """What differs between this call and the most similar one seen before."""
        info = debug_info(self._fun, parts.tree, parts.static_args, "jit")
        best: list[str] | None = None
        for old in self._cache.traced:
            found = _differences(old, key, info.arg_names)
            if best is None or len(found) < len(best):
                best = found
        return (
            f"recompiling {name_of(self._fun)} ({source_of(self._fun)}), traced "
            f"{len(self._cache.traced)} time(s) before: "
            + "; ".join(best or ["nothing comparable was traced"])
        )

    # ---- ahead of time

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Traces without running: a `Traced` with the jaxpr; `.lower().compile()` go on from it."""
        from xpr.transforms.stages import Traced  # noqa: PLC0415  stages build on this class

        parts = self.take_apart(args, kwargs)
        avals = [self.leaf_aval(parts, i) for i in range(len(parts.leaves))]
        return Traced(self, parts, self.traced_program(parts, avals))

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Traces and lowers to StableHLO without running: a `Lowered`.

        For the default device, or for the platform that the keyword `platform` names ("cuda",
        say, on a machine without one), unless the function itself has an argument of that name;
        then `trace(...).lower(lowering_platforms=("cuda",))` says it.
        """
        if "platform" in kwargs and not takes_keyword(self._fun, "platform"):
            platform = kwargs.pop("platform")
            return self.trace(*args, **kwargs).lower(lowering_platforms=(platform,))
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result without computing it."""
        return self.trace(*args, **kwargs).out_info

    def save(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Compiles for the types of `args` and writes the `.vmfb` that runs without Python."""
        self.lower(*args, **kwargs).compile().save(path)

    def clear_cache(self) -> None:
        """Forgets what was traced and compiled for this function."""
        self._cache.clear()

    def _cache_size(self) -> int:
        return len(self._cache.traced)

    @property
    def options(self) -> JitOptions:
        return self._options

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Works as a method: `self` is the first argument."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jitted {self._fun!r}>"


def _plain_key(args: tuple[Any, ...], device: Device) -> tuple[Any, ...] | None:
    """The key of the fast path for such arguments: arrays on the program's device."""
    for a in args:
        if type(a) is not ArrayImpl or a._buffers[0].device is not device:
            return None
    return (state.trace_key, *(a.aval for a in args), device if args else None)


def _differences(old: tuple[Any, ...], new: tuple[Any, ...], names: Sequence[str]) -> list[str]:
    found = []
    if old[0] != new[0]:
        found.append("the configuration changed")
    if old[1] != new[1]:
        found.append(f"the arguments' structure changed from {old[1]} to {new[1]}")
        return found
    if old[2] != new[2]:
        for a, b in zip(old[2][0] + old[2][1], new[2][0] + new[2][1], strict=False):
            if a != b:
                found.append(f"static argument {b[0]} changed from {shown(a[2])} to {shown(b[2])}")
    for name, a, b in zip(names, old[3:], new[3:], strict=False):
        if a != b:
            weak = " (weakly typed)" if b.weak_type and not a.weak_type else ""
            was = " (weakly typed)" if a.weak_type and not b.weak_type else ""
            found.append(
                f"argument {name} changed from {a.str_short()}{was} to {b.str_short()}{weak}"
            )
    return found


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Iterable[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Device | None = None,
    backend: str | None = None,
    inline: bool = False,
) -> Any:
    """A compiled version of `fun`, a pure function of arrays and pytrees of arrays.

    `fun` is traced once for each combination of argument types and static values. Arguments in
    `static_argnums`/`static_argnames` are passed as they are and must be hashable; the buffers of
    those in `donate_argnums`/`donate_argnames` may be overwritten, after which the arrays raise
    when used. `keep_unused` keeps arguments that do not matter in the program; `inline` writes the
    program into the one that calls it; `device` or `backend` fixes where it runs, and so do
    `in_shardings` and `out_shardings`, prefixes of the trees of arguments and results whose leaves
    are shardings of one device, or None.

    Raises TypeError for arguments that are no arrays, ValueError for bad options and for arguments
    that were put on different devices.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jit(lambda x: x * 2)(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if fun is None:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
        )
    check_callable(fun, "jit")
    if device is not None and backend is not None:
        raise ValueError(
            f"jit takes a device or a backend, not both: got device={device!r} and "
            f"backend={backend!r}"
        )
    if backend is not None:
        from xpr.runtimes import registry  # noqa: PLC0415  only when a backend is named

        device = registry.first_device(backend)
    roles = argument_roles(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    shardings = requested(in_shardings, out_shardings, device)
    return JittedFunction(fun, JitOptions(roles, keep_unused, inline, device, shardings))


def clear_caches() -> None:
    """Forgets every traced and compiled program of this process; the disk cache stays."""
    import sys  # noqa: PLC0415  only to see what was loaded

    for cache in list(_all_caches):
        cache.clear()
    for name in ("xpr.dispatch.compiled", "xpr.dispatch.spmd_eager"):
        module = sys.modules.get(name)
        if module is not None:
            module.clear()
