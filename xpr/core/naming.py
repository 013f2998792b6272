"""How programs show operands: variables as a .. z, ba, bb, ... in the order of first sight."""

from __future__ import annotations

import numpy as np

from xpr.core.jaxpr import Literal, Var

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(n: int) -> str:
    """The name of the variable that is seen as number `n`.

    >>> letters(0), letters(25), letters(26)
    ('a', 'z', 'ba')
    """
    text = _LETTERS[n % 26]
    while n >= 26:
        n //= 26
        text = _LETTERS[n % 26] + text
    return text


class VariableNames:
    """Gives each variable a name, when it is first asked for."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self._count = 0

    def __call__(self, var: Var) -> str:
        name = self.names.get(var)
        if name is None:
            name = self.names[var] = letters(self._count)
            self._count += 1
        return name


def literal_text(literal: Literal) -> str:
    """The number that a program holds, as NumPy shows it in its own precision."""
    value = literal.val
    if isinstance(value, (np.generic, np.ndarray)):
        # 1e-06, not 9.999999974752427e-07.
        scalar = np.asarray(value)
        value = scalar[()] if scalar.dtype.kind in "biufc" else scalar.astype("f4")[()]
    return str(value)
