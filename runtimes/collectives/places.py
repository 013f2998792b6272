"""Where the ranks of a program are that several processes run, and which of its runs this is.

Between processes a run is more than a call: when the program fails in one process, the others,
which may be anywhere in it, have to learn that this run is over, and must not take what belongs
to it for a part of the next. So the processes of a program count its runs, and each message says
which one it belongs to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xpr.runtimes.collectives.base import Array, Collective, Group, Kinds

if TYPE_CHECKING:
    from xpr.runtimes.processes import Processes


SumOfOne = Callable[[int, Sequence[Array]], list[Array]]
"""A small reduction: takes the number of a run and the operands, and gives the results."""


class RankPlaces:
    """The ranks of a program, the process of each, and those of this process.

    `ranks` are this process's, in the order in which its arrays are given, and `owners` has the
    process of every rank. `name` is the program's, for messages: the same in all processes.
    """

    __slots__ = (
        "_across",
        "members",
        "name",
        "owners",
        "plans",
        "processes",
        "ranks",
        "run",
    )

    def __init__(
        self,
        ranks: Sequence[int],
        owners: Sequence[int],
        processes: Processes,
        name: str = "program",
    ) -> None:
        self.ranks = tuple(ranks)
        self.owners = tuple(owners)
        self.processes = processes
        self.name = name
        mine = tuple(r for r, p in enumerate(self.owners) if p == processes.index)
        if tuple(sorted(self.ranks)) != mine:
            raise ValueError(
                f"{name}: process {processes.index} runs the ranks {mine}, got {self.ranks}"
            )
        self.members = tuple(sorted(set(self.owners)))
        """The processes that run the program."""

        self.run: int | None = None
        """The number of the run that collectives belong to; None makes each a run of its own."""

        self.plans: dict[Any, Any] = {}
        """What the engine worked out for the collectives of the program."""

        self._across: dict[Group, bool] = {}

    def crosses(self, group: Group) -> bool:
        """Whether the group has ranks of this process and of others."""
        found = self._across.get(group)
        if found is None:
            owners = self.owners
            if max(group) >= len(owners):
                raise ValueError(
                    f"{self.name} has the group {group}, of {len(owners)} ranks in all"
                )
            here = {owners[r] == self.processes.index for r in group}
            found = self._across[group] = len(here) > 1
        return found

    def running(self) -> _Running:
        """A context for one run of the program, to whose value all its collectives are given.

        An exception that leaves the context makes the run fail in the other processes, too: they
        raise PeerError at their next collective of this run. All processes of the program must
        have the same runs of its kind, in the same order.
        """
        return _Running(self)

    def __repr__(self) -> str:
        return f"RankPlaces({self.ranks}, {self.owners}, name={self.name!r})"


class _Running:
    """The context of one run; no generator, whose time small collectives would feel."""

    __slots__ = ("_places",)

    def __init__(self, places: RankPlaces) -> None:
        found = object.__new__(RankPlaces)
        found.ranks = places.ranks
        found.owners = places.owners
        found.processes = places.processes
        found.name = places.name
        found.members = places.members
        found.plans = places.plans
        found._across = places._across
        found.run = None
        self._places = found

    def __enter__(self) -> RankPlaces:
        places = self._places
        places.run = places.processes.meetings.begin(places)
        return places

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._places.processes.meetings.fail(self._places, error)


class Meetings(ABC):
    """How the processes of a program meet at its collectives. Calls may come from any thread."""

    @abstractmethod
    def begin(self, places: RankPlaces) -> int:
        """The number of a new run of the program."""

    @abstractmethod
    def perform(
        self,
        places: RankPlaces,
        collective: Collective,
        groups: Sequence[Group],
        operands: Mapping[int, Sequence[Array]],
        results: Mapping[int, Sequence[Array]],
        *,
        apart: bool,
        timeout: float | None = None,
    ) -> None:
        """Performs the collective for some of its groups, all of which cross processes, in a run.

        `operands` and `results` hold C-contiguous arrays by rank, those of this process; results
        may be the same arrays for several ranks of a group. `apart` tells that the one group meets
        by itself, and not together with the other groups of the collective. Nobody waits longer
        than `timeout` seconds for another process; None means what the setting says.

        Raises CollectiveError when another process does something else, TimeoutError when one does
        not come, and PeerError when one fails. After that the results hold anything.
        """

    def small_sum(
        self, places: RankPlaces, collective: Collective, kinds: Kinds
    ) -> SumOfOne | None:
        """`perform` planned beforehand, for the one rank of this process and operands like these.

        Its results are read-only. None for all but reductions of a few numbers over processes.
        """
        del places, collective, kinds
        return None

    @abstractmethod
    def fail(self, places: RankPlaces, error: BaseException) -> None:
        """Tells the other processes of the program that this run of it has failed."""

    @abstractmethod
    def poll(self) -> None:
        """Takes in what others have sent, and answers those who ask. It never waits."""

    @abstractmethod
    def state_of(self, process: int) -> str:
        """Where a process waits, as it told when it was last asked; "" if it has not answered."""

    @abstractmethod
    def close(self) -> None:
        """Ends the meetings: there are no more collectives."""
