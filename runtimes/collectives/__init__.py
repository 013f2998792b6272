"""Collectives: what the devices that run one program do together.

A program calls `perform`, in a thread that `taking_part` has made the place of one rank. See `base`
for what a collective is, `threads` for how the devices of one process meet, and `workers` for the
threads that run them: `run_together` does all that a run needs.
"""

from __future__ import annotations

from xpr.runtimes.collectives.base import (
    Collective,
    CollectiveError,
    Participant,
    PeerError,
)
from xpr.runtimes.collectives.current import current_participant, perform, taking_part
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.collectives.together import perform_for_all
from xpr.runtimes.collectives.workers import run_on_each, run_together

__all__ = [
    "Collective",
    "CollectiveError",
    "Participant",
    "PeerError",
    "RankPlaces",
    "current_participant",
    "perform",
    "perform_for_all",
    "run_on_each",
    "run_together",
    "taking_part",
]
