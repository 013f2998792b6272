"""The error for input that cannot become a program."""

from __future__ import annotations


class StableHLOError(ValueError):
    """A StableHLO program or artifact is damaged, or holds something xpr cannot run.

    >>> from xpr import export
    >>> try:
    ...     export.from_stablehlo(b"no program")
    ... except export.StableHLOError as error:
    ...     print(type(error).__name__)
    StableHLOError
    """
