"""The `accuracy` argument of elementary functions."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class AccuracyMode(enum.Enum):
    """How accurate an elementary function should be; here every mode is within a few ulp.

    >>> from xpr import lax
    >>> lax.exp(0.0, accuracy=lax.AccuracyMode.HIGHEST)
    Array(1., dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2

    def __str__(self) -> str:
        return f"AccuracyMode.{self.name}"


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


def accuracy_param(accuracy: AccuracyMode | Tolerance | None) -> dict[str, Any]:
    """The parameters that record `accuracy` in an equation: none when it is not given.

    Raises NotImplementedError for anything but an AccuracyMode, a Tolerance or None.
    """
    if accuracy is None:
        return {}
    if not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise NotImplementedError(
            f"Accuracy {accuracy} not supported: use an AccuracyMode or a Tolerance"
        )
    return {"accuracy": accuracy}
