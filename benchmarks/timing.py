"""Measuring: implementations take turns, so that a noisy moment hits them all alike."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.sessions import Session


@dataclass(frozen=True)
class Measurement:
    """Samples of one quantity, in seconds or bytes."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, in parts of the median."""
        if len(self.samples) < 2 or self.median == 0:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / 2 / self.median


def loops_for(session: Session, least_seconds: float) -> int:
    """How many calls one sample needs to last ``least_seconds``; also warms the session up."""
    loops = 1
    while True:
        taken = session.seconds(loops)
        if taken >= least_seconds:
            return loops
        # Aim a little beyond, but never grow by more than ten on the word of one short sample.
        wanted = loops * 1.2 * least_seconds / max(taken, 1e-9)
        loops = max(loops + 1, min(loops * 10, int(wanted)))


def take_turns(
    sessions: dict[str, Session], rounds: int, least_seconds: float
) -> dict[str, Measurement]:
    """Seconds per call of each session, ``rounds`` samples each, in turns.

    Each round begins with another session, so that none always follows the same one.
    """
    names = list(sessions)
    loops = {name: loops_for(sessions[name], least_seconds) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(sessions[name].seconds(loops[name]) / loops[name])
    return {name: Measurement(tuple(values)) for name, values in samples.items()}


def ratio_of_medians(a: Measurement | None, b: Measurement | None) -> float | None:
    """``a / b``, where both were measured."""
    if a is None or b is None or b.median == 0:
        return None
    return a.median / b.median


def geometric_mean(ratios: Sequence[float]) -> float | None:
    """The geometric mean, or None of nothing."""
    return statistics.geometric_mean(ratios) if ratios else None
