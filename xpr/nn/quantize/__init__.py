"""Arrays in low precision: blocks of numbers that share a scale.

`quantize` makes a `QuantizedArray` of an array, which functions take in its place: products, `take`
and whatever else reads arrays. It is a pytree, so it passes through `jit`, `scan` and files.

>>> import xpr, xpr.numpy as jnp
>>> from xpr.nn.quantize import quantize
>>> w = quantize(jnp.linspace(-1, 1, 4 * 64).reshape(4, 64), "q8_0")
>>> w
QuantizedArray(shape=(4, 64), format='q8_0', nbytes=272)
>>> xpr.jit(lambda x, w: x @ w.T)(jnp.ones((2, 64)), w).shape
(2, 4)
"""

from __future__ import annotations

from xpr.nn.quantize.array import QuantizedArray as QuantizedArray
from xpr.nn.quantize.array import dequantize as dequantize
from xpr.nn.quantize.array import from_blocks as from_blocks
from xpr.nn.quantize.array import quantize as quantize
from xpr.nn.quantize.formats import Affine as Affine
from xpr.nn.quantize.formats import Format as Format
from xpr.nn.quantize.formats import Gguf as Gguf
