"""Programs as data, with the user's line of each equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, sub_jaxprs
from xpr.core.source_info import NameStack, SourceInfo
from xpr.export.program_data import UNSOUND, Arrays, Json, ProgramReader, ProgramWriter
from xpr.export.program_limits import check_budget


class RecordedSource(SourceInfo):
    """A place in a program of another process."""

    __slots__ = ("_file", "_function", "_place")

    def __init__(self, file: str, place: tuple[int, int], function: str, stack: NameStack) -> None:
        super().__init__(None, 0, stack)
        self._file = file
        self._place = place
        self._function = function

    @property
    def filename(self) -> str:
        return self._file

    @property
    def function(self) -> str:
        return self._function

    def position(self) -> tuple[int, int]:
        return self._place

    def at(self, stack: NameStack) -> SourceInfo:
        return RecordedSource(self._file, self._place, self._function, stack)

    def __str__(self) -> str:
        line, column = self._place
        return f"{self._file}:{line}:{column} ({self._function})"


class _Writer(ProgramWriter):
    def jaxpr(self, jaxpr: Jaxpr) -> dict[str, Json]:
        data = super().jaxpr(jaxpr)
        data["lines"] = [_line(eqn.source_info) for eqn in jaxpr.eqns]
        data["arg_names"] = list(jaxpr.debug_info.arg_names)
        return data


def _line(source: SourceInfo) -> Json:
    return [source.filename, *source.position(), source.function, list(source.stack)]


class _Reader(ProgramReader):
    def closed(self, data: Json) -> ClosedJaxpr:
        found = super().closed(data)
        for eqn, line in zip(found.eqns, data["lines"], strict=True):
            file, row, column, function, stack = line
            eqn.source_info = RecordedSource(
                str(file), (int(row), int(column)), str(function), tuple(map(str, stack))
            )
        info = DebugInfo(str(data["name"]), "", "", tuple(map(str, data["arg_names"])))
        return found.map_jaxpr(lambda jaxpr: jaxpr.replace(debug_info=info))


def program_with_lines(closed: ClosedJaxpr) -> tuple[list[Json], Arrays]:
    """A program as data; NotImplementedError, naming the operation, for what cannot be."""
    writer = _Writer()
    writer.closed(without_reports(closed))
    check_budget(writer.programs)
    return writer.programs, writer.arrays


def program_from_lines(programs: Sequence[Json], arrays: Arrays) -> ClosedJaxpr:
    """What `program_with_lines` wrote; ValueError for data that is not one."""
    try:
        check_budget(programs)
        return _Reader(programs, arrays).programs[-1]
    except ValueError:
        raise
    except UNSOUND as error:
        raise ValueError(f"the program's data is damaged: {error!r}") from error


def without_reports(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without prints and callbacks that return nothing: they are not called again."""
    return ClosedJaxpr(_without_reports(closed.jaxpr), closed.consts)


def _without_reports(jaxpr: Jaxpr) -> Jaxpr:
    if not jaxpr.effects and not any(map(_is_report, jaxpr.eqns)):
        return jaxpr
    eqns = [_inside(eqn) for eqn in jaxpr.eqns if not _is_report(eqn)]
    effects = frozenset().union(*(eqn.effects for eqn in eqns))
    return jaxpr.replace(eqns=eqns, effects=effects)


def _is_report(eqn: JaxprEqn) -> bool:
    return eqn.primitive.family == "callback" and not eqn.outvars


def _inside(eqn: JaxprEqn) -> JaxprEqn:
    if not any(sub.effects for sub in sub_jaxprs(eqn.params)):
        return eqn
    params = {name: _param(value) for name, value in eqn.params.items()}
    effects = frozenset().union(*(sub.effects for sub in sub_jaxprs(params)))
    return eqn.replace(params=params, effects=effects)


def _param(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return without_reports(value)
    if isinstance(value, Jaxpr):
        return _without_reports(value)
    if isinstance(value, tuple):
        return tuple(map(_param, value))
    return value
