"""The releases of IREE that xpr knows, and which of them is installed."""

from __future__ import annotations

import dataclasses
import functools
import re

from xpr.lowering.iree import installed, shortcuts
from xpr.lowering.iree.versions import v3_12, v3_13
from xpr.lowering.iree.versions.base import IreeVersion

KNOWN: dict[str, IreeVersion] = {
    version.minor: version for version in (v3_12.VERSION, v3_13.VERSION)
}
"""By their minor releases, the oldest first."""

_RELEASE = re.compile(r"\b(\d+\.\d+)\.(\d+)(?:rc\d+|\.dev\d+)?")
_UNTESTED = "xpr was not tested with this release of IREE"


@functools.cache
def find(revision: str) -> IreeVersion:
    """The facts about a release, which names itself in some text, as in "3.13.0rc20261016 @ 89e".

    Of an unknown minor release the nearest known one's facts are taken, without shortcuts and
    without an instruction set: its modules say which one they have.
    """
    found = _RELEASE.search(revision)
    minor = found[1] if found is not None else ""
    if minor in KNOWN:
        return KNOWN[minor]
    numbers = tuple(map(int, minor.split("."))) if minor else (0, 0)
    nearest = min(
        KNOWN.values(), key=lambda known: (abs(known.number[1] - numbers[1]), known.minor)
    )
    return dataclasses.replace(
        nearest,
        minor=minor or "0.0",
        tested=frozenset(),
        without=dict.fromkeys(shortcuts.ALL, _UNTESTED),
    )


def release(revision: str) -> str:
    """The release that a text names, as in "3.13.0"; empty if there is none in it."""
    found = _RELEASE.search(revision)
    return "" if found is None else f"{found[1]}.{found[2]}"


def of_installed() -> IreeVersion:
    """The facts about the installed compiler, or else about that of the modules in the cache."""
    return find(installed.version_of_modules())


def supported() -> str:
    """The range of minor releases that were tested, as a requirement of packages."""
    oldest, newest = min(KNOWN.values(), key=_number), max(KNOWN.values(), key=_number)
    major, minor = newest.number
    return f">={oldest.minor},<{major}.{minor + 1}"


def _number(version: IreeVersion) -> tuple[int, int]:
    return version.number
