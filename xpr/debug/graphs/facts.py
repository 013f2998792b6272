"""What compiling tells of each equation: its floating-point operations and its dispatches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xpr.core.html import Facts
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from xpr.core.source_info import SourceInfo
from xpr.runtimes.base import Device

_FILE = "equation of xpr"


class _Mark(SourceInfo):
    """A place that stands for one equation, where the user's line may hold several."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__(_Mark.__init__.__code__, 0)
        self.number = number

    @property
    def filename(self) -> str:
        return _FILE

    def position(self) -> tuple[int, int]:
        return self.number, 1


class _Marking:
    """Copies of programs, whose equations have marks for places."""

    def __init__(self) -> None:
        self.eqns: list[JaxprEqn] = []
        self.marks: list[_Mark] = []
        # A program that is called twice is one program in the copy, too.
        self._copies: dict[int, Jaxpr | ClosedJaxpr] = {}

    def copy(self, jaxpr: Jaxpr) -> Jaxpr:
        eqns = []
        for eqn in jaxpr.eqns:
            mark = _Mark(len(self.eqns))
            self.eqns.append(eqn)
            self.marks.append(mark)
            params = {name: self._value(value) for name, value in eqn.params.items()}
            eqns.append(eqn.replace(params=params, source_info=mark))
        return jaxpr.replace(eqns=eqns)

    def _value(self, value: Any) -> Any:
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            known = self._copies.get(id(value))
            if known is None:
                known = self.copy(value) if isinstance(value, Jaxpr) else value.map_jaxpr(self.copy)
                self._copies[id(value)] = known
            return known
        if type(value) in (tuple, list):
            return type(value)(self._value(v) for v in value)
        return value


def facts_of(
    closed: ClosedJaxpr, name: str, device: Device, donated: Sequence[int], dispatches: bool
) -> dict[JaxprEqn, Facts]:
    """What becomes of the equations of a program for `device`, those of inner programs included.

    With `dispatches` the program is compiled as far as it is cut into them. Equations that are
    rewritten on the way, as the bodies of some loops and those on random keys are, have none.
    """
    # The compile path is lazy.
    from xpr.dispatch import compiling  # noqa: PLC0415
    from xpr.lowering.iree.compiler import lines_of_dispatches  # noqa: PLC0415

    marking = _Marking()
    marked = closed.map_jaxpr(marking.copy)
    target = compiling.target_of(device)
    module = compiling.lower(marked, target, name, donated, device=device)
    found: dict[int, set[str]] = {}
    if dispatches:
        for dispatch, lines in lines_of_dispatches(module, target).items():
            for file, number in lines:
                if file == _FILE:
                    found.setdefault(number, set()).add(dispatch)
    return {
        eqn: Facts(module.flops_by_place.get(mark), tuple(sorted(found.get(i, ()), key=_order)))
        for i, (eqn, mark) in enumerate(zip(marking.eqns, marking.marks, strict=True))
    }


def _order(name: str) -> tuple[int, str]:
    """The number at the end of a dispatch's name, or behind `dispatch_`, and the name."""
    number = re.search(r"dispatch_(\d+)", name)
    return (int(number[1]) if number else 0), name
