"""A directory of checkpoints: which are complete, and how one comes to be and goes.

    100/              the checkpoint of step 100, complete by its name
        tree.json     the structure of the tree, and what is known of each leaf
        arrays/       a folder for each array that is not in tree.json
    200.tmp-1f03/     one that is being written, or was when its process died
    100.old/          what `overwrite` replaces, until the new one has its name
    50.gone-9a2c/     one that is being removed
    .lock             held by the process that writes

A checkpoint gets its name by one rename, when all its files are on the disk.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
from pathlib import Path
from typing import Any

from xpr.experimental.checkpoint.errors import CheckpointError, DamagedCheckpointError
from xpr.experimental.checkpoint.files import TREE_BYTES, read_regular

TREE = "tree.json"
ARRAYS = "arrays"
_FORMAT = "xpr checkpoint"
_VERSION = 1
_STEP = re.compile(r"(0|[1-9]\d*)(\.old)?")
_LEFT = re.compile(r"\d+\.(tmp|gone)-[0-9a-f]{8}")


class Folder:
    """The directory `path` of checkpoints; it need not be there before the first is saved."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(os.fspath(path)))

    # ---- what is there

    def _found(self) -> dict[int, Path]:
        """Complete checkpoints by step. One that is being replaced counts until it has been."""
        found: dict[int, Path] = {}
        for entry in os.scandir(self.path):
            match = _STEP.fullmatch(entry.name)
            if match is None or not os.path.exists(os.path.join(entry.path, TREE)):
                continue
            if match[2] is None or int(match[1]) not in found:
                found[int(match[1])] = Path(entry.path)
        return found

    def steps(self) -> list[int]:
        """The steps of all complete checkpoints, in order; none where there is no directory."""
        try:
            return sorted(self._found())
        except FileNotFoundError:
            return []

    def find(self, step: int | None) -> tuple[int, Path]:
        """The checkpoint of that step, or of the last one. FileNotFoundError if there is none."""
        if not self.path.is_dir():
            kind = "is no directory" if self.path.exists() else "does not exist"
            raise FileNotFoundError(f"no checkpoint can be read: {self.path} {kind}")
        found = self._found()
        if not found:
            raise FileNotFoundError(f"there is no complete checkpoint in {self.path}")
        if step is None:
            step = max(found)
        if step not in found:
            raise FileNotFoundError(
                f"there is no checkpoint of step {step} in {self.path}, only of {_listed(found)}"
            )
        return step, found[step]

    # ---- writing

    def lock(self, step: int) -> Lock:
        """Keeps others from writing here until it is released, or this process ends.

        Makes the directory. Raises CheckpointError, naming the process, when another one writes.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        return Lock(self.path / ".lock", f"saving step {step} in {self.path}")

    def clean(self) -> None:
        """Ends what a process has left that died here. The lock must be held."""
        for entry in list(os.scandir(self.path)):
            if _LEFT.fullmatch(entry.name):
                _remove_all(entry.path)
            elif entry.name.endswith(".old") and _STEP.fullmatch(entry.name):
                complete = Path(entry.path).with_suffix("")
                if complete.exists():
                    _remove_all(entry.path)
                else:
                    os.rename(entry.path, complete)

    def check_free(self, step: int, overwrite: bool) -> None:
        """Raises FileExistsError for a step that is there, unless it is to be overwritten."""
        place = self.path / str(step)
        if os.path.lexists(place) and not (overwrite and (place / TREE).exists()):
            what = "a checkpoint of" if (place / TREE).exists() else "something else in place of"
            raise FileExistsError(
                f"there is {what} step {step} in {self.path} already"
                + ("" if overwrite else "; overwrite=True replaces it")
            )

    def begin(self, step: int) -> Path:
        """A new folder for the checkpoint of that step, under a name that nobody reads."""
        place = self.path / f"{step}.tmp-{secrets.token_hex(4)}"
        place.mkdir()
        (place / ARRAYS).mkdir()
        return place

    def commit(self, place: Path, step: int, content: Any, overwrite: bool) -> None:
        """Gives the folder its name. All files of arrays are on the disk; `content` is written.

        Raises FileExistsError for a step that has come meanwhile.
        """
        write_content(place / TREE, content)
        for folder, _, _ in os.walk(place, topdown=False):
            _sync(folder)
        name = self.path / str(step)
        old = self.path / f"{step}.old"
        self.check_free(step, overwrite)
        if overwrite and name.exists():
            os.rename(name, old)
        try:
            os.rename(place, name)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # where there are no locks
                self.check_free(step, False)
            raise
        _sync(self.path)
        if old.exists():
            self._remove(old, step)

    def prune(self, keep: int, latest: int) -> None:
        """Removes all but the last `keep` checkpoints, and never that of step `latest`."""
        for step in self.steps()[:-keep]:
            if step != latest:
                self.remove(step)

    def remove(self, step: int) -> None:
        """Removes the checkpoint of that step: first its name, so that none is ever half there."""
        _, place = self.find(step)
        self._remove(place, step)

    def _remove(self, place: Path, step: int) -> None:
        gone = self.path / f"{step}.gone-{secrets.token_hex(4)}"
        os.rename(place, gone)
        _remove_all(gone)


def _remove_all(place: str | Path) -> None:
    """Removes a folder with all in it. Of a link the link alone."""
    if os.path.islink(place):
        os.unlink(place)
    else:
        shutil.rmtree(place)


def _listed(steps: dict[int, Any]) -> str:
    known = sorted(steps)
    shown = known if len(known) <= 8 else [*known[:3], "...", *known[-4:]]
    return ", ".join(map(str, shown))


def _sync(folder: str | Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- the lock


def _open_lock(path: Path) -> int:
    """The file of the lock. What it holds is written over: a link to another file is refused."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if os.path.islink(path) or not path.is_file():
            raise CheckpointError(f"{path} is a link or not a regular file: remove it") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise CheckpointError(f"{path} is not a regular file: remove it")
    return handle


class Lock:
    """A file that one process holds at a time, on file systems that can do this."""

    def __init__(self, path: Path, what: str) -> None:
        # There is no such module where there are no such locks.
        import fcntl  # noqa: PLC0415

        self._handle = _open_lock(path)
        self.is_held = True
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._handle, 4096).decode(errors="replace") or "another process"
            os.close(self._handle)
            raise CheckpointError(
                f"two writers at once: {what}, while {holder} is at it. Let each write to a "
                "directory of its own, or wait for the other"
            ) from error
        except OSError:  # a file system without locks: renames alone keep checkpoints whole
            self.is_held = False
        else:
            os.ftruncate(self._handle, 0)
            text = f"process {os.getpid()} on {socket.gethostname()}, {what},"
            os.pwrite(self._handle, text.encode(), 0)

    def release(self) -> None:
        """Lets others write."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


# ---- the file of the structure


def write_content(path: Path, content: Any) -> None:
    """Writes JSON with its digest, and waits until the disk has it."""
    whole = {
        "format": _FORMAT,
        "version": _VERSION,
        "digest": _digest(content),
        "content": content,
    }
    with open(path, "x", encoding="ascii") as file:
        json.dump(whole, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def read_content(path: Path) -> Any:
    """The JSON that `write_content` has written; DamagedCheckpointError for anything else."""
    try:
        whole = json.loads(read_regular(path, TREE_BYTES))
        if whole["format"] != _FORMAT:
            raise ValueError(f"its format is {whole['format']!r}, not {_FORMAT!r}")
        version = whole["version"]
        if type(version) is not int or version < 1:
            raise ValueError(f"its version is {version!r}")
        if version == _VERSION and whole["digest"] != _digest(whole["content"]):
            raise ValueError("its content does not fit its digest")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCheckpointError(f"{path} is damaged: {error}") from error
    if version != _VERSION:
        raise CheckpointError(f"{path} has version {version}; this xpr reads version {_VERSION}")
    return whole["content"]


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
