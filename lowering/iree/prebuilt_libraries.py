"""Libraries of the kernels in objects, for dispatches that call one and do nothing else.

Such a dispatch needs no LLVM: its place in a program is taken by the kernel of a library that is
linked once in a process, of the objects `library_*` and `products_*`.
"""

from __future__ import annotations

import functools
import re

from xpr.lowering import prebuilt
from xpr.lowering.iree.link_elf import link

# The declaration of such a function in the dispatch that calls it.
_CALLED = re.compile(rf"func\.func private @({prebuilt.FUNCTIONS}\w+)\(.*\bhal\.import\.static\b")


def of_dispatch(text: str) -> tuple[str, bytes] | None:
    """The kernel that a dispatch calls, and the library that holds it; None for all others.

    `text` is that of its executable.
    """
    found = _CALLED.search(text)
    if found is None:
        return None
    kernel, _, kind = found[1].rpartition("_")
    library = _library(kind)
    return None if library is None else (kernel, library)


@functools.cache
def _library(kind: str) -> bytes | None:
    listed = prebuilt.content(f"library_{kind}")
    return None if listed is None else link(listed, prebuilt.defining)
