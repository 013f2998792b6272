"""Which operation of a compiled program made the NaN in its results, for `debug_nans`.

The program is walked by the reference rules, through its loops, branches and calls. The step whose
NaN reaches the results is reported with its line, its iteration and its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.config import override, state
from xpr.core.errors import XprError
from xpr.core.jaxpr import ClosedJaxpr, Literal
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.nonfinite import SHARDED, check_finite, error
from xpr.interpreters.origins import first_origin
from xpr.interpreters.walk import arrays_for
from xpr.interpreters.walk_text import described, place_text


def checked_call(
    program: Callable[[Sequence[Any]], Any],
    closed: ClosedJaxpr,
    leaves: Sequence[Any],
    donated: Sequence[int],
) -> Any:
    """The results of a program; the error for a NaN among them names the step that made it.

    Arguments that the call gives up are copied before it, because it may have to run again.
    """
    kept = list(leaves)
    for i in donated:
        kept[i] = np.array(leaves[i])
    failure: FloatingPointError
    try:
        return program(leaves)
    except FloatingPointError as error:
        failure = error
    # Raises a better one, mostly; here, or its traceback would begin with this one's.
    find_first_nonfinite(closed, kept, failure)
    raise failure


def find_first_nonfinite(
    closed: ClosedJaxpr, leaves: Sequence[Any], raised: FloatingPointError
) -> None:
    """Walks the program and raises FloatingPointError at the step that made what is looked for.

    `raised` is the error of the program's results; that of a program of several devices keeps its
    message and gets the notes of the step. Returns where no step did, because the compiler had
    ordered a sum in another way, say, and where the operands were donated and are gone, or lie in
    other processes too.
    """
    arrays = [x for x in leaves if isinstance(x, ArrayImpl)]
    if any(x.is_deleted() or not x.is_fully_addressable for x in arrays):
        return
    for x in leaves:
        _check(x, "an argument: the de-optimized function did not make it, it is in an input")
    failure = error_of_step(closed, leaves)
    if failure is not None and SHARDED in str(raised):
        for note in failure.__notes__[1:]:  # the first names the page, as that of `raised` does
            raised.add_note(note)
        return
    if failure is not None:
        raise failure
    for v in closed.jaxpr.outvars:
        if isinstance(v, Literal):
            _check(v.val, "a result: the de-optimized function did not make it, it is a literal")


def _check(x: Any, where: str) -> None:
    if isinstance(x, (Array, np.ndarray, np.generic, float, complex)):
        check_finite(np.asarray(x), where)


def error_of_step(closed: ClosedJaxpr, leaves: Sequence[Any]) -> FloatingPointError | None:
    """The error that names the step of a program; None where a walk does not find it.

    A program with effects is not run twice.
    """
    if closed.effects:
        return None
    wanted = [w for w in ("nan", "inf") if getattr(state, f"debug_{w}s")]
    args = arrays_for(closed, leaves)
    try:
        with override("debug_nans", False), override("debug_infs", False):
            found = [(w, *first_origin(closed, args, w)) for w in wanted]
    except (NotImplementedError, XprError):
        return None  # an operation without a reference rule: the program's name must do
    steps = [(step, what, infinite) for what, step, infinite in found if step is not None]
    if not steps:
        return None
    step, what, infinite = min(steps, key=lambda s: s[0].number)
    failure = error(what, step.eqn.primitive.name)
    for line in described(step, lambda value: value.array):
        failure.add_note(line)
    if infinite is not None and infinite is not step:
        failure.add_note(f"its operand is infinite since {place_text(infinite)}")
    return failure
