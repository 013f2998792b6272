"""Random bits and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import lax
from xpr import random as xpr_random
from xpr.core import dtypes
from xpr.core.primitive import get_primitive
from xpr.export.stablehlo.importer import Rule, Site, dtype_of, shape_of
from xpr.lax.generators import RandomAlgorithm

_ALGORITHMS = {
    "DEFAULT": RandomAlgorithm.RNG_DEFAULT,
    "THREE_FRY": RandomAlgorithm.RNG_THREE_FRY,
    "PHILOX": RandomAlgorithm.RNG_PHILOX,
}


def rng_bit_generator(state: Any, algorithm: str, shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """The state after, and bits. A state of three 64-bit words has a counter of 128 bits."""
    kind = np.dtype(dtype)
    word = np.dtype(f"u{kind.itemsize}")
    if shape_of(state) == (3,):
        low = lax.slice_in_dim(state, 0, 2)
        after, bits = lax.rng_bit_generator(low, shape, word, _ALGORITHMS[algorithm])
        after = lax.concatenate([after, lax.slice_in_dim(state, 2, 3)], 0)
    else:
        after, bits = lax.rng_bit_generator(state, shape, word, _ALGORITHMS[algorithm])
    return [after, bits if word == kind else lax.bitcast_convert_type(bits, kind)]


def _bits(site: Site) -> Any:
    kind = site.tensor(1)
    algorithm = site.get("rng_algorithm", "DEFAULT")
    return rng_bit_generator(site.operand(0), algorithm, kind.static, kind.dtype)


def _rng(site: Site) -> Any:
    """Numbers from the state of the process, as `lax.rng_uniform` draws them."""
    a, b = site.operand(0), site.operand(1)
    sizes = site.known(site.operand(2))
    dtype = dtype_of(a)
    if site.need("rng_distribution") == "UNIFORM":
        if dtype == np.bool_:
            zero, two = np.int32(0), np.int32(2)
            return lax.ne(lax.rng_uniform(zero, two, sizes), np.zeros(sizes, np.int32))
        return lax.rng_uniform(a, b, sizes)
    if not dtypes.is_float(dtype):
        raise site.error(f"normal numbers of dtype {dtype}")
    draw = lax.rng_uniform(np.int32(0), np.int32(2**31 - 1), (2,))
    key = xpr_random.wrap_key_data(lax.convert_element_type(draw, np.uint32))
    normal = xpr_random.normal(key, sizes, dtype)
    return lax.add(lax.mul(normal, lax.broadcast(b, sizes)), lax.broadcast(a, sizes))


def threefry(site: Site) -> Any:
    """The custom call of JAX's GPU kernel: two keys, two counters."""
    return list(get_primitive("threefry2x32").bind(*site.operands[:4]))


RULES: dict[str, Rule] = {
    "stablehlo.rng": _rng,
    "stablehlo.rng_bit_generator": _bits,
}
