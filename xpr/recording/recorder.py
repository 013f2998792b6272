"""What records calls: a block of a program, or the setting `record`."""

from __future__ import annotations

import collections
import itertools
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpr import tree_util
from xpr.core.config import parse_setting, set_watcher, state
from xpr.core.extended_array import base_of
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.trace import context
from xpr.interpreters.origins import has_nan
from xpr.recording.calls import recorded_bytes, save_bytes

SUFFIX = ".xprrec"
_LIMIT = 64 << 20
_numbers = itertools.count()


class Call(NamedTuple):
    """A call that has run."""

    name: str
    closed: ClosedJaxpr
    args: Sequence[Any]
    results: Sequence[Any]
    outcome: str


class Recorder:
    """Runs the calls of jitted functions, and keeps those that `on` asks for.

    With a folder each is written at once. Without, the last `last` stay in memory.
    """

    def __init__(self, on: str, last: int, limit: int, folder: Path | None) -> None:
        self.calls: collections.deque[Call] = collections.deque(maxlen=last)
        self._on = on
        self._last = last
        self._limit = limit
        self._folder = folder
        self._rate = float(on.removeprefix("sample:")) if on.startswith("sample:") else 1.0
        self._random = random.Random(0)
        self._busy = threading.local()

    def __call__(
        self, name: str, closed: ClosedJaxpr, parts: Any, run: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        """Runs a call. What goes wrong with recording it never reaches the caller."""
        if getattr(self._busy, "now", False) or self._random.random() >= self._rate:
            return run()
        kept = [_kept(x, i in parts.donated) for i, x in enumerate(parts.leaves)]
        try:
            results = run()
        except Exception as error:
            self._keep(Call(name, closed, kept, [], f"{type(error).__name__}: {error}"))
            raise
        if self._on not in ("error", "nan") or (self._on == "nan" and _any_nan(results)):
            self._keep(Call(name, closed, kept, results, "ok"))
        return results

    def _keep(self, call: Call) -> None:
        self.calls.append(call)
        if self._folder is None:
            return
        number = next(_numbers)
        file = self._folder / f"{_safe(call.name)}-{os.getpid()}-{number:06d}{SUFFIX}"
        self._busy.now = True
        try:
            write_call(file, call, self._limit)
            old = sorted(self._folder.glob(f"*{SUFFIX}"), key=lambda p: p.stat().st_mtime_ns)
            for gone in old[: -self._last]:
                gone.unlink(missing_ok=True)
        except OSError as error:
            _warn(file, error)
        finally:
            self._busy.now = False


def write_call(path: Path, call: Call, limit: int) -> None:
    """Writes the file of one call; its folder is made where there is none."""
    data = recorded_bytes(*call, limit)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_bytes(path, data)


def _warn(path: Path, error: OSError) -> None:
    warnings.warn(
        f"the call was not recorded to {path}: {error.strerror or error}; the program goes on",
        stacklevel=2,
    )


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in name)[:80]


def _kept(x: Any, donated: bool) -> Any:
    """The argument, as a copy where the call or its owner may overwrite it."""
    x = base_of(x)
    return np.array(x) if donated or isinstance(x, np.ndarray) else x


def _any_nan(results: Sequence[Any]) -> bool:
    return any(has_nan(np.asarray(base_of(x))) for x in tree_util.tree_leaves(list(results)))


def of_settings() -> Recorder:
    """The recorder that the settings `record`, `record_on` and `record_last` ask for."""
    return Recorder(state.record_on, state.record_last, _LIMIT, Path(state.record))


@contextmanager
def record(
    path: str | os.PathLike[str],
    *,
    on: str = "always",
    last: int = 16,
    limit: int = _LIMIT,
) -> Iterator[Recorder]:
    """Records the calls of jitted functions in the block: `xpr.replay` runs them again.

    With a `path` that ends in `.xprrec`, the block writes one call when it ends: the first that
    raised or returned NaN among its `last` ones, or else the last one. Any other `path` is a
    folder, to which each call is written at once, and which keeps the newest `last` files.

    `on` says which calls: `"always"`, `"error"` for those that raise, `"nan"` for those that raise
    or return NaN, `"sample:0.01"` for a share of them, chosen at random. A file holds the program
    with the lines of your source, arguments, results, settings, versions and the device; of arrays
    above `limit` bytes it holds types, statistics and digests. Arguments that a call gives up are
    copied before it. Prints and callbacks without results are left out; a program with others, or
    with foreign functions, is recorded as text.

    Raises ValueError for another `on`, RuntimeError in a function that is being traced. A full disk
    is a warning.

    >>> import tempfile, pathlib, xpr, xpr.numpy as jnp
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.xprrec"
    >>> with xpr.record(path):
    ...     y = xpr.jit(lambda x: jnp.log(x - 2))(jnp.float32(1))
    >>> print(xpr.replay(path).step.eqn.primitive.name)
    log
    """
    if context.trace is not context.eager:
        raise RuntimeError(
            "xpr.record was called in a function that is being traced: record the "
            "call of the jitted function"
        )
    path = Path(path)
    single = path.suffix == SUFFIX
    recorder = Recorder(parse_setting("record_on", on), last, limit, None if single else path)
    old = set_watcher(recorder)
    try:
        yield recorder
    finally:
        set_watcher(old)
        if single and recorder.calls:
            chosen = next(
                (c for c in recorder.calls if c.outcome != "ok" or _any_nan(c.results)),
                recorder.calls[-1],
            )
            try:
                write_call(path, chosen, limit)
            except OSError as error:
                _warn(path, error)
