"""Functions that neural networks are made of, under JAX's names.

`initializers` makes weights, and `quantize` arrays in low precision.

>>> import xpr, xpr.numpy as jnp
>>> xpr.nn.softmax(xpr.nn.relu(jnp.array([-1.0, 0.0, 0.0])))
Array([0.33333334, 0.33333334, 0.33333334], dtype=float32)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.nn.activations import celu as celu
from xpr.nn.activations import elu as elu
from xpr.nn.activations import gelu as gelu
from xpr.nn.activations import glu as glu
from xpr.nn.activations import hard_sigmoid as hard_sigmoid
from xpr.nn.activations import hard_silu as hard_silu
from xpr.nn.activations import hard_swish as hard_swish
from xpr.nn.activations import hard_tanh as hard_tanh
from xpr.nn.activations import identity as identity
from xpr.nn.activations import leaky_relu as leaky_relu
from xpr.nn.activations import log1mexp as log1mexp
from xpr.nn.activations import log_sigmoid as log_sigmoid
from xpr.nn.activations import mish as mish
from xpr.nn.activations import relu as relu
from xpr.nn.activations import relu6 as relu6
from xpr.nn.activations import selu as selu
from xpr.nn.activations import sigmoid as sigmoid
from xpr.nn.activations import silu as silu
from xpr.nn.activations import soft_sign as soft_sign
from xpr.nn.activations import softplus as softplus
from xpr.nn.activations import sparse_plus as sparse_plus
from xpr.nn.activations import sparse_sigmoid as sparse_sigmoid
from xpr.nn.activations import squareplus as squareplus
from xpr.nn.activations import swish as swish
from xpr.nn.attention import dot_product_attention as dot_product_attention
from xpr.nn.encoding import one_hot as one_hot
from xpr.nn.normalization import log_softmax as log_softmax
from xpr.nn.normalization import logmeanexp as logmeanexp
from xpr.nn.normalization import logsumexp as logsumexp
from xpr.nn.normalization import softmax as softmax
from xpr.nn.normalization import standardize as standardize
from xpr.nn.scaled import get_scaled_dot_general_config as get_scaled_dot_general_config
from xpr.nn.scaled import scaled_dot_general as scaled_dot_general
from xpr.nn.scaled import scaled_matmul as scaled_matmul
from xpr.numpy import tanh as tanh

if TYPE_CHECKING:
    from xpr.nn import initializers as initializers
    from xpr.nn import quantize as quantize
else:  # type checkers would take any name for an attribute

    def __getattr__(name: str) -> object:
        # Initializers need xpr.random, which takes longer to load than all of this package.
        if name in ("initializers", "quantize"):
            return importlib.import_module(f"xpr.nn.{name}")
        raise AttributeError(f"module 'xpr.nn' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), "initializers", "quantize"})


_export_functions(__name__)
