"""`shard_map` under the name and with the parameters that it had first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.sharding import AbstractMesh, Mesh
from xpr.transforms.shard_map import shard_map as _shard_map

__all__ = ["shard_map"]


def shard_map(
    f: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
) -> Callable[..., Any]:
    """`xpr.shard_map` over all axes of `mesh`; `check_rep` is its `check_vma`.

    >>> import numpy as np, xpr
    >>> from xpr.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(np.array(xpr.devices("cpu")[:1]), ("x",))
    >>> shard_map(lambda a: a * 2, mesh, P("x"), P("x"))(np.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
