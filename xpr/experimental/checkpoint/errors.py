"""What goes wrong with checkpoints, beyond the errors that Python itself has for files."""

from __future__ import annotations

from xpr.core.errors import XprError


class CheckpointError(XprError, RuntimeError):
    """A checkpoint was not written, or cannot be read; those written before are as they were.

    >>> import xpr
    >>> from xpr.experimental.checkpoint import CheckpointError
    >>> issubclass(CheckpointError, xpr.errors.XprError)
    True
    """


class DamagedCheckpointError(CheckpointError):
    """A file of a checkpoint is missing, cut, or holds other bytes than were written.

    `leaf` is the path of the leaf that cannot be read, None where the whole checkpoint cannot.

    >>> from xpr.experimental.checkpoint import CheckpointError, DamagedCheckpointError
    >>> issubclass(DamagedCheckpointError, CheckpointError)
    True
    """

    def __init__(self, message: str, leaf: str | None = None) -> None:
        super().__init__(message)
        self.leaf = leaf


def shown(path: str) -> str:
    """The path of a leaf as messages name it."""
    return f"leaf {path}" if path else "the tree, which is a single leaf,"
