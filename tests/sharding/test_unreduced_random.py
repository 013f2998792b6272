"""Random programs on parts of sums give what NumPy gives for the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.sharding import PartitionSpec as P
from xpr.sharding import reshard


@pytest.fixture(autouse=True)
def mesh() -> Iterator[Any]:
    made = xpr.make_mesh((2, 2), ("x", "y"))
    with xpr.set_mesh(made):
        yield made


def _step(lib: Any, kind: int, v: Any, factor: Any) -> Any:
    """One operation that is linear in `v`."""
    steps = (
        lambda: v + v,
        lambda: v.T,
        lambda: lib.concatenate([v, v], axis=-1),
        lambda: v[:, :2],
        lambda: v * factor,
        lambda: lib.stack([v, v]).sum(0),
        lambda: v.reshape((*v.shape, 1))[..., 0],
        lambda: lib.pad(v, ((0, 0), (0, 2))),
    )
    return steps[kind]()


@pytest.mark.parametrize("seed", range(8))
def test_linear_operations_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((4, 8)).astype(np.float32)
    b = rng.standard_normal((8, 4)).astype(np.float32)
    kinds = rng.integers(0, 8, size=4)
    rows = ("y", None)[rng.integers(2)]
    factor = np.float32(1.5)
    wanted = a @ b
    for kind in kinds:
        wanted = _step(np, kind, wanted, factor)

    def program(a: Any, b: Any, factor: Any) -> Any:
        v = jnp.dot(a, b, out_sharding=P(rows, None, unreduced={"x"}))
        for kind in kinds:
            v = _step(jnp, kind, v, factor)
        assert xpr.typeof(v).sharding.spec.unreduced == {"x"}
        return reshard(v, P())

    operands = (
        reshard(jnp.asarray(a), P(rows, "x")),
        reshard(jnp.asarray(b), P("x")),
        reshard(jnp.asarray(factor), P(reduced={"x"})),
    )
    # Sums of eight products in another order, of numbers up to about 3, a few times doubled.
    for f in (program, xpr.jit(program)):
        np.testing.assert_allclose(np.asarray(f(*operands)), wanted, rtol=1e-4, atol=1e-4)
    sent = xpr.jit(program).lower(*operands).communication().transfers
    sums = [t for t in sent if t.kind in ("all_reduce", "reduce_scatter")]
    assert len(sums) == 1, sent
