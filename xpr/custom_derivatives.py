"""Functions with derivative rules of their own: JAX's module of that name."""

from __future__ import annotations

from xpr.transforms.custom_jvp import SymbolicZero as SymbolicZero
from xpr.transforms.custom_jvp import custom_jvp as custom_jvp
from xpr.transforms.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from xpr.transforms.custom_vjp import closure_convert as closure_convert
from xpr.transforms.custom_vjp import custom_gradient as custom_gradient
from xpr.transforms.custom_vjp import custom_vjp as custom_vjp
