"""The processes of a mesh compare the program that they are about to run, and compile it once.

Before a program of several processes runs for the first time each of them tells the others a digest
of its text. Where these differ everybody raises, with the first lines that do. Then one process of
each machine compiles it, and the others take it from the disk cache.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.config import own_settings, state, with_settings
from xpr.core.errors import CompileError
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, sub_jaxprs
from xpr.runtimes import processes
from xpr.runtimes.collectives.base import Collective, CollectiveError
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.processes import Processes

if TYPE_CHECKING:
    from xpr.dispatch.spmd import SpmdProgram
    from xpr.dispatch.spmd_run import Runner

_BEAT = 5.0
"""Seconds after which processes that compile tell the others that they still do, at most."""

# What a text says of this process alone: where objects lie, and in which folder the program is.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SOURCE = re.compile(r"(collective=.* number \d+) \(.*\)$", re.M)
_SHOWN = 160
"""Characters of a line that messages show."""

_agreed: set[tuple[tuple[int, ...], bytes]] = set()
"""Programs that these processes were found to have in common: those need no second look."""

Load = Callable[[RankPlaces], "Runner"]


def load(program: SpmdProgram, run_by: Load) -> Runner:
    """The program as this process runs it, when all processes of its mesh have the same.

    Each of them has to call this, and raises CollectiveError if their programs differ, and
    PeerError for one that is gone.
    """
    together = processes.current
    owners = tuple(d.process_index for d in program.devices)
    members = tuple(sorted(set(owners)))
    assert together is not None  # who was never joined has no devices of others
    digest = _compared(program, together, members)
    mine = tuple(i for i, p in enumerate(owners) if p == together.index)
    places = RankPlaces(mine, owners, together, program.name)
    if (members, digest) in _agreed or program.interpreted:
        _agreed.add((members, digest))
        return run_by(places)
    runner = _compiled_once(program.name, lambda: run_by(places), together, members)
    _agreed.add((members, digest))
    return runner


# ---- one program


def _compared(program: SpmdProgram, together: Processes, members: Sequence[int]) -> bytes:
    """The digest of the program, which all `members` have."""
    text = "\n".join(_text(program))
    digest = hashlib.sha256(text.encode()).digest()
    if (tuple(members), digest) in _agreed:
        return digest
    found = together.gather(digest, what=_COMPARING, members=members)
    if len(set(found)) > 1:
        place = program.closed.jaxpr.debug_info.func_src
        texts = together.gather(f"{place}\n{text}".encode(), what=_COMPARING, members=members)
        raise CollectiveError(_differences(members, [t.decode() for t in texts]))
    return digest


_COMPARING = "the first call of a program of several processes"


def _text(program: SpmdProgram) -> Iterator[str]:
    """What the processes must have in common, line by line; what differs first is told first."""
    yield f"function {program.name}"
    yield f"{program.mesh} of the devices {[d.id for d in program.devices]}"
    for what, shardings in (("argument", program.in_shardings), ("result", program.out_shardings)):
        for i, sharding in enumerate(shardings):
            yield f"{what} {i}: {sharding}"
    yield f"donated: {program.donate}"
    yield f"settings: {state.trace_key}"
    yield from _lines("its program", program.closed)
    for i, value in enumerate(program.constants):
        yield f"constant {i}: {_value(value)}"
    yield from _lines("what each device runs", program.local)
    for collective in _collectives(program.local.jaxpr):
        c = replace(collective, source="")
        yield f"{c} of axes {c.axis}, {c.concat_axis} in the groups {c.groups}, pairs {c.pairs}"


def _lines(what: str, closed: ClosedJaxpr) -> Iterator[str]:
    yield f"{what}:"
    yield from _SOURCE.sub(r"\1", _ADDRESS.sub("", str(closed))).splitlines()


def _collectives(jaxpr: Jaxpr) -> Iterator[Collective]:
    for eqn in jaxpr.eqns:
        if "collective" in eqn.params:
            yield eqn.params["collective"]
        for sub in sub_jaxprs(eqn.params):
            yield from _collectives(sub)


def _value(x: Any) -> str:
    """A value that a program closes over."""
    sharding = getattr(x, "sharding", None)
    if sharding is not None and not sharding.is_fully_addressable:
        return f"{x.aval}"
    host = np.ascontiguousarray(x)
    digest = hashlib.sha256(host.reshape(-1).view(np.uint8).data).hexdigest()
    small = f" {host.tolist()!r}" if host.size <= 1 else ""
    return f"{host.dtype.name}{list(host.shape)}{small} with the digest {digest[:16]}"


def _differences(members: Sequence[int], texts: Sequence[str]) -> str:
    """Which processes have which function, and where their texts part.

    The first line of a text says where the function is written.
    """
    groups: dict[str, list[int]] = {}
    places: dict[str, str] = {}
    for member, told in zip(members, texts, strict=True):
        place, _, text = told.partition("\n")
        groups.setdefault(text, []).append(member)
        places.setdefault(text, place)
    found = ["the processes of a mesh have to run the same program, but they called different ones"]
    for text, having in groups.items():
        name = text.partition("\n")[0].removeprefix("function ")
        found.append(f"{_named(having)}: {name}" + (f" at {places[text]}" if places[text] else ""))
    (first, mine), *others = groups.items()
    for text, having in others:
        number, here, there = _parting(first.splitlines(), text.splitlines())
        found.append(
            f"line {number} of what they compare:\n"
            f"  {_named(mine)}: {here}\n  {_named(having)}: {there}"
        )
    return "\n".join(found)


def _named(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers))
    return f"process {shown}" if len(numbers) == 1 else f"processes {shown}"


def _parting(first: Sequence[str], second: Sequence[str]) -> tuple[int, str, str]:
    """The number of the first line that differs, and the line in both."""
    for i, (a, b) in enumerate(itertools.zip_longest(first, second, fillvalue="(ends)")):
        if a != b:
            start = max(0, _common(a, b) - _SHOWN // 2)
            return i + 1, _cut(a, start), _cut(b, start)
    raise AssertionError("texts of different digests are different")


def _common(a: str, b: str) -> int:
    """How many characters two lines begin with in common."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _cut(line: str, start: int) -> str:
    shown = line[start : start + _SHOWN].strip()
    return ("..." if start else "") + shown + ("..." if start + _SHOWN < len(line) else "")


# ---- one compile for each machine


def _compiled_once(
    name: str, compiled: Callable[[], Runner], together: Processes, members: Sequence[int]
) -> Runner:
    """What `compiled` gives; of several processes on a machine one calls it before the others.

    The others find the modules in the disk cache. Where there is none everybody compiles at the
    same time. Raises everywhere what one of those that go first raises.
    """
    from xpr.lowering.cache import default_cache  # noqa: PLC0415  the compile path is lazy

    host = together.hosts[together.index]
    first = next(m for m in members if together.hosts[m] == host)
    goes_first = first == together.index or default_cache() is None
    waiting = _Waiting(name, together, members)
    if not goes_first:
        waiting.until_compiled(None)
        return compiled()
    done = threading.Event()
    outcome: list[BaseException | None] = [None]
    settings = own_settings()

    def tell() -> None:
        with with_settings(settings):
            waiting.until_compiled(done, outcome)

    # The others hear of this one while it compiles, however long that takes.
    teller = _Teller(tell)
    try:
        runner = compiled()
    except BaseException as error:
        outcome[0] = error
        done.set()
        teller.join()
        raise
    done.set()
    teller.join()
    if teller.error is not None:
        raise teller.error
    return runner


class _Teller:
    """A thread, and what it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name="xpr-compiling", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # it is raised again by the thread that compiled
            self.error = error

    def join(self) -> None:
        self._thread.join()


class _Waiting:
    """Processes that tell each other how far they are."""

    def __init__(self, name: str, together: Processes, members: Sequence[int]) -> None:
        self.what = f"compiling {name}"
        self.together = together
        self.members = members
        self.beat = min(_BEAT, together.limit / 4)

    def until_compiled(
        self, done: threading.Event | None, outcome: Sequence[BaseException | None] = (None,)
    ) -> None:
        """Returns when all that compile have done it; raises what one of the others raised.

        `done` is set when this process has compiled, None where it leaves that to others.
        """
        while True:
            state = b"ready"
            if done is not None:
                if not done.wait(self.beat):
                    state = b"busy"
                elif outcome[0] is not None:
                    state = _written(outcome[0])
            found = self.together.gather(
                state, what=self.what, members=self.members, channel=self.what
            )
            for member, told in zip(self.members, found, strict=True):
                if told.startswith(b"!") and member != self.together.index:
                    raise _read(told, self.together.describe(member))
            if b"busy" not in found:
                return


_KINDS: dict[str, type[Exception]] = {
    e.__name__: e
    for e in (TypeError, ValueError, NotImplementedError, RuntimeError, CompileError, OSError)
}


def _written(error: BaseException) -> bytes:
    return f"!{type(error).__name__}\n{error}".encode()


def _read(told: bytes, process: str) -> Exception:
    """The error of another process, of the same type if everybody knows it."""
    kind, _, text = told[1:].decode().partition("\n")
    found = _KINDS.get(kind)
    if found is CompileError:
        error: Exception = CompileError(
            text, stablehlo_path=None, diagnostics="", source_location=None
        )
    elif found is not None:
        error = found(text)
    else:
        error = RuntimeError(f"{kind}: {text}")
    error.add_note(f"{process} raised this when it compiled the program for all")
    return error
