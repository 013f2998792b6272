"""Arrays that a call of the host took or gave, and that are updated, are what they were for others.

What a callback is given, and what it returns, is a copy or a view that the program may not change
behind what is handed on later: to another callback or to who called the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from tests.conftest import first_device
from tests.lowering.iree_util import MENDED
from xpr import lax
from xpr import numpy as jnp
from xpr.lowering import passes

# Long enough for a sort on the host.
X = np.random.default_rng(0).integers(-9, 9, 200).astype(np.float32)
V = X * 2
PLACES = np.array([3, 8], np.int32)
UPDATED = np.where(np.isin(np.arange(200), PLACES), V + 5, V)


def _times(k: float) -> Callable[[Any], Any]:
    return lambda v: xpr.pure_callback(
        lambda a: np.asarray(a) * np.float32(k), xpr.ShapeDtypeStruct(v.shape, v.dtype), v
    )


def _added(v: Any, i: Any) -> Any:
    return v.at[i].add(5)


def _returned(v: Any, i: Any) -> Any:
    return v, _times(2)(v), _added(v, i)


def _looked_at(v: Any, i: Any) -> Any:
    xpr.debug.callback(lambda _: None, v)
    return v, _added(v, i)


def _sorted(v: Any, i: Any) -> Any:
    return v, jnp.sort(v), _added(v, i)


def _replaced(v: Any, i: Any) -> Any:
    return v, _times(2)(v), lax.dynamic_update_slice(v, jnp.asarray(UPDATED[3:9]), (i[0],))


def _reshaped(v: Any, i: Any) -> Any:
    return v.reshape(2, 100), _times(2)(v.reshape(4, 50)), _added(v, i)


def _given(v: Any, i: Any) -> Any:
    s = _times(1)(v)
    return s, _added(s, i)


def _called_twice(v: Any, i: Any) -> Any:
    first, updated = _times(2)(v), _added(v, i)
    return first, updated, _times(5)(updated), _times(3)(v)


def _in_a_branch(v: Any, i: Any) -> Any:
    doubled = _times(2)(v)
    return v, doubled, lax.cond(i[0] > 0, lambda: _added(v, i), lambda: v * 2)


def _in_a_loop(v: Any, i: Any) -> Any:
    def step(_: Any, carry: Any) -> Any:
        w = -carry[0]
        return w, _times(2)(w), _added(w, i)

    return lax.fori_loop(0, 2, step, (v, v * 0, v * 0))


CASES: dict[Callable[[Any, Any], Any], tuple[Any, ...]] = {
    _returned: (V, 2 * V, UPDATED),
    _looked_at: (V, UPDATED),
    _sorted: (V, np.sort(V), UPDATED),
    _replaced: (V, 2 * V, UPDATED),
    _reshaped: (V.reshape(2, 100), 2 * V.reshape(4, 50), UPDATED),
    _given: (V, UPDATED),
    _called_twice: (2 * V, UPDATED, 5 * UPDATED, 3 * V),
    _in_a_branch: (V, 2 * V, UPDATED),
    _in_a_loop: (V, 2 * V, UPDATED),
}


def _results(case: Callable[[Any, Any], Any], platform: str = "cpu") -> list[Any]:
    x, i = xpr.device_put((X, PLACES), first_device(platform))
    return list(xpr.jit(lambda x, i: case(x * 2, i))(x, i))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_what_is_handed_on_is_not_overwritten(case: Any, platform: str) -> None:
    for found, expected in zip(_results(case, platform), CASES[case], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", [_returned, _looked_at, _sorted, _reshaped, _given, _in_a_branch])
def test_without_the_pass_it_is_overwritten(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "aliasing_updates")
    assert not np.array_equal(_results(case)[0], CASES[case][0]), MENDED


def test_what_is_handed_on_once_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def lowered() -> str:
        f = xpr.jit(lambda x, i: (_times(2)(v := x * 2), _added(v, i)))
        return f.lower(X, PLACES).as_text("iree")

    text = lowered()
    monkeypatch.delitem(passes.PASSES, "aliasing_updates")
    assert text == lowered()
