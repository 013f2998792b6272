"""The `accuracy` argument of elementary functions."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xpr.primitives._tolerance import Tolerance


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


def accuracy_param(accuracy: AccuracyMode | Tolerance | None) -> dict[str, Any]:
    """The parameters that record `accuracy` in an equation: none when it is not given.

    Raises NotImplementedError for anything but an AccuracyMode, a Tolerance or None.
    """
    if accuracy is None:
        return {}
    from xpr.primitives._tolerance import Tolerance  # noqa: PLC0415  few programs have any

    if not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise NotImplementedError(
            f"Accuracy {accuracy} not supported: use an AccuracyMode or a Tolerance"
        )
    return {"accuracy": accuracy}
