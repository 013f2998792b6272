"""The version of JAX whose names and behaviour xpr follows."""

from __future__ import annotations

JAX_VERSION = "0.10.2"
JAX_VERSION_INFO = (0, 10, 2)
