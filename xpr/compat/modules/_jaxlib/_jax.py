"""`jaxlib._jax`: the classes that libraries compare types with."""

from __future__ import annotations

from xpr.core.errors import JaxRuntimeError as JaxRuntimeError
from xpr.dispatch.array import ArrayImpl as ArrayImpl
from xpr.runtimes.base import Device as Device
from xpr.transforms.jit import JittedFunction as PjitFunction

XlaRuntimeError = JaxRuntimeError

__all__ = ["ArrayImpl", "Device", "JaxRuntimeError", "PjitFunction", "XlaRuntimeError"]
