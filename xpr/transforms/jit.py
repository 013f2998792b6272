"""`jit`: trace once per signature, compile once per device, then call.

The fast path of a call is `JittedFunction.__call__`: it looks at each argument once, makes one
dictionary look-up and invokes the executable. Calls with pytrees, keywords, NumPy values and
donation go through `_general_call`, a look-up by structure and types; the first call of its kind,
static arguments and calls under another trace take `_slow_call`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from xpr import tree_util
from xpr.core.aval import ShapedArray
from xpr.core.config import state, watching
from xpr.core.extended_array import ExtendedArray, base_of, with_type
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.references import Ref
from xpr.core.trace import Trace, Tracer, context
from xpr.core.tracebacks import filter_traceback
from xpr.core.wrapping import like
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.default_device import default_device
from xpr.dispatch.eager import eager_trace
from xpr.dispatch.placement import committed
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.runtimes.base import Device
from xpr.runtimes.extension import native
from xpr.transforms import memory_calls, saving, sharded_calls
from xpr.transforms.inline import Inline, while_tracing
from xpr.transforms.jit_programs import (
    CallParts,
    ElementEntry,
    JitOptions,
    ProgramBuilder,
    SpmdEntry,
    all_caches,
)
from xpr.transforms.shardings import UNSPECIFIED, requested
from xpr.transforms.signature import argument_roles, name_of, signature_of, takes_keyword
from xpr.transforms.tracing import TracedProgram, check_function

if TYPE_CHECKING:
    from xpr.transforms import ahead, stages
    from xpr.transforms.function_types import JitDecorator, JitKeywords, Jitted, P, R


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


def _checked(program: Any, traced: TracedProgram, parts: CallParts) -> Any:
    """The results of a program under `debug_nans` or `debug_infs`."""
    from xpr.dispatch.nonfinite_steps import checked_call  # noqa: PLC0415  rarely asked for

    return checked_call(program, traced.closed, parts.leaves, parts.donated)


def _is_whole(call_key: tuple[Any, ...], parts: CallParts) -> bool:
    """Whether a key has all leaves: some nodes (deques, say) have others under the quick key."""
    return len(call_key) == len(parts.leaves) + 3


class _Signature:
    """Gives the function's own to those that do not follow `__wrapped__`; the class has none."""

    def __get__(self, instance: JittedFunction | None, owner: type) -> inspect.Signature | None:
        if instance is None:
            raise AttributeError(f"{owner.__name__} has no signature of its own")
        return signature_of(instance.__wrapped__)


class JittedFunction(ProgramBuilder):
    """A function that is traced and compiled when it is first called with new types.

    >>> import xpr
    >>> double = xpr.jit(lambda x: 2 * x)
    >>> isinstance(double, xpr.stages.Wrapped)
    True
    """

    __wrapped__: Callable[..., Any]
    __signature__ = _Signature()

    def __init__(self, fun: Callable[..., Any], options: JitOptions) -> None:
        like(self, fun)
        super().__init__(fun, options)
        self._fast = self._cache.fast
        self._calls = self._cache.calls
        roles = options.roles
        placed = options.shardings is not None and options.shardings.mesh is None
        self._has_static = bool(
            roles.static_argnums or roles.static_argnames or options.device or placed
        )

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if context.trace is not eager_trace or watching.watcher is not None:
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
            outputs = zip(entry.out_avals, results, strict=True)
            return entry.out_tree.unflatten([ArrayImpl(t, (b,), committed) for t, b in outputs])
        except Exception as error:
            filter_traceback(error)
            raise  # leaves no frame of its own

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
                elif kind is ExtendedArray and type(leaf._base) is ArrayImpl:
                    key.append(leaf.aval)
                    if leaf.committed:
                        found = leaf.device
                        if device is not None and device is not found:
                            return self._slow_call(args, kwargs, None)  # raises
                        device = found
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
        references = traced.takes_references
        if references and self._options.shardings is not None:
            raise NotImplementedError("jit with shardings of a function that takes references")
        if references or (Trace.any_high and any(a.has_qdd for a in avals)):
            self._check_mutable(traced, parts, avals)
        if (
            references
            or context.trace is not eager_trace
            or any(isinstance(x, Tracer) for x in parts.leaves)
        ):
            out = self._bind(traced, parts)
        else:
            out = self._run(traced, parts, args, kwargs, call_key)
        return tree_util.tree_unflatten(traced.out_tree, out)

    def _check_mutable(
        self, traced: TracedProgram, parts: CallParts, avals: Sequence[ShapedArray]
    ) -> None:
        """Each mutable value is given once: two names of one place would be two values."""
        info = traced.closed.jaxpr.debug_info
        names: dict[int, str] = {}
        held = [id(c) for c in traced.closed.consts]
        for x, aval, name in zip(parts.leaves, avals, info.arg_names, strict=True):
            reference = isinstance(x, Ref)
            if not reference and not aval.has_qdd:
                continue
            kind = "mutable array" if reference else "mutable value"
            typed = f"{kind} reference" if reference else kind
            said = x.aval if reference else aval.str_short()
            if id(x) in names:
                raise ValueError(
                    f"only one reference to a {kind} may be passed as an argument to a "
                    f"function, but when tracing {info.describe()} for jit the "
                    f"{typed} of type {said} appeared at both {names[id(x)]} and {name}."
                )
            if id(x) in held:
                raise ValueError(
                    f"when tracing {info.describe()} for jit, a {typed} of type "
                    f"{said} was both closed over and passed as the argument {name}"
                )
            names[id(x)] = name

    def _bind(self, traced: TracedProgram, parts: CallParts) -> Sequence[Any]:
        closed, extra = traced.hoisted
        leaves: Sequence[Any] = parts.leaves
        outputs: Sequence[Any] | None = None
        shardings = self._options.shardings
        if shardings is not None and shardings.mesh is not None:
            # Inside another program the shardings of arguments and results are constraints.
            inputs, outputs = shardings.of_call(parts, traced.out_tree, name_of(self._fun))
            leaves = _constrained(leaves, inputs)
        operands = [*extra, *leaves]
        if self._options.inline:
            found = eval_jaxpr(closed.jaxpr, closed.consts, *operands)
        else:
            from xpr.primitives.call import jit_p  # noqa: PLC0415  in programs only

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
        return _constrained(found, outputs)

    def _run(
        self,
        traced: TracedProgram,
        parts: CallParts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call_key: tuple[Any, ...] | None,
    ) -> Sequence[Any]:
        watcher = watching.watcher
        if watcher is not None and not traced.takes_high:
            call = functools.partial(self._run_unwatched, traced, parts, args, kwargs, call_key)
            return watcher(name_of(self._fun), traced.physical.closed, parts, call)
        return self._run_unwatched(traced, parts, args, kwargs, call_key)

    def _run_unwatched(
        self,
        traced: TracedProgram,
        parts: CallParts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call_key: tuple[Any, ...] | None,
    ) -> Sequence[Any]:
        if traced.takes_high:
            return self._run_on_high_values(traced, parts)
        if traced.takes_elements:
            return self._run_on_elements(traced, parts, args, kwargs, call_key)
        traced = traced.physical
        if self._is_in_memories(traced, parts):
            return self._run_in_memories(traced, parts)
        out, entry = self._run_on_devices(traced, parts, call_key)
        plain = not kwargs and not parts.static_args
        if plain and isinstance(entry, _Entry) and entry.program.simple:
            key = _plain_key(args, entry.device)
            if key is not None:
                self._fast[key] = entry
        self._remember(args, kwargs, parts, entry)
        return out

    def _run_on_elements(
        self,
        traced: TracedProgram,
        parts: CallParts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call_key: tuple[Any, ...] | None,
    ) -> Sequence[Any]:
        """A call with arguments or results of extended dtypes, as one with their numbers."""
        numbers = parts.with_leaves([base_of(x) for x in parts.leaves])
        types = traced.closed.out_avals
        if self._is_in_memories(traced.physical, numbers):
            out = self._run_in_memories(traced.physical, numbers)
        else:
            out, entry = self._run_on_devices(traced.physical, numbers, None)
            whole = call_key if call_key is not None and _is_whole(call_key, parts) else None
            if whole is not None and isinstance(entry, _Entry):
                self._calls[whole] = ElementEntry(entry, types)
        self._remember(args, kwargs, parts, None)
        return [with_type(aval, x) for aval, x in zip(types, out, strict=True)]

    def _run_on_high_values(self, traced: TracedProgram, parts: CallParts) -> Sequence[Any]:
        """A call with arguments or results of high types, as one with the arrays in them."""
        from xpr.interpreters.high import call_lowered  # noqa: PLC0415  only for high types

        inner = traced.on_arrays

        def call(operands: Sequence[Any]) -> Sequence[Any]:
            leaves = [base_of(x) for x in operands] if inner.takes_elements else list(operands)
            numbers = CallParts(leaves, inner.in_tree, {}, {}, ())
            out = self._run_on_devices(inner.physical, numbers, None)[0]
            if not inner.takes_elements:
                return out
            types = inner.closed.out_avals
            return [with_type(aval, x) for aval, x in zip(types, out, strict=True)]

        return call_lowered(traced.lowered, parts.leaves, call)

    def _is_in_memories(self, traced: TracedProgram, parts: CallParts) -> bool:
        return memory_calls.is_concerned(self._options.shardings, traced, parts.leaves)

    def _run_in_memories(self, traced: TracedProgram, parts: CallParts) -> Sequence[Any]:
        return memory_calls.call(
            lambda p: self._run_on_devices(traced, p, None)[0],
            self._options.shardings,
            traced,
            parts,
            name_of(self._fun),
        )

    def _run_on_devices(
        self, traced: TracedProgram, parts: CallParts, call_key: tuple[Any, ...] | None
    ) -> tuple[Sequence[Any], _Entry | SpmdEntry | None]:
        """The results, and how later calls find their program."""
        if self._options.device is not None:
            parts = sharded_calls.on_device(self._options.device, traced, parts)
        checked = state.debug_nans or state.debug_infs
        if sharded_calls.is_sharded(self, traced, parts.leaves):
            spmd = sharded_calls.program_of(self, traced, parts)
            if spmd is not None:
                found = SpmdEntry(spmd, traced.out_tree)
                if checked:
                    return _checked(spmd, traced, parts), None
                if call_key is not None and _is_whole(call_key, parts):
                    self._calls[call_key] = found
                return spmd(parts.leaves), found
        fixed = self._options.device is not None
        device = self.device_for(traced, parts)
        racing = state.first_call == "race"
        program = self.program_for(traced, device, parts.donated, wait=not racing)
        if racing:
            program.race()
        if checked:
            out = _checked(program, traced, parts)
        else:
            out = program(parts.leaves)
        if fixed:
            out = [committed(a) for a in out]
        if program.pending is not None or checked:
            return out, None  # the next call looks again
        entry = _Entry(program, traced.out_tree, fixed)
        if call_key is not None and _is_whole(call_key, parts):
            self._calls[call_key] = entry
        return out, entry

    def _remember(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parts: CallParts,
        entry: _Entry | SpmdEntry | None,
    ) -> None:
        """Tells whoever looks calls up before this code how one was answered."""

    # ---- ahead of time

    def trace(self, *args: Any, **kwargs: Any) -> stages.Traced:
        """Traces without running: a `Traced` with the jaxpr; `.lower().compile()` go on from it."""
        from xpr.transforms.stages import Traced  # noqa: PLC0415  the compile path is lazy

        parts = self.take_apart(args, kwargs)
        avals = [self.leaf_aval(parts, i) for i in range(len(parts.leaves))]
        return Traced(self, parts, self.traced_program(parts, avals))

    def warm(self, *args: Any, **kwargs: Any) -> ahead.Warming:
        """Starts the compile for arguments of such types, in the background: a `Warming`.

        The arguments are arrays or `xpr.ShapeDtypeStruct`s, and static ones as they are. The first
        call waits for what is left of the compile. `xpr.compile_ahead` starts several together.

        >>> import xpr, xpr.numpy as jnp
        >>> double = xpr.jit(lambda x: x * 2)
        >>> warming = double.warm(xpr.ShapeDtypeStruct((3,), jnp.float32))
        >>> double(jnp.ones(3))
        Array([2., 2., 2.], dtype=float32)
        >>> warming.done()
        True
        """
        from xpr.transforms.ahead import warm  # noqa: PLC0415  the compile path is lazy

        return warm(self, args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> stages.Lowered:
        """Traces and lowers to StableHLO without running: a `Lowered`.

        For the default device, or for the platform that the keyword `platform` names ("cuda",
        say, on a machine without one), unless the function itself has an argument of that name;
        then `trace(...).lower(lowering_platforms=("cuda",))` says it.
        """
        if "platform" in kwargs and not takes_keyword(self._fun, "platform"):
            platform = kwargs.pop("platform")
            return self.trace(*args, **kwargs).lower(lowering_platforms=(platform,))
        return self.trace(*args, **kwargs).lower()

    def _with_asked_shardings(self, result: Any) -> Any:
        """Types of the result, with the places that `out_shardings` asks for."""
        shardings = self._options.shardings
        return result if shardings is None else shardings.told_in(result)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result without computing it."""
        return self._with_asked_shardings(self.trace(*args, **kwargs).out_info)

    def save(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Writes the `.vmfb` for the types of `args`; see `xpr.transforms.saving.save`."""
        saving.save(self, path, args, kwargs)

    def clear_cache(self) -> None:
        """Forgets what was traced and compiled for this function."""
        self._cache.clear()

    def _cache_size(self) -> int:
        return self._cache.count()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Works as a method: `self` is the first argument."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        try:
            return f"<PjitFunction of {self.__wrapped__!r}>"
        except Exception:  # of the function's own repr, which may be anything
            return "<PjitFunction>"


_JITTED: type[JittedFunction] = JittedFunction


def _is_plain(program: Any) -> bool:
    """Whether a call is one of the executable: its results are all, and it gives up donations."""
    if program.executable is None:
        return False
    if program.direct:
        return True
    routes = [("out", i) for i in range(len(program.out_avals))]
    return (
        program._routes == routes and program.in_place and set(program.donate) <= set(program.kept)
    )


_DIRECT = {ArrayImpl, float, int}
"""What the native part passes to its programs by itself."""

_NO_RESULT = (..., 1, None)
"""The results' tree of what is left to Python."""


def _results(tree: Any) -> tuple[Any, int, Any]:
    """The results' tree as the native part takes it."""
    count = tree.num_leaves
    return tree.unflatten([...] * count), count, tree.unflatten


if native().module is not None:
    _native: Any = native().module
    _native.learn_calls(context, eager_trace, state)

    class NativeJittedFunction(_native.NativeCall, JittedFunction):
        """A jitted function whose calls are looked up in C++ (`runtimes/native/bind_call.cpp`).

        What is not found there comes to `_answer_first_call`, which says how the next such call is
        answered, and what cannot be found there to `_call_in_python`.
        """

        def __init__(self, fun: Callable[..., Any], options: JitOptions) -> None:
            super().__init__(fun, options)
            if self._cache.native is None:
                self._cache.native = _native.CallCache()
            roles = options.roles
            names = frozenset(roles.static_argnames)
            _native.prepare(self, self._cache.native, roles.static_argnums, names)

        _call_in_python = JittedFunction.__call__

        def _answer_first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            try:
                return self._slow_call(args, kwargs, None)
            except Exception as error:
                filter_traceback(error)
                raise  # leaves no frame of its own

        def _remember(
            self,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            parts: CallParts,
            entry: _Entry | SpmdEntry | None,
        ) -> None:
            if watching.watcher is not None:
                return
            if isinstance(entry, SpmdEntry):
                from xpr.dispatch.spmd_alone import alone_program  # noqa: PLC0415  as `spmd`

                alone = alone_program(entry.program, parts.leaves)
                if alone is not None:
                    kept = range(len(parts.leaves))
                    _native.remember(
                        self, args, kwargs, "devices", alone.native, (), kept, alone.out_avals,
                        _results(entry.out_tree), None, True, True, ()
                    )  # fmt: skip
                    return
            if not isinstance(entry, _Entry):
                _native.remember(
                    self, args, kwargs, "python", None, (), (), (), _NO_RESULT, None, True, False,
                    ()
                )  # fmt: skip
                return
            program = entry.program
            kind, function, first, kinds = "program", program, (), ()
            kept: Sequence[int] = range(len(parts.leaves))
            found = {type(x) for x in parts.leaves}
            if _is_plain(program):
                direct = getattr(entry.executable, "direct_program", lambda: None)()
                if direct is not None and found <= _DIRECT:
                    kind, function = "direct", direct
                    signature = entry.executable.signature
                    donated = sorted({i for i, _ in signature.donations})
                    kinds = signature.inputs, signature.outputs, donated
                elif found <= {ArrayImpl}:
                    kind, function = "executable", entry.executable
            if kind != "program":
                first, kept = program._const_buffers, program.kept
            elif entry.committed:
                kind = "python"
            _native.remember(
                self, args, kwargs, kind, function, first, kept, entry.out_avals,
                _results(entry.out_tree), entry.device, entry.is_default, entry.committed, kinds
            )  # fmt: skip

    _JITTED = NativeJittedFunction


def _plain_key(args: tuple[Any, ...], device: Device) -> tuple[Any, ...] | None:
    """The key of the fast path for such arguments: arrays on the program's device."""
    for a in args:
        if type(a) is not ArrayImpl or a._buffers[0].device is not device:
            return None
    return (state.trace_key, *(a.aval for a in args), device if args else None)


class _GivenLater:
    """What `jit` has in place of a function where it makes a decorator."""

    def __repr__(self) -> str:
        return "<given later>"


_GIVEN_LATER = _GivenLater()


@overload
def jit(fun: Callable[P, R], /, **options: Unpack[JitKeywords]) -> Jitted[P, R]: ...
@overload
def jit(**options: Unpack[JitKeywords]) -> JitDecorator: ...
def jit(
    fun: Any = _GIVEN_LATER,
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
    inline: bool | Inline = False,
    compiler_options: Mapping[str, Any] | None = None,
) -> Any:
    """A compiled version of `fun`, a pure function of arrays and pytrees of arrays.

    `fun` is traced once for each combination of argument types and static values. Arguments in
    `static_argnums`/`static_argnames` are passed as they are and must be hashable; the buffers of
    those in `donate_argnums`/`donate_argnames` may be overwritten, after which the arrays raise
    when used. `keep_unused` keeps unneeded arguments in the program; `inline`, a bool or `Inline`,
    writes the program into its caller; `device` or `backend` fixes where it runs, and so do
    `in_shardings` and `out_shardings`, prefixes of the trees of arguments and results whose leaves
    are shardings of one device, or None. `compiler_options`, XLA's, only say that they do nothing.

    Raises TypeError for arguments that are no arrays, ValueError for bad options and for arguments
    that were put on different devices, RuntimeError for a compiler option that is not XLA's.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jit(lambda x: x * 2)(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if fun is _GIVEN_LATER:
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
            compiler_options=compiler_options,
        )
    check_function(fun, "jit")
    if compiler_options is not None:
        from xpr.transforms.compiler_options import check_compiler_options  # noqa: PLC0415

        check_compiler_options(compiler_options)
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
    return _JITTED(fun, JitOptions(roles, keep_unused, while_tracing(inline), device, shardings))


def _constrained(values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    from xpr.transforms.constraints import constrained_as  # noqa: PLC0415  few programs have any

    return [constrained_as(x, s) for x, s in zip(values, shardings, strict=True)]


def clear_caches() -> None:
    """Forgets every traced and compiled program of this process; the disk cache stays.

    >>> import xpr
    >>> xpr.clear_caches()
    """
    import sys  # noqa: PLC0415  only to see what was loaded

    for cache in list(all_caches):
        cache.clear()
    names = "dispatch.compiled dispatch.spmd_eager primitives.ffi transforms.checkpoint"
    for name in names.split():
        module = sys.modules.get(f"xpr.{name}")
        if module is not None:
            module.clear()
    if native().module is not None:
        native().module.forget_shardings()
