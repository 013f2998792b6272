"""Arguments of a program are not overwritten: the pass that sees to it, and what is without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from tests.lowering.iree_util import MENDED
from xpr import lax
from xpr.lowering import passes


def _updated(x: Any, update: Any, place: Any) -> Any:
    return lax.dynamic_update_slice(x, update, (place,))


def _argument_after(f: Any) -> np.ndarray[Any, Any]:
    """An argument of zeros after a call that gives an array with ones in it."""
    x = xpr.device_put(np.zeros(4096, np.float32))
    found = f(x, np.ones(8, np.float32), np.int32(3))
    assert np.asarray(found).sum() == 8
    return np.array(x)


def test_an_argument_is_not_overwritten() -> None:
    assert not _argument_after(xpr.jit(_updated)).any()


def test_without_the_pass_it_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "argument_barriers")
    assert _argument_after(xpr.jit(lambda *args: _updated(*args))).sum() == 8, MENDED


@pytest.mark.parametrize(("donated", "uses"), [((), 3), ((0,), 2)])
def test_arguments_that_are_not_donated_have_a_last_use(donated: Any, uses: int) -> None:
    args = np.zeros(4096, np.float32), np.ones(8, np.float32), np.uint8(3)
    text = xpr.jit(_updated, donate_argnums=donated).lower(*args).as_text("iree")
    assert text.count("util.optimization_barrier") == uses
    assert "util.optimization_barrier %arg0" in text or donated
