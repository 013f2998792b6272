"""What `save` of a jitted function writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from xpr.transforms.signature import takes_keyword

Writer = Callable[[Any, Any, tuple[Any, ...], dict[str, Any], str | None], None]

writers: dict[str, Callable[[], Writer]] = {}
"""What loads the writer of other files than modules, by the ending of their names."""


def save(function: Any, path: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compiles a jitted function for the types of the arguments and writes it.

    The module runs on any processor of this machine's architecture since about 2015. The keyword
    `target` names another one, unless the function itself has an argument of that name: "host" for
    all that this processor can do, "aarch64-linux", "x86_64-v2", ...

    A name that ends in `.c` is that of a program without a runtime: see `xpr.export.save_c`.
    """
    target = None
    if "target" in kwargs and not takes_keyword(function.__wrapped__, "target"):
        target = kwargs.pop("target")
    load = writers.get(os.path.splitext(path)[1])
    if load is not None:
        load()(function, path, args, kwargs, target)
        return
    function.lower(*args, **kwargs).compile().save(path, target=target)
