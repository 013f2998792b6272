"""Shardy's operations in MLIR's generic form, which a parser reads that does not know the dialect.

>>> generic('sdy.mesh @mesh = <["x"=4]>')
'"sdy.mesh"() {sym_name = "mesh", mesh = #sdy.mesh<["x"=4]>} : () -> ()'
"""

from __future__ import annotations

import re

_MESH = re.compile(r'sdy\.mesh @(?:"([^"]*)"|([\w.$-]+)) = (<[^\n{]*>)[^\n]*')
_CONSTRAINT = re.compile(
    r"sdy\.(sharding_constraint|reshard) (%[\w#]+) (<@.*>)(?: \{[^\n]*\})? : (\S[^\n]*)"
)
_RETURN = re.compile(r"sdy\.return(?: (%[^:\n]*?))?(?: : ([^\n]*))?(?=\n|$)")
_MANUAL = re.compile(
    r"sdy\.manual_computation\(([^)]*)\)\s*in_shardings=\[(.*?)\]\s*out_shardings=\[(.*?)\]"
    r"\s*manual_axes=\{([^}]*)\}\s*\(([^\n]*?)\)(?: attributes)?\s*\{(?=\n)",
)


def generic(text: str) -> str:
    """The text with the operations of Shardy's that it names rewritten."""
    if "sdy." not in text:
        return text
    text = _MESH.sub(_mesh, text)
    text = _CONSTRAINT.sub(_constraint, text)
    text = _RETURN.sub(_return, text)
    while (found := _MANUAL.search(text)) is not None:
        end = _closing(text, found.end() - 1)
        if end is None:
            break  # MLIR's parser says where the brace is missing
        operands, ins, outs, axes, arguments = found.groups()
        body = text[found.end() : end]
        attributes = (
            f"in_shardings = #sdy.sharding_per_value<[{ins}]>, "
            f"out_shardings = #sdy.sharding_per_value<[{outs}]>, "
            f"manual_axes = #sdy<manual_axes{{{axes}}}>"
        )
        head = f'"sdy.manual_computation"({operands}) ({{ ^bb0({arguments}):'
        text = f"{text[: found.start()]}{head}{body}}}) {{{attributes}}}{text[end + 1 :]}"
    return text


def _mesh(found: re.Match[str]) -> str:
    name = found[1] or found[2]
    return f'"sdy.mesh"() {{sym_name = "{name}", mesh = #sdy.mesh{found[3]}}} : () -> ()'


def _constraint(found: re.Match[str]) -> str:
    operation, value, sharding, type_ = found.groups()
    attribute = f"{{sharding = #sdy.sharding{sharding}}}"
    return f'"sdy.{operation}"({value}) {attribute} : ({type_}) -> {type_}'


def _return(found: re.Match[str]) -> str:
    return f'"sdy.return"({found[1] or ""}) : ({found[2] or ""}) -> ()'


def _closing(text: str, start: int) -> int | None:
    """Where the brace that opens at `start` closes; those in strings do not count."""
    depth, quoted, at = 0, False, start
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quoted:
            at += 1
        elif letter == '"':
            quoted = not quoted
        elif not quoted and letter in "{}":
            depth += 1 if letter == "{" else -1
            if depth == 0:
                return at
        at += 1
    return None
