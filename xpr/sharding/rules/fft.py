"""Fourier transforms: the axes that are not transformed pass through."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, register
from xpr.sharding.rules._forms import Avals, Params, batched


def _fft(operands: Avals, results: Avals, params: Params) -> FactorRule:
    return batched(len(params["fft_lengths"]))(operands, results, params)


register("fft", _fft)
