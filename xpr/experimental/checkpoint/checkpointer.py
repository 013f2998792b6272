"""`Checkpointer`, `save`, `restore` and what tells which checkpoints there are."""

from __future__ import annotations

import atexit
import itertools
import operator
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from xpr.experimental.checkpoint.folder import Folder
from xpr.experimental.checkpoint.restoring import metadata_of, restore_from
from xpr.experimental.checkpoint.saving import Saving
from xpr.experimental.checkpoint.storage import require_tensorstore
from xpr.experimental.checkpoint.together import Together

PathLike = str | os.PathLike[str]

_numbers = itertools.count(1)


def _step(step: Any) -> int:
    """A step as a number; TypeError for what is no integer, ValueError for a negative one."""
    try:
        number = operator.index(step)
    except TypeError:
        raise TypeError(f"the step of a checkpoint must be an integer, got {step!r}") from None
    if number < 0:
        raise ValueError(f"the step of a checkpoint must not be negative, got {number}")
    return number


def save(directory: PathLike, step: int, tree: Any, *, overwrite: bool = False) -> None:
    """Writes a tree of arrays and plain values as the checkpoint of `step` in `directory`.

    It is complete on the disk when this returns, or not there at all. In a program of several
    processes all of them call this, and each writes what its devices hold. Raises FileExistsError
    for a step that is there, unless `overwrite` replaces it; TypeError, with the path of the leaf,
    for a value that cannot be kept; CheckpointError when somebody else writes there.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> from xpr.experimental import checkpoint
    >>> folder = tempfile.mkdtemp()
    >>> checkpoint.save(folder, 7, {"w": jnp.arange(3), "rate": 0.1})
    >>> checkpoint.restore(folder)
    {'rate': 0.1, 'w': Array([0, 1, 2], dtype=int32)}
    """
    saving = Saving(
        Folder(directory),
        _step(step),
        tree,
        overwrite=overwrite,
        keep=None,
        together=Together("checkpoint"),
        snapshot=False,
    )
    saving.finish()


def restore(directory: PathLike, step: int | None = None, like: Any = None) -> Any:
    """The tree of the checkpoint of `step` in `directory`, or of the last complete one.

    `like` is a tree of the same structure: arrays, or `ShapeDtypeStruct`s, tell by their shardings
    where arrays are to be; the mesh, and the number of processes, may be others than when it was
    saved. Each process reads the parts that its devices hold. `...` stands for a part of the tree
    that is not to be read, and comes back as it is. Without `like` arrays are whole on the default
    device, and instances of the user's classes come back as dictionaries of their fields.

    Raises FileNotFoundError where there is no such checkpoint, TypeError and ValueError, with the
    path of the leaf, for another structure, dtype or shape than `like` has, and
    DamagedCheckpointError, with the path, for a file that is cut, altered or missing.

    >>> import tempfile, numpy as np, xpr, xpr.numpy as jnp
    >>> from xpr.experimental import checkpoint
    >>> folder = tempfile.mkdtemp()
    >>> checkpoint.save(folder, 1, (jnp.ones(2), "text"))
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> like = xpr.ShapeDtypeStruct((2,), np.float32, sharding=place), ""
    >>> checkpoint.restore(folder, like=like)
    (Array([1., 1.], dtype=float32), 'text')
    """
    return _restore(Folder(directory), step, like, Together("checkpoint"))


def _restore(folder: Folder, step: int | None, like: Any, together: Together) -> Any:
    number = None if step is None else _step(step)
    what = f"restoring {'the last step' if step is None else f'step {number}'} from {folder.path}"
    problem: Exception | None = None
    found: Any = None
    try:
        require_tensorstore()
        if together.index == 0 or number is not None:
            number, _ = folder.find(number)
    except Exception as error:  # raised by the exchange, when the others know
        problem = error
    number = together.exchange(what, problem, number)[0]
    try:
        found = restore_from(folder.find(number)[1], like)
    except Exception as error:
        error.add_note(f"This was {what}.")
        problem = error
    together.exchange(f"{what}: read", problem, seconds=_PATIENCE)
    return found


_PATIENCE = 3600.0
"""Seconds that a process may take longer to read its part than others."""


def metadata(directory: PathLike, step: int | None = None) -> Any:
    """The tree of a checkpoint without its arrays: what tells their shapes, dtypes and shardings.

    >>> import tempfile, xpr.numpy as jnp
    >>> from xpr.experimental import checkpoint
    >>> folder = tempfile.mkdtemp()
    >>> checkpoint.save(folder, 1, [jnp.ones((2, 3)), None, 5])
    >>> checkpoint.metadata(folder)
    [ArrayMetadata(shape=(2, 3), dtype=dtype('float32'), sharding=''), None, 5]
    """
    return metadata_of(Folder(directory).find(None if step is None else _step(step))[1])


def all_steps(directory: PathLike) -> list[int]:
    """The steps of all complete checkpoints in `directory`, in order.

    >>> import tempfile
    >>> all_steps(tempfile.mkdtemp())
    []
    """
    return Folder(directory).steps()


def latest_step(directory: PathLike) -> int | None:
    """The greatest step of a complete checkpoint in `directory`; None where there is none.

    >>> import tempfile
    >>> latest_step(tempfile.mkdtemp()) is None
    True
    """
    return max(all_steps(directory), default=None)


class Checkpointer:
    """Saves the checkpoints of a program in one directory, in the background if asked to.

    `keep` is how many are kept: after each save, those of the smallest steps are removed, but never
    the one just saved. None keeps all. What goes wrong in the background is raised by the next
    `save`, `wait` or `close`, or printed when the process ends.

    >>> import tempfile, xpr.numpy as jnp
    >>> with Checkpointer(tempfile.mkdtemp(), keep=2) as checkpointer:
    ...     for step in range(5):
    ...         checkpointer.save(step, {"w": jnp.full(2, step)}, wait=False)
    ...     checkpointer.wait()
    ...     checkpointer.all_steps(), checkpointer.restore()
    ([3, 4], {'w': Array([4, 4], dtype=int32, weak_type=True)})
    """

    def __init__(self, directory: PathLike, *, keep: int | None = None) -> None:
        if keep is not None and (type(keep) is not int or keep < 1):
            raise ValueError(f"keep must be a positive number of checkpoints or None, got {keep!r}")
        self._folder = Folder(directory)
        self._keep = keep
        self._together = Together(f"checkpoint {next(_numbers)}")
        self._background: _Background | None = None
        self._is_closed = False

    @property
    def directory(self) -> str:
        """The directory that holds the checkpoints."""
        return str(self._folder.path)

    def __repr__(self) -> str:
        return f"Checkpointer({self.directory!r}, keep={self._keep})"

    # ---- saving

    def save(self, step: int, tree: Any, *, wait: bool = True, overwrite: bool = False) -> None:
        """Saves `tree` as the checkpoint of `step`; see the function `save`.

        With `wait=False` it returns when the values are safe from what the program does next, and
        a thread writes them. Arrays in the memory of the host are not copied for that, unless they
        are donated meanwhile; arrays of NumPy are. A save waits for the one before it.
        """
        if self._is_closed:
            raise ValueError(f"{self!r} is closed")
        number = _step(step)
        self.wait()
        saving = Saving(
            self._folder,
            number,
            tree,
            overwrite=overwrite,
            keep=self._keep,
            together=self._together,
            snapshot=not wait,
        )
        if wait:
            saving.finish()
        else:
            self._background = _Background(saving)

    def wait(self) -> None:
        """Waits until what was saved is complete. Raises what went wrong with it."""
        background = self._background
        if background is not None:
            try:
                background.wait()
            finally:
                if not background.is_alive():  # else an interrupt came first
                    self._background = None

    wait_until_finished = wait

    def is_saving(self) -> bool:
        """Whether a checkpoint is being written in the background."""
        return self._background is not None and self._background.is_alive()

    def close(self) -> None:
        """Waits as `wait` does. Nothing is saved afterwards."""
        self._is_closed = True
        self.wait()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            # What ended the block matters more, but this must not be lost.
            text = "".join(traceback.format_exception(failure))
            error.add_note(f"In addition, a checkpoint was not saved:\n{text}")

    # ---- what is there

    def restore(self, step: int | None = None, like: Any = None) -> Any:
        """The tree of a checkpoint; see the function `restore`. What is being saved comes first."""
        self.wait()
        return _restore(self._folder, step, like, self._together)

    def all_steps(self) -> list[int]:
        """The steps of all complete checkpoints, in order."""
        return self._folder.steps()

    def latest_step(self) -> int | None:
        """The greatest step of a complete checkpoint; None where there is none."""
        return max(self.all_steps(), default=None)

    def metadata(self, step: int | None = None) -> Any:
        """The tree of a checkpoint without its arrays; see the function `metadata`."""
        return metadata(self.directory, step)


class _Background:
    """A save that goes on in a thread."""

    def __init__(self, saving: Saving) -> None:
        self._saving: Saving | None = saving
        self.what = saving.what
        self._error: BaseException | None = None
        # The end of the process waits for a thread that is no daemon.
        self._thread = threading.Thread(target=self._run, name="xpr checkpoint", daemon=False)
        self._thread.start()

    def _run(self) -> None:
        saving, self._saving = self._saving, None
        assert saving is not None
        try:
            saving.finish()
        except BaseException as error:  # whoever waits for it raises it
            self._error = error
            traceback.clear_frames(error.__traceback__)  # they hold the arrays
            _not_raised.append(self)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        self._thread.join()
        if self._error is not None:
            _not_raised.remove(self)
            raise self._error

    def tell(self) -> None:
        """Prints what nobody has asked for."""
        assert self._error is not None
        text = "".join(traceback.format_exception(self._error))
        print(f"xpr: {self.what} failed in the background:\n{text}", file=sys.stderr, end="")


_not_raised: list[_Background] = []


def _at_exit() -> None:
    for background in _not_raised:
        background.tell()


atexit.register(_at_exit)
