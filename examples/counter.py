"""State under jit: it goes in as an argument and comes out as a result.

A compiled function is traced once and then replayed, so what it stores in an object happens only
while it is traced. Where the state is an argument and a result, every call sees the latest one,
and the other transformations apply as well: `vmap` keeps many states at once, and `scan` hands the
state from step to step inside one compiled function.

    python examples/counter.py
"""

import sys
from typing import Any, NamedTuple

import xpr
import xpr.numpy as xnp
from xpr import lax


class Counter:
    """A counter as one writes it in Python: it changes itself."""

    def __init__(self) -> None:
        self.n = 0

    def count(self) -> int:
        """Count one more, and say how many that makes."""
        self.n += 1
        return self.n


def count(n: Any) -> tuple[Any, Any]:
    """The same as a pure function: the state goes in; what to say and the new state come out."""
    n = n + 1
    return n, n


class Mean(NamedTuple):
    """What the mean of all numbers so far needs; a named tuple is a pytree."""

    count: Any
    mean: Any


def observe(state: Mean, x: Any) -> tuple[Mean, Any]:
    """Take one more number in: the new state, and the mean so far."""
    count = state.count + 1
    mean = state.mean + (x - state.mean) / count
    return Mean(count, mean), mean


def main() -> int:
    """Print what each kind of state does under jit."""
    counter = Counter()
    compiled = xpr.jit(counter.count)
    print("state in an object: ", *(int(compiled()) for _ in range(3)))

    step = xpr.jit(count)
    n: Any = 0
    said = []
    for _ in range(3):
        value, n = step(n)
        said.append(int(value))
    print("state as an argument:", *said)

    values, _ = xpr.jit(xpr.vmap(count))(xnp.array([0, 10, 20]))
    print("many counters at once:", *values.tolist())

    numbers = xnp.array([2.0, 4.0, 9.0, 1.0])
    state, means = xpr.jit(lambda x: lax.scan(observe, Mean(0, 0.0), x))(numbers)
    print("means so far, by scan:", *means.tolist())
    print("the state that scan leaves:", int(state.count), float(state.mean))
    return 0


if __name__ == "__main__":
    sys.exit(main())
