"""`jax.extend`: what libraries build on."""

from __future__ import annotations

from xpr.compat.modules.extend import backend as backend
from xpr.compat.modules.extend import core as core
from xpr.compat.modules.extend import linear_util as linear_util
from xpr.compat.modules.extend import random as random
from xpr.compat.modules.extend import source_info_util as source_info_util
