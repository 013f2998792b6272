"""What programs of the tests begin with: meshes, and arrays that are spread, and compared here."""

from __future__ import annotations

HERE = """
import numpy as np
import pytest
import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import AxisType, Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

me, count = xpr.process_index(), xpr.process_count()
devices = xpr.devices()
mesh = Mesh(np.array(devices), ("x",))
grid = Mesh(np.array(devices).reshape(2, 2), ("x", "y"))


def named(*spec, mesh=mesh):
    return NamedSharding(mesh, P(*spec))


def check(x, expected, **tolerance):
    '''Compares the parts that are here.'''
    expected = np.asarray(expected)
    assert x.shape == expected.shape, (x.shape, expected.shape)
    assert x.addressable_shards
    for shard in x.addressable_shards:
        found, wanted = np.asarray(shard.data), expected[shard.index]
        if tolerance:
            np.testing.assert_allclose(found, wanted, **tolerance)
        else:
            np.testing.assert_array_equal(found, wanted)


def spread(values, *spec, mesh=mesh):
    return xpr.device_put(values, named(*spec, mesh=mesh))


"""
