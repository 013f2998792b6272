"""Initializers: functions that make the weights of layers from a random key and a shape.

>>> import xpr
>>> init = xpr.nn.initializers.he_normal()
>>> init(xpr.random.key(42), (2, 3)).shape
(2, 3)
"""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.nn.initializers._types import Initializer as Initializer
from xpr.nn.initializers.matrices import delta_orthogonal as delta_orthogonal
from xpr.nn.initializers.matrices import orthogonal as orthogonal
from xpr.nn.initializers.simple import constant as constant
from xpr.nn.initializers.simple import normal as normal
from xpr.nn.initializers.simple import ones as ones
from xpr.nn.initializers.simple import truncated_normal as truncated_normal
from xpr.nn.initializers.simple import uniform as uniform
from xpr.nn.initializers.simple import zeros as zeros
from xpr.nn.initializers.variance import glorot_normal as glorot_normal
from xpr.nn.initializers.variance import glorot_uniform as glorot_uniform
from xpr.nn.initializers.variance import he_normal as he_normal
from xpr.nn.initializers.variance import he_uniform as he_uniform
from xpr.nn.initializers.variance import kaiming_normal as kaiming_normal
from xpr.nn.initializers.variance import kaiming_uniform as kaiming_uniform
from xpr.nn.initializers.variance import lecun_normal as lecun_normal
from xpr.nn.initializers.variance import lecun_uniform as lecun_uniform
from xpr.nn.initializers.variance import variance_scaling as variance_scaling
from xpr.nn.initializers.variance import xavier_normal as xavier_normal
from xpr.nn.initializers.variance import xavier_uniform as xavier_uniform

_export_functions(__name__)
