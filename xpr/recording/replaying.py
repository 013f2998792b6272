"""`replay`: a recorded call, evaluated again by the reference rules, up to a step to look at."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr
from xpr.interpreters.origins import find_origins
from xpr.interpreters.walk import Array, Step, Walker, arrays_for
from xpr.interpreters.walk_text import array_text, described, place_text
from xpr.recording.calls import Recording
from xpr.recording.conditions import Condition, matcher
from xpr.recording.names import values_by_name
from xpr.recording.parting import first_difference


class _StopError(Exception):
    """A walk has reached the step that was looked for."""


class Replay:
    """A call that was run again, and the step at which it stopped.

    >>> import tempfile, pathlib, xpr, xpr.numpy as jnp
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.xprrec"
    >>> with xpr.record(path):
    ...     y = xpr.jit(lambda x: jnp.sqrt(x - 2) + 1)(jnp.float32(1))
    >>> found = xpr.replay(path)
    >>> found.why, found.step.eqn.primitive.name, found.step.operands[0].item()
    ('the first nan that reaches the results', 'sqrt', -1.0)
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        args: Sequence[Array],
        step: Step | None,
        why: str,
        results: list[Array],
        since: Step | None = None,
    ) -> None:
        self.closed = closed
        self.args = list(args)
        self.step = step
        """The step at which the replay stopped; None where nothing was found."""
        self.why = why
        self.results = results
        """The results of the program, if it ran to its end."""
        self.since = since
        """Of a NaN that was made of an infinity, the step that made that one."""

    @property
    def values(self) -> dict[str, Array]:
        """The values at the step by name: your variables, and the letters of the jaxpr."""
        return {} if self.step is None else values_by_name(self.step.frame)

    def __str__(self) -> str:
        if self.step is None:
            lines = [
                self.why,
                *(f"result {i}: {array_text(r)}" for i, r in enumerate(self.results)),
            ]
            return "\n".join(lines)
        lines = [self.why, *described(self.step, np.asarray)]
        if self.since is not None:
            lines.append(f"its operand is infinite since {place_text(self.since)}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The step for notebooks: its place, a table of its values, the chain around it."""
        if self.step is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        rows = "".join(
            f"<tr><td><code>{html.escape(name)}</code></td>"
            f"<td><code>{html.escape(array_text(np.asarray(value)))}</code></td></tr>"
            for name, value in self.values.items()
        )
        return (
            f"<pre>{html.escape(str(self))}</pre><details><summary>values</summary>"
            f"<table>{rows}</table></details>"
        )

    def debug(self) -> None:
        """An interactive session at the step, with the commands of `pdb`."""
        from xpr.recording.session import Session  # noqa: PLC0415  only for a session

        Session(self.closed, self.args, self.step).run()

    def shrink(self, path: str | os.PathLike[str]) -> str:
        """Writes a Python file of at most 25 lines that still shows the step; returns its text.

        Raises ValueError where the replay stopped at no step that makes a NaN or an infinity.
        """
        from xpr.recording.shrinking import shrunk  # noqa: PLC0415  rarely asked for

        text = shrunk(self.step)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return text


def replay(
    source: str | os.PathLike[str] | Recording,
    *,
    args: Sequence[Any] = (),
    at: str | None = None,
    iteration: int | None = None,
    condition: Condition | None = None,
    against: str | None = None,
) -> Replay:
    """Runs a recorded call again, equation by equation, and stops where something is to be seen.

    Without more, that is the operation that made the first NaN, or else infinity, that reaches the
    results and was not in the arguments. `at="model.py:42"` stops at a line, `iteration=317` at
    that iteration of a loop, `condition` where an expression such as `"isnan(loss)"` on values by
    name is true, or a function of the step; several together must all hold. `against="cpu"` names
    the device whose compiled operations are compared one by one with the reference rules: it stops
    at the first whose results differ by more than rounding explains.

    `args` are the arrays of which the file holds the digests alone. Callbacks are not called again.
    Raises RecordingError for a damaged file, ValueError for missing arguments and for a program
    that could only be recorded as text.

    >>> import tempfile, pathlib, xpr, xpr.numpy as jnp
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.xprrec"
    >>> def loop(x):
    ...     return xpr.lax.scan(lambda c, _: (jnp.log(c), None), x, length=5)[0]
    >>> with xpr.record(path):
    ...     y = xpr.jit(loop)(jnp.float32(2))
    >>> print(xpr.replay(path).step.frame.label)
    iteration 2 of scan
    """
    recording = source if isinstance(source, Recording) else Recording.load(source)
    if recording.closed is None:
        raise ValueError(
            f"{recording.name} cannot be replayed: {recording.document['refused']}; its text is "
            "recording.document['text']"
        )
    return replay_program(
        recording.closed,
        recording.with_args(args),
        at=at,
        iteration=iteration,
        condition=condition,
        against=against,
    )


def replay_program(
    closed: ClosedJaxpr,
    args: Sequence[Array],
    *,
    at: str | None = None,
    iteration: int | None = None,
    condition: Condition | None = None,
    against: str | None = None,
) -> Replay:
    """As `replay`, of a program and its arguments."""
    args = arrays_for(closed, args)
    with override("debug_nans", False), override("debug_infs", False):
        if against is not None:
            step, results = first_difference(closed, args, against)
            why = "no operation differs by more than rounding"
            if step is not None:
                why = f"the first operation whose results on {against} differ from the reference"
            return Replay(closed, args, step, why, results)
        if at is not None or iteration is not None or condition is not None:
            return _searched(closed, args, at, iteration, condition)
        return _first_made(closed, args)


def _first_made(closed: ClosedJaxpr, args: Sequence[Array]) -> Replay:
    found, steps = find_origins(closed, args)
    results = [r.array for r in found]
    for what in ("nan", "inf"):
        numbers = [n for r in found if (n := getattr(r, what)) is not None]
        if not numbers:
            continue
        step = steps.get(min(numbers))
        if step is None:
            return Replay(closed, args, None, f"the {what} came with an argument", results)
        infinite = min((o.inf for o in step.operands if o.inf is not None), default=-1)
        since = steps.get(infinite) if what == "nan" else None
        for made in {id(s): s for s in (step, since) if s is not None}.values():
            _take_arrays(made)
        why = f"the first {what} that reaches the results"
        return Replay(closed, args, step, why, results, since)
    return Replay(closed, args, None, "no NaN or infinity reaches the results", results)


def _take_arrays(step: Step) -> None:
    """Leaves arrays in the step and the frames around it, without their origins."""
    step.operands = [getattr(o, "array", o) for o in step.operands]
    step.results = [getattr(r, "array", r) for r in step.results or ()]
    for frame in step.frame.chain():
        frame.env = {v: getattr(x, "array", x) for v, x in frame.env.items()}


def _searched(
    closed: ClosedJaxpr,
    args: Sequence[Array],
    at: str | None,
    iteration: int | None,
    condition: Condition | None,
) -> Replay:
    wanted = matcher(at, iteration, condition)
    stopped: list[Step] = []

    def after(step: Step) -> None:
        if wanted(step):
            stopped.append(step)
            raise _StopError

    try:
        results = Walker(after=after).run(closed, args)
    except _StopError:
        return Replay(closed, args, stopped[0], "stopped as asked", [])
    return Replay(closed, args, None, "no step is as asked", results)
