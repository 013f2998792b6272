"""Functions with derivative rules of their own: JAX's module of that name."""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.primitives._custom_linear import remat_opt_p as remat_opt_p
from xpr.primitives.custom import custom_jvp_call_p as custom_jvp_call_p
from xpr.primitives.custom import custom_vjp_call_p as custom_vjp_call_p
from xpr.transforms.custom_jvp import SymbolicZero as SymbolicZero
from xpr.transforms.custom_jvp import custom_jvp as custom_jvp
from xpr.transforms.custom_linear import linear_call as linear_call
from xpr.transforms.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from xpr.transforms.custom_vjp import closure_convert as closure_convert
from xpr.transforms.custom_vjp import custom_gradient as custom_gradient
from xpr.transforms.custom_vjp import custom_vjp as custom_vjp
from xpr.transforms.custom_vjp import (
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from xpr.transforms.custom_vjp import zero_from_primal as zero_from_primal

_export_functions(__name__)
