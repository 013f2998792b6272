"""Programs whose modules the disk cache has, found by their jaxprs, before they are lowered.

A module's own key is made of the program's text, which the lowering has to write. Nine tenths of
the time from a new program to its module in the cache were spent on that, mostly on importing the
lowering. So the cache keeps, under a key of the jaxpr and of all that the lowering goes by, the
module's key and what else must be known to load it. What is not exactly as it was when that was
written has another key, and goes the long way.

xpr's own files are told by what they hold, so that a cache helps on other machines, too. To read
them takes longer than all the rest, so that the digest is kept in the cache, under their sizes and
times.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from xpr.core import sources
from xpr.core.canonical import NoTextError, canonical_text, canonical_value
from xpr.core.config import state, trace_settings
from xpr.core.events import recorders
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import registry
from xpr.lowering.cache import default_cache
from xpr.lowering.iree import installed, stopwatch
from xpr.runtimes import processor
from xpr.runtimes.base import Device
from xpr.runtimes.cores import cores

if TYPE_CHECKING:
    from xpr.lowering.module import LoweredModule

_REVISION = "2"

# Rules of the user's, which the lowering does not read: it compiles the programs beside them.
UNREAD = {
    "remat2": frozenset({"policy"}),
    "custom_jvp_call": frozenset({"jvp"}),
    "custom_vjp_call": frozenset({"fwd", "bwd"}),
    "custom_vmap_call": frozenset({"rule"}),
    "linear_call": frozenset({"transpose"}),
}

# Targets that plugins add are lowered by code that no key knows.
_TARGETS = frozenset({"cpu", "vmvx", "vulkan", "cuda", "rocm", "metal"})

# The key of the module, how many donations there are, whether it was written for donated operands
# to be overwritten, whether it is a straight line and elementwise, and the operations and bytes
# of a call.
_HEAD = struct.Struct("<32sI???d")
_PAIR = struct.Struct("<II")


class KnownModule(NamedTuple):
    """A module from the cache, and what its lowering would have said of it."""

    vmfb: bytes
    in_place: bool
    """Whether programs of the target write into the memory of donated operands."""

    donations: tuple[tuple[int, int], ...]
    cost: float
    straight_line: bool
    elementwise: bool

    def is_done(self) -> bool:
        """It is."""
        return True

    def on_end(self, function: Callable[[], None]) -> None:
        """Calls a function at once."""
        function()


def key_of(closed: ClosedJaxpr, name: str, device: Device, donated: Sequence[int]) -> bytes | None:
    """The key of a program before it is lowered for a device.

    None for what has none: where something is to happen on the way to the module, where the program
    has effects, or parameters that only this process knows.
    """
    if _is_watched() or device.runtime.target not in _TARGETS:
        return None
    stamp = sources.stamp()
    if stamp is None:
        return None
    target = device.runtime.target
    # Without a cache nothing is found, and the files need not be read.
    files = stamp if default_cache() is None else _contents(stamp)
    try:
        parts = (
            (_REVISION, files, installed.version_of_modules(), sys.version),
            (np.__version__, ml_dtypes.__version__),
            (target, processor.description() if target == "cpu" else "", cores() == 1),
            getattr(device, "capabilities", None),
            (trace_settings(), tuple(sorted(state.shortcuts))),
            (name, tuple(donated)),
        )
        text = f"{canonical_value(parts)}\n{canonical_text(closed, UNREAD)}"
    except NoTextError:
        return None
    return hashlib.sha256(text.encode()).digest()


@functools.cache
def _contents(stamp: str) -> bytes:
    """The digest of xpr's files, which have that stamp."""
    cache = default_cache()
    key = hashlib.sha256(f"sources {stamp}".encode()).digest()
    found = cache.sources(key) if cache is not None else None
    if found is None:
        found = sources.contents()
        if cache is not None:
            cache.put_sources(key, found)
    return found


def _is_watched() -> bool:
    """Whether somebody wants to see how programs are lowered and compiled, or to change it."""
    lowering: Any = sys.modules.get("xpr.lowering.registry")
    passes: Any = sys.modules.get("xpr.lowering.passes")
    # Rules for primitives of the user's own alter no program that has a key.
    rules = lowering.program_rules if lowering is not None else ()
    return bool(
        (state.enable_checks or state.dump_ir_to or state.log_compiles or state.explain != "none")
        or (recorders or stopwatch.current())
        or any(registry.get(p.name) is p for p in rules)
        or (passes is not None and passes.are_altered())
    )


def find(key: bytes) -> KnownModule | None:
    """The module of a program, if the cache has it."""
    cache = default_cache()
    facts = cache.program(key) if cache is not None else None
    if cache is None or facts is None or len(facts) < _HEAD.size:
        return None
    module, count, in_place, straight_line, elementwise, cost = _HEAD.unpack_from(facts)
    if len(facts) != _HEAD.size + count * _PAIR.size:
        return None
    vmfb = cache.get(module)
    if vmfb is None:
        return None
    pairs = tuple(_PAIR.iter_unpack(facts[_HEAD.size :]))
    return KnownModule(vmfb, in_place, pairs, cost, straight_line, elementwise)


def keep(key: bytes, module: LoweredModule, in_place: bool, kept_as: bytes) -> None:
    """Notes where the cache has the module of a program, for later processes.

    One that calls functions of this process is of no use to others.
    """
    cache = default_cache()
    if cache is None or module.host_calls:
        return
    cost = module.flops + module.bytes_accessed
    straight = not module.hints.has_control_flow
    count = len(module.donations)
    head = _HEAD.pack(kept_as, count, in_place, straight, module.elementwise, cost)
    cache.put_program(key, head + b"".join(_PAIR.pack(*pair) for pair in module.donations))
