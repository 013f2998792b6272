"""Slices of padded arrays, written as what they are: the array itself, moved and padded.

A stencil pads its array by an element on each side and reads the result at several offsets. The
padded array has sizes that fit no mesh; what is read of it has those of the array again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xpr.core.jaxpr import Atom, JaxprEqn
from xpr.core.primitive import get_primitive


def without_padded(eqns: Sequence[JaxprEqn], outvars: Sequence[Atom]) -> list[JaxprEqn]:
    """The same equations, but for arrays that are padded only to be sliced."""
    made_by: dict[Atom, JaxprEqn] = {e.outvars[0]: e for e in eqns if _is_pad(e)}
    if not made_by:
        return list(eqns)
    direct: dict[int, JaxprEqn] = {}
    for eqn in eqns:
        pad = made_by.get(eqn.invars[0]) if _is_slice(eqn) else None
        made = None if pad is None else _one(pad, eqn)
        if made is not None:
            direct[id(eqn)] = made
    uses = Counter[Atom](v for e in eqns for v in e.invars)
    uses.update(outvars)
    uses.subtract(e.invars[0] for e in eqns if id(e) in direct)
    needless = {id(p) for v, p in made_by.items() if not uses[v]}
    found: list[JaxprEqn] = []
    for eqn in eqns:
        if id(eqn) in needless:
            continue
        other = direct.get(id(eqn))
        # An array that is padded all the same is better read than padded again.
        kept = other is None or id(made_by[eqn.invars[0]]) not in needless
        found.append(eqn if kept or other is None else other)
    return found


def _is_pad(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "pad" and all(
        low >= 0 and high >= 0 and not interior for low, high, interior in _config(eqn)
    )


def _is_slice(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "slice" and all(s == 1 for s in eqn.params["strides"] or ())


def _config(eqn: JaxprEqn) -> Sequence[tuple[int, int, int]]:
    return eqn.params["padding_config"]


def _one(pad: JaxprEqn, part: JaxprEqn) -> JaxprEqn | None:
    """The slice `part` of what `pad` makes; None where nothing is left of the array itself."""
    shape = pad.invars[0].aval.shape
    starts, limits = part.params["start_indices"], part.params["limit_indices"]
    config: list[tuple[int, int, int]] = []
    for n, (low, _, _), start, limit in zip(shape, _config(pad), starts, limits, strict=True):
        if start >= low + n or limit <= low:
            return None
        config.append((low - start, limit - low - n, 0))
    return part.replace(
        primitive=get_primitive("pad"),
        invars=list(pad.invars),
        params={"padding_config": tuple(config)},
    )
