"""`jax.experimental.array_serialization.serialization`: the interface of managers of checkpoints.

xpr saves and restores arrays by `xpr.experimental.checkpoint`; JAX's own manager is not here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["GlobalAsyncCheckpointManagerBase"]


class GlobalAsyncCheckpointManagerBase(ABC):
    """What a class must have that saves arrays in the background."""

    @abstractmethod
    def check_for_errors(self) -> None:
        """Raises what went wrong in the background."""

    @abstractmethod
    def wait_until_finished(self) -> None:
        """Returns when everything is saved."""

    @abstractmethod
    def serialize(
        self,
        arrays: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        *,
        on_commit_callback: Callable[[], None],
    ) -> None:
        """Saves arrays."""

    @abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> Any:
        """Restores arrays."""
