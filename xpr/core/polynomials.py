"""Polynomials with integer coefficients in named sizes: what the extents of symbolic shapes are.

Terms map monomials to coefficients; a monomial is the sorted tuple of its names, each as often as
its power says: ``{("a", "b", "b"): 2, (): 1}`` is ``2*a*b^2 + 1``. A name may stand for a function
of two polynomials, and is then the text of its call: ``("floordiv(b + 1, 2)",)``.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping

Monomial = tuple[str, ...]
Terms = dict[Monomial, int]

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}
"""What names may stand for, beside sizes."""


def evaluate(terms: Mapping[Monomial, int], sizes: Mapping[str, int]) -> int:
    """The value of a polynomial.

    >>> evaluate({("a", "b"): 2, (): 1}, {"a": 3, "b": 4})
    25
    >>> evaluate({("b", "floordiv(b + 1, 2)"): 2}, {"b": 4})
    16
    """
    return sum(c * math.prod(_value_of_name(name, sizes) for name in m) for m, c in terms.items())


def _value_of_name(name: str, sizes: Mapping[str, int]) -> int:
    if not is_call(name):
        return sizes[name]
    found = sizes.get(name)
    if found is not None:
        return found
    function, *operands = parsed_call(name)
    return FUNCTIONS[function](*(evaluate(t, sizes) for t in operands))


def is_call(name: str) -> bool:
    """Whether a name stands for a function of two polynomials."""
    return name.endswith(")")


def variables(terms: Mapping[Monomial, int]) -> set[str]:
    """The sizes that a polynomial depends on.

    >>> sorted(variables({("a", "mod(b, 3)"): 1}))
    ['a', 'b']
    """
    found: set[str] = set()
    for monomial in terms:
        for name in monomial:
            if is_call(name):
                _, left, right = parsed_call(name)
                found |= variables(left) | variables(right)
            else:
                found.add(name)
    return found


@functools.lru_cache(1024)
def parsed_call(name: str) -> tuple[str, Terms, Terms]:
    """The function that a name stands for, and its two polynomials.

    >>> parsed_call("floordiv(2*b + 1, 3)")
    ('floordiv', {('b',): 2, (): 1}, {(): 3})
    """
    node = ast.parse(name, mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    left, right = map(_terms_of_node, node.args)
    return node.func.id, left, right


def _terms_of_node(node: ast.expr) -> Terms:
    match node:
        case ast.Constant(value=int(value)):
            return {(): value} if value else {}
        case ast.Name(id=name):
            return {(name,): 1}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return {m: -c for m, c in _terms_of_node(operand).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            sign = 1 if isinstance(op, ast.Add) else -1
            return added(_terms_of_node(left), _terms_of_node(right), sign)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return multiplied(_terms_of_node(left), _terms_of_node(right))
        case ast.Call():
            return {(ast.unparse(node),): 1}
        case _:
            raise ValueError(f"this is no polynomial: {ast.unparse(node)}")


def added(a: Mapping[Monomial, int], b: Mapping[Monomial, int], sign: int = 1) -> Terms:
    """The sum of two polynomials, or their difference for the sign -1."""
    total = dict(a)
    for monomial, factor in b.items():
        total[monomial] = total.get(monomial, 0) + sign * factor
    return {m: c for m, c in total.items() if c}


def multiplied(a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Terms:
    """The product of two polynomials."""
    total: Terms = {}
    for m, x in a.items():
        for n, y in b.items():
            key = tuple(sorted(m + n))
            total[key] = total.get(key, 0) + x * y
    return {m: c for m, c in total.items() if c}


def text_of(terms: Mapping[Monomial, int]) -> str:
    """A polynomial as one writes it: `2*b + 1`."""
    out = ""
    for monomial, factor in sorted(terms.items(), key=lambda t: (-len(t[0]), t[0])):
        names = "*".join(monomial)
        size = abs(factor)
        part = str(size) if not names else names if size == 1 else f"{size}*{names}"
        sign = "-" if factor < 0 else "+"
        out += f" {sign} {part}" if out else part if factor > 0 else f"-{part}"
    return out or "0"


def call_text(function: str, a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> str:
    """The name that stands for a function of two polynomials.

    >>> call_text("mod", {("b",): 1}, {(): 3})
    'mod(b, 3)'
    """
    return f"{function}({text_of(a)}, {text_of(b)})"
