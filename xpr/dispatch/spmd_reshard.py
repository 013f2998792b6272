"""What makes the programs of `resharding.py`."""

from __future__ import annotations

import functools

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import DebugInfo
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.dispatch.meshes import Places
from xpr.dispatch.spmd import SpmdProgram
from xpr.sharding import NamedSharding

_MAX_KEPT = 256


@functools.lru_cache(maxsize=_MAX_KEPT)
def reshard_program(aval: ShapedArray, source: NamedSharding, target: NamedSharding) -> SpmdProgram:
    """The program that does nothing but spread its argument in another way."""
    places = Places("device_put")
    places.add_sharding(source, "the array")
    places.add_sharding(target, "the sharding")
    mesh = places.mesh
    assert mesh is not None
    closed = trace_to_jaxpr(lambda x: [x], [aval], DebugInfo(func_name="device_put"))
    return SpmdProgram(
        closed,
        "device_put",
        mesh,
        [source],
        [target],
        interpreted=all(d.runtime.is_host for d in mesh.flat_devices),
        refinement=places.refinement(),
    )
