"""Step sizes that change as an optimization goes on: functions of the number of the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp

_Schedule = Callable[[Any], Any]


def constant(step_size: Any) -> _Schedule:
    """The same step size always.

    >>> constant(0.1)(7)
    0.1
    """
    return lambda _: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> _Schedule:
    """`step_size * decay_rate ** (i / decay_steps)` for step i.

    >>> exponential_decay(1.0, 10, 0.5)(20)
    0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> _Schedule:
    """`step_size / (1 + decay_rate * i / decay_steps)` for step i.

    With `staircase` the quotient i / decay_steps is rounded down.

    >>> inverse_time_decay(1.0, 10, 0.5)(20)
    0.5
    """

    def schedule(i: Any) -> Any:
        time = i / decay_steps
        return step_size / (1 + decay_rate * (jnp.floor(time) if staircase else time))

    return schedule


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0
) -> _Schedule:
    """From `step_size` to `final_step_size` in `decay_steps` steps, along (1 - share) ** power.

    >>> float(polynomial_decay(1.0, 10, 0.5)(5))
    0.75
    """

    def schedule(i: Any) -> Any:
        left = 1 - jnp.minimum(i, decay_steps) / decay_steps
        return final_step_size + (step_size - final_step_size) * left**power

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> _Schedule:
    """`values[k]` for a step that k of the `boundaries` are smaller than.

    Raises ValueError unless there is one value more than there are boundaries, in one row each.

    >>> schedule = piecewise_constant([10, 20], [0.4, 0.2, 0.1])
    >>> [round(float(schedule(i)), 1) for i in (0, 10, 11, 30)]
    [0.4, 0.4, 0.2, 0.1]
    """
    steps, sizes = np.asarray(boundaries), jnp.asarray(values)
    if steps.ndim != 1 or sizes.ndim != 1:
        raise ValueError(
            "boundaries and values must be sequences, got arrays of shapes "
            f"{steps.shape} and {sizes.shape}"
        )
    if len(steps) != len(sizes) - 1:
        raise ValueError(
            "boundaries length must be one shorter than values length, got "
            f"{len(steps)} and {len(sizes)}"
        )
    return lambda i: sizes[jnp.sum(jnp.asarray(i) > steps)]


def make_schedule(scalar_or_schedule: Any) -> _Schedule:
    """The schedule itself, or the one that is always that number; TypeError for anything else.

    >>> make_schedule(0.1)(3)
    0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if np.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(
        "a step size is a number or a function of the step, got an array of shape "
        f"{np.shape(scalar_or_schedule)}"
    )
