"""Bounds that users set on the errors of elementary functions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Bounds on the error that an elementary function may have.

    >>> from xpr import lax
    >>> lax.exp(0.0, accuracy=lax.Tolerance(ulps=4))
    Array(1., dtype=float32, weak_type=True)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        for name in ("atol", "rtol", "ulps"):
            if getattr(self, name) < 0:
                raise ValueError(f"Tolerance requires {name} >= 0, got {getattr(self, name)}")
