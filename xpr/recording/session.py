"""An interactive replay with the commands of `pdb`."""

from __future__ import annotations

import cmd
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr
from xpr.interpreters.walk import Array, Frame, Step, Walker
from xpr.interpreters.walk_text import array_text, chain_text, described
from xpr.recording.conditions import evaluated, matcher
from xpr.recording.names import equation_text, letters_of, values_by_name


class _RestartError(Exception):
    """The walk begins again, to go back."""


class _QuitError(Exception):
    """The user has seen enough."""


class Session(cmd.Cmd):
    """Stops after each equation that is asked for; going back runs the program again."""

    prompt = "(xpr) "

    def __init__(
        self,
        closed: ClosedJaxpr,
        args: Sequence[Array],
        start: Step | None = None,
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self._closed = closed
        self._args = list(args)
        self._breaks: list[tuple[str, Callable[[Step], bool]]] = []
        self._visited = 0
        self._stops: list[int] = []
        number = None if start is None else start.number
        self._stops_at: Callable[[Step], bool] = lambda s: number is None or s.number == number
        self._step: Step | None = None
        self._frame: Frame | None = None

    def run(self) -> None:
        """Until the user quits, or the program has run to its end."""
        while True:
            self._visited = 0
            try:
                with override("debug_nans", False), override("debug_infs", False):
                    results = Walker(after=self._visit).run(self._closed, self._args)
            except _RestartError:
                continue
            except _QuitError:
                return
            for i, result in enumerate(results):
                self._say(f"result {i}: {array_text(result)}")
            self._say("the program has run to its end")
            return

    def _say(self, text: str) -> None:
        self.stdout.write(f"{text}\n")

    def _visit(self, step: Step) -> None:
        self._visited += 1
        if not self._stops_at(step) and not any(test(step) for _, test in self._breaks):
            return
        self._stops.append(self._visited)
        self._step, self._frame = step, step.frame
        self._say("\n".join(described(step, np.asarray)))
        self.cmdloop()

    def _at(self) -> tuple[Step, Frame]:
        assert self._step is not None
        assert self._frame is not None
        return self._step, self._frame

    def _go_until(self, test: Callable[[Step], bool]) -> bool:
        self._stops_at = test
        return True

    # ---- commands

    def do_n(self, _: str) -> bool:
        """n(ext): the next equation of this program, or of one around it."""
        depth = self._at()[0].frame.depth
        return self._go_until(lambda step: step.frame.depth <= depth)

    def do_s(self, _: str) -> bool:
        """s(tep): the next equation, also inside of loops and calls."""
        return self._go_until(lambda _: True)

    def do_c(self, _: str) -> bool:
        """c(ontinue): to the next breakpoint, or to the end."""
        return self._go_until(lambda _: False)

    def do_r(self, _: str) -> bool:
        """r(eturn): the equation that runs this program."""
        depth = self._at()[0].frame.depth
        return self._go_until(lambda step: step.frame.depth < depth)

    def do_back(self, _: str) -> bool | None:
        """back: the equation before this one; the program runs again up to there."""
        target = self._visited - 1
        if target < 1:
            self._say("this is the first equation")
            return None
        self._stops_at = lambda _: self._visited == target
        raise _RestartError

    def do_b(self, text: str) -> None:
        """b(reak) FILE:LINE, an operation, or an expression; alone, it lists them."""
        if not text:
            for name, _ in self._breaks:
                self._say(name)
        elif text.rpartition(":")[2].isdigit():
            self._breaks.append((text, matcher(text, None, None)))
        elif text.isidentifier():
            self._breaks.append((text, lambda step: step.eqn.primitive.name == text))
        else:
            self._breaks.append((text, matcher(None, None, text)))

    def do_w(self, _: str) -> None:
        """w(here): the iterations and calls around the equation."""
        step, _frame = self._at()
        self._say(
            "\n".join(
                [f"{step.eqn.primitive.name} at {step.eqn.source_info}", *chain_text(step.frame)]
            )
        )

    def do_u(self, _: str) -> None:
        """u(p): look at the program around this one."""
        _step, frame = self._at()
        if frame.outer is None:
            self._say("this is the whole program")
            return
        self._frame = frame.outer
        self._say(self._frame.label or "the whole program")

    def do_d(self, _: str) -> None:
        """d(own): look at the program inside again."""
        step, frame = self._at()
        inside = [f for f in step.frame.chain() if f.outer is frame]
        self._frame = inside[0] if inside else frame
        self._say(self._frame.label or "the whole program")

    def do_l(self, _: str) -> None:
        """l(ist): the equations of this program; the arrow is at the one that has just run."""
        step, frame = self._at()
        names = letters_of(frame)
        inside = [f.eqn for f in step.frame.chain() if f.outer is frame]
        current = inside[0] if inside else step.eqn
        for eqn in frame.closed.eqns:
            arrow = "->" if eqn is current else "  "
            self._say(f"{arrow} {equation_text(eqn, names)}")

    def do_v(self, _: str) -> None:
        """v(alues): all values of this program by name."""
        for name, value in values_by_name(self._at()[1]).items():
            self._say(f"{name}: {array_text(np.asarray(value))}")

    def do_p(self, text: str) -> None:
        """p(rint) EXPRESSION: of values by name, with NumPy's functions."""
        value = self._value(text)
        if value is not None:
            is_array = isinstance(value, np.ndarray | np.generic)
            self._say(array_text(np.asarray(value)) if is_array else repr(value))

    def do_plot(self, text: str) -> None:
        """plot EXPRESSION: with matplotlib."""
        value = self._value(text)
        if value is None:
            return
        try:
            from matplotlib import pyplot  # noqa: PLC0415  optional, and large
        except ImportError:
            self._say("plot needs matplotlib: pip install matplotlib")
            return
        array = np.asarray(value)
        if array.ndim == 2:
            pyplot.imshow(array)
        else:
            pyplot.plot(array.ravel())
        pyplot.title(text)
        pyplot.show()

    def _value(self, text: str) -> Any:
        step, frame = self._at()
        seen = Step(step.number, frame, step.eqn, step.operands)
        try:
            return evaluated(text, seen)
        except Exception as error:  # of the user's expression, which may be anything
            self._say(f"{type(error).__name__}: {error}")
            return None

    def do_q(self, _: str) -> bool:
        """q(uit): the end of the session."""
        raise _QuitError

    def emptyline(self) -> bool:
        return False

    do_EOF = do_q
    do_next, do_step, do_continue, do_break, do_where = do_n, do_s, do_c, do_b, do_w
    do_up, do_down, do_list, do_print, do_quit, do_return = do_u, do_d, do_l, do_p, do_q, do_r
