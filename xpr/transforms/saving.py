"""What `save` of a jitted function writes."""

from __future__ import annotations

from typing import Any

from xpr.transforms.signature import takes_keyword


def save(function: Any, path: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compiles a jitted function for the types of the arguments and writes it.

    The module runs on any processor of this machine's architecture since about 2015. The keyword
    `target` names another one, unless the function itself has an argument of that name: "host" for
    all that this processor can do, "aarch64-linux", "x86_64-v2", ...
    """
    target = None
    if "target" in kwargs and not takes_keyword(function.__wrapped__, "target"):
        target = kwargs.pop("target")
    function.lower(*args, **kwargs).compile().save(path, target=target)
