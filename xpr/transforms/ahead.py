"""Programs that are compiled before they are called, in the background and side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xpr.core.errors import shown
from xpr.core.extended_array import base_of
from xpr.transforms import sharded_calls
from xpr.transforms.jit_programs import ProgramBuilder


class Warming:
    """A program of a jitted function that is compiled in the background."""

    def __init__(self, program: Any = None) -> None:
        self._program = program

    def done(self) -> bool:
        """Whether the compiler has finished, so that a call need not wait for it."""
        pending = None if self._program is None else self._program.pending
        return pending is None or pending.is_done()

    def wait(self) -> None:
        """Waits until the program is ready.

        Raises `CompileError` if it cannot be compiled, as a call would.
        """
        if self._program is not None:
            self._program.finish()

    def __repr__(self) -> str:
        return f"<Warming: {'done' if self.done() else 'compiling'}>"


def warm(function: ProgramBuilder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Warming:
    """What `JittedFunction.warm` does.

    Programs for several devices are compiled before it returns.
    """
    parts = function.take_apart(args, kwargs)
    avals = [function.leaf_aval(parts, i) for i in range(len(parts.leaves))]
    traced = function.traced_program(parts, avals).physical
    parts = parts.with_leaves([base_of(x) for x in parts.leaves])
    if (
        sharded_calls.is_sharded(function, traced, parts.leaves)
        and sharded_calls.program_of(function, traced, parts) is not None
    ):
        return Warming()
    device = function.device_for(traced, parts)
    return Warming(function.program_for(traced, device, parts.donated, wait=False))


def compile_ahead(calls: Iterable[tuple[Any, ...]]) -> list[Warming]:
    """Starts the compiles of several programs together, in the background.

    Each call is a tuple of a jitted function and its arguments, which are arrays or
    `xpr.ShapeDtypeStruct`s. The programs are compiled side by side, as many as there are cores, and
    small ones in one module, which takes a quarter of the time of one after the other. A call of
    one of the functions waits for what is left of its own compile.

    Returns a `Warming` for each call: `done()` and `wait()`. Raises TypeError for what is no tuple
    of a jitted function and arguments, and what tracing raises.

    >>> import xpr, xpr.numpy as jnp
    >>> f, g = xpr.jit(lambda x: x + 1), xpr.jit(lambda x, y: x * y)
    >>> spec = xpr.ShapeDtypeStruct((2,), jnp.float32)
    >>> for warming in xpr.compile_ahead([(f, spec), (g, spec, spec)]):
    ...     warming.wait()
    >>> g(jnp.ones(2), f(jnp.ones(2)))
    Array([2., 2.], dtype=float32)
    """
    from xpr.lowering.iree import compiler  # noqa: PLC0415  the compile path is lazy

    calls = list(calls)
    for i, call in enumerate(calls):
        if not (isinstance(call, tuple) and call and isinstance(call[0], ProgramBuilder)):
            raise TypeError(
                "compile_ahead takes tuples of a jitted function and its arguments, got "
                f"{shown(call)} at index {i}"
            )
    with compiler.together():
        return [warm(call[0], call[1:], {}) for call in calls]
