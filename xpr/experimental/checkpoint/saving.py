"""One checkpoint on its way to the disk: what is done at once, and what may be done later."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from xpr.experimental.checkpoint.folder import ARRAYS, Folder, Lock
from xpr.experimental.checkpoint.planning import Plan, agreed, plan
from xpr.experimental.checkpoint.storage import creating, require_tensorstore, write
from xpr.experimental.checkpoint.together import Together

_SLOWEST = 10e6
"""Bytes that a process can be trusted to write in a second, when others wait for it."""


class Saving:
    """A checkpoint that has begun: its values are safe from changes. `finish` writes them.

    Both meet the other processes of the program.
    """

    def __init__(
        self,
        folder: Folder,
        step: int,
        tree: Any,
        *,
        overwrite: bool,
        keep: int | None,
        together: Together,
        snapshot: bool,
    ) -> None:
        self.step = step
        self.what = f"saving step {step} in {folder.path}"
        self._folder = folder
        self._overwrite = overwrite
        self._keep = keep
        self._together = together
        self._lock: Lock | None = None
        self._place: Path | None = None
        try:
            self._plan: Plan | None = self._agree(tree, snapshot)
        except BaseException as error:
            self._end(error)
            raise

    def _agree(self, tree: Any, snapshot: bool) -> Plan:
        problem: Exception | None = None
        node, found = None, []
        try:
            require_tensorstore()
            node, found = plan(tree, self._together, snapshot)
            if self._together.index == 0:
                self._lock = self._folder.lock(self.step)
                if self._lock.is_held:
                    self._folder.clean()
                self._folder.check_free(self.step, self._overwrite)
                self._place = self._folder.begin(self.step)
        except Exception as error:  # raised by the exchange, when the others know
            problem = error
        name = None if self._place is None else self._place.name
        names = self._together.exchange(self.what, problem, name)
        assert node is not None
        self._place = self._folder.path / names[0]
        return agreed(node, found, self._together, self.what)

    def finish(self) -> None:
        """Writes what this process has and, when all have done so, gives the checkpoint its name.

        When anything fails, what there is of it is removed; earlier checkpoints stay.
        """
        raised: BaseException | None = None
        try:
            plan, place = self._plan, self._place
            assert plan is not None
            assert place is not None
            problem: Exception | None = None
            try:
                mine = plan.arrays if self._together.index == 0 else ()
                with creating(place / ARRAYS, mine):
                    write(place / ARRAYS, plan.parts)
            except Exception as error:
                problem = error
            patience = plan.nbytes / _SLOWEST
            self._together.exchange(f"{self.what}: written", problem, seconds=patience)
            try:
                if self._together.index == 0:
                    self._commit(place, plan)
            except Exception as error:
                problem = error
            self._together.exchange(f"{self.what}: complete", problem)
        except BaseException as error:
            raised = error
            raise
        finally:
            self._end(raised)

    def _commit(self, place: Path, plan: Plan) -> None:
        content = {"step": self.step, **plan.content}
        self._folder.commit(place, self.step, content, self._overwrite)
        if self._keep is not None:
            self._folder.prune(self._keep, self.step)

    def _end(self, error: BaseException | None) -> None:
        """Lets go of the values and of the lock, and removes what is not complete."""
        self._plan = None
        if error is not None:
            error.add_note(
                f"This was {self.what}; the checkpoints that were complete before are as they were."
            )
            if self._place is not None and self._together.index == 0:
                # Another process may still be writing; whoever saves next removes what it leaves.
                shutil.rmtree(self._place, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()
