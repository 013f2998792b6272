"""Functions of StableHLO text for open sizes: their lines, and the values made of the sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xpr.export.generalize import SizeDependenceError
from xpr.export.open_lines import Dim, OpenLine, OpenNumber, OpenType, refusal

_ARGUMENT = re.compile(r"(%arg\d+): tensor<")


class OpenFunction:
    """The lines of one function, and the values computed from its arguments' sizes."""

    def __init__(self, header: OpenLine) -> None:
        if header.numbers:
            raise refusal([header.text])
        self._header = header.text
        self._arguments = list(zip(_ARGUMENT.findall(header.text), header.types, strict=False))
        self._top: list[str] = []
        self._known: dict[object, str] = {}
        self._body: list[str] = []
        self._count = 0

    def finished(self) -> list[str]:
        """All lines, those that compute sizes in front."""
        return [self._header, *self._top, *self._body]

    def _fresh(self) -> str:
        self._count += 1
        return f"%open{self._count}"

    def _define(self, key: object, text: str) -> str:
        """A value computed once, at the top of the function."""
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self._fresh()
            self._top.append(f"    {name} = {text}")
        return name

    def _index(self, value: int) -> str:
        return self._define(("constant", value), f"arith.constant {value} : index")

    def _size(self, name: str) -> str:
        """The value of an open size."""
        for argument, kind in self._arguments:
            for axis, dim in enumerate(kind.dims):
                if isinstance(dim, int) or set(dim) - {(), (name,)} or (name,) not in dim:
                    continue
                at = self._index(axis)
                value = self._define(
                    ("dim", argument, axis), f"tensor.dim {argument}, {at} : {kind}"
                )
                if dim.get((), 0):
                    less = self._index(dim[()])
                    value = self._define(
                        ("minus", value, less), f"arith.subi {value}, {less} : index"
                    )
                if dim[(name,)] != 1:
                    factor = self._index(dim[(name,)])
                    value = self._define(
                        ("over", value, factor), f"arith.divui {value}, {factor} : index"
                    )
                return value
        raise SizeDependenceError(
            f"a function of the program needs the open size {name}, and none of its arguments has "
            "it as a size of its own"
        )

    def _value(self, dim: Dim) -> str:
        """A size as a value of type index."""
        if isinstance(dim, int):
            return self._index(dim)
        total = ""
        for monomial, factor in dim.items():
            part = self._index(factor) if factor != 1 or not monomial else ""
            for name in monomial:
                size = self._size(name)
                part = (
                    self._define(("*", part, size), f"arith.muli {part}, {size} : index")
                    if part
                    else size
                )
            total = (
                self._define(("+", total, part), f"arith.addi {total}, {part} : index")
                if total
                else part
            )
        return total

    def _vector(self, dims: Sequence[Dim]) -> str:
        values = ", ".join(map(self._value, dims))
        text = f"tensor.from_elements {values} : tensor<{len(dims)}xindex>"
        return self._define(text, text)

    def _open_dims(self, kind: OpenType) -> str:
        values = [self._value(d) for d in kind.dims if not isinstance(d, int)]
        return f"{{{', '.join(values)}}}" if values else ""

    def _scalar(self, number: OpenNumber, element: str) -> str:
        """A number as a tensor of rank 0."""
        value = self._value(number.terms)
        if number.is_float:
            integer = self._define(("i64", value), f"arith.index_cast {value} : index to i64")
            value = self._define((element, integer), f"arith.sitofp {integer} : i64 to {element}")
            if number.inverse:
                one = self._define(("one", element), f"arith.constant 1.0 : {element}")
                value = self._define(("/", value), f"arith.divf {one}, {value} : {element}")
            text = f"tensor.from_elements {value} : tensor<{element}>"
            return self._define(text, text)
        signless = element.removeprefix("u")
        cast = self._define((signless, value), f"arith.index_cast {value} : index to {signless}")
        text = f"tensor.from_elements {cast} : tensor<{signless}>"
        made = self._define(text, text)
        if signless == element:
            return made
        text = f"stablehlo.bitcast_convert {made} : (tensor<{signless}>) -> tensor<{element}>"
        return self._define(text, text)

    def _here(self, text: str) -> str:
        """A value computed at this place of the body."""
        name = self._fresh()
        self._body.append(f"    {name} = {text}")
        return name
