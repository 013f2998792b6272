"""IREE 3.12: as 3.13, but for some pass options, library functions and the text of libraries."""

from __future__ import annotations

import dataclasses
import re

from xpr.lowering.iree.versions import passes_3_13, v3_13
from xpr.lowering.iree.versions.base import Steps

_LATER = re.compile("fuse-data-tiled-convolution=false |fuse-mmt4d=false ")
"""The options of the pass that forms dispatches that 3.13 brought."""


def _steps(*, branches: bool, integers: bool, hoists: bool) -> Steps:
    found = passes_3_13.steps(branches=branches, integers=integers, hoists=hoists)
    return {
        phase: dataclasses.replace(step, passes=tuple(_LATER.sub("", p) for p in step.passes))
        for phase, step in found.items()
    }


VERSION = dataclasses.replace(
    v3_13.VERSION,
    minor="3.12",
    tested=frozenset({"3.12.0"}),
    steps=_steps,
    device_functions=v3_13.VERSION.device_functions - {"memset", "memcpy", "memmove"},
    texts=dataclasses.replace(
        v3_13.TEXTS,
        binary=(
            "hal.executable.binary public @{variant} attributes {{"
            'data = dense<"0x{digits}"> : vector<{size}xi8>, format = "{format}"}}'
        ),
    ),
)
