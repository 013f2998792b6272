"""Every sampler gives JAX's numbers: eagerly, compiled, from raw keys and under `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.random.cases import CASES, LOOPS, ORIGINAL_CASES, ORIGINAL_SEED, SEEDS, Case

_DATA = Path(__file__).parent / "data"
# Cases whose compiled programs are compared as well share modules, since compiling is slow.
_GROUP = 12


def _golden(name: str) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(_DATA / f"{name}.npz") as file:
        return dict(file)


_GOLDEN = {seed: _golden(f"seed_{seed}") for seed in SEEDS}
_ORIGINAL = _golden(f"original_{ORIGINAL_SEED}")


def _check(case: Case, found: Any, seed: int, how: str, golden: Any = None) -> None:
    value, wanted = np.asarray(found), (_GOLDEN[seed] if golden is None else golden)[case.name]
    if value.dtype == ml_dtypes.bfloat16:
        wanted = wanted.view(ml_dtypes.bfloat16)
    what = f"{case.name}, seed {seed}, {how}"
    assert value.shape == wanted.shape, what
    assert value.dtype == wanted.dtype, what
    if value.dtype.kind in "biu" or not (case.rtol or case.atol):
        np.testing.assert_array_equal(value, wanted, err_msg=what)
        return
    info = ml_dtypes.finfo(value.dtype)
    eps = float(info.eps)
    wide = np.complex128 if value.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        value.astype(wide),
        wanted.astype(wide),
        rtol=case.rtol * eps,
        # Compiled programs take numbers below the least normal one for 0.
        atol=case.atol * eps + float(info.tiny),
        err_msg=what,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_eager(case: Case) -> None:
    with xpr.enable_x64(case.x64):
        for seed in SEEDS:
            _check(case, case.draw(xpr.random, xpr.random.key(seed)), seed, "typed key")
        raw = xpr.random.PRNGKey(SEEDS[0])
        _check(case, case.draw(xpr.random, raw), SEEDS[0], "raw key")


def _groups(loops: bool) -> list[Any]:
    found = []
    for x64 in (False, True):
        cases = [c for c in CASES if c.x64 is x64 and (loops or c.name not in LOOPS)]
        for start in range(0, len(cases), _GROUP):
            group = cases[start : start + _GROUP]
            found.append(pytest.param(group, id=f"{group[0].name}-to-{group[-1].name}"))
    return found


def _all(group: Sequence[Case]) -> Callable[[Any], list[Any]]:
    return lambda key: [case.draw(xpr.random, key) for case in group]


@pytest.mark.parametrize("group", _groups(loops=False))
def test_compiled(group: Sequence[Case]) -> None:
    with xpr.enable_x64(group[0].x64):
        compiled = xpr.jit(_all(group))
        for seed in SEEDS:
            for case, found in zip(group, compiled(xpr.random.key(seed)), strict=True):
                _check(case, found, seed, "compiled")


@pytest.mark.parametrize("group", _groups(loops=True))
def test_vmap(group: Sequence[Case]) -> None:
    with xpr.enable_x64(group[0].x64):
        raw = np.stack([np.asarray(xpr.random.PRNGKey(seed)) for seed in SEEDS])
        batches = xpr.vmap(_all(group))(xpr.random.wrap_key_data(raw))
        for case, found in zip(group, batches, strict=True):
            for i, seed in enumerate(SEEDS):
                _check(case, found[i], seed, "vmap")


# ---- the older layout of random bits


@pytest.mark.parametrize("case", ORIGINAL_CASES, ids=lambda c: c.name)
def test_original_layout(case: Case) -> None:
    with xpr.enable_x64(case.x64), xpr.threefry_partitionable(False):
        for key in (xpr.random.key(ORIGINAL_SEED), xpr.random.PRNGKey(ORIGINAL_SEED)):
            found = case.draw(xpr.random, key)
            _check(case, found, ORIGINAL_SEED, "original", _ORIGINAL)


@pytest.mark.parametrize("x64", [False, True])
def test_original_layout_compiled_and_batched(x64: bool) -> None:
    """Bits of each width, keys and the commonest samplers, in one module with a batch of keys."""
    group = [c for c in ORIGINAL_CASES if c.x64 is x64][::2]
    seeds = [ORIGINAL_SEED, 7]
    raw = np.stack([np.asarray(xpr.random.PRNGKey(seed)) for seed in seeds])
    with xpr.enable_x64(x64), xpr.threefry_partitionable(False):
        one, batch = xpr.jit(lambda key, keys: (_all(group)(key), xpr.vmap(_all(group))(keys)))(
            xpr.random.key(ORIGINAL_SEED), xpr.random.wrap_key_data(raw)
        )
        for case, found, both in zip(group, one, batch, strict=True):
            _check(case, found, ORIGINAL_SEED, "original, compiled", _ORIGINAL)
            _check(case, both[0], ORIGINAL_SEED, "original, vmap", _ORIGINAL)
