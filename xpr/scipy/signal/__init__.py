"""Signals: convolutions, trends and spectra, under the names of `jax.scipy.signal`.

>>> import xpr.numpy as jnp
>>> from xpr.scipy import signal
>>> signal.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
Array([1., 3., 5., 3.], dtype=float32)
"""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.scipy.signal.convolution import convolve as convolve
from xpr.scipy.signal.convolution import convolve2d as convolve2d
from xpr.scipy.signal.convolution import correlate as correlate
from xpr.scipy.signal.convolution import correlate2d as correlate2d
from xpr.scipy.signal.convolution import fftconvolve as fftconvolve
from xpr.scipy.signal.inversion import istft as istft
from xpr.scipy.signal.spectra import csd as csd
from xpr.scipy.signal.spectra import stft as stft
from xpr.scipy.signal.spectra import welch as welch
from xpr.scipy.signal.trends import detrend as detrend

_export_functions(__name__)
