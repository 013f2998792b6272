"""Lowering of Fourier transforms: pocketfft in the host process, or stages of products elsewhere.

Never `stablehlo.fft`, of which IREE compiles single precision and powers of two only.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules import _fft_stages
from xpr.primitives.fft import FftType, fft_in_place, fft_on_host, fft_p


def _fft_lower(
    ctx: LoweringContext, x: Value, *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> Value:
    params: dict[str, Any] = {"fft_type": fft_type, "fft_lengths": fft_lengths}
    out = ctx.out_avals[0]
    if 0 in x.shape or 0 in out.shape:
        return ctx.constant(0, out.dtype, out.shape)
    # The usual count of operations of a transform of n complex numbers: 5 n log2(n).
    ctx.module.flops += 5 * max(x.aval.size, out.size) * math.log2(math.prod(fft_lengths) + 1)
    if ctx.target.host_libraries:
        in_place = fft_type in (FftType.FFT, FftType.IFFT)
        function = functools.partial(fft_in_place if in_place else fft_on_host, **params)
        types = [(out.shape, out.dtype)]
        return ctx.module.host_call(ctx, "fft", function, [x], types, in_place=in_place)[0]
    return ctx.inline(_fft_stages.fft, x, **params)


register(fft_p, _fft_lower)
