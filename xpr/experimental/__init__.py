"""Names of JAX's module of that name."""

from __future__ import annotations

from xpr.callbacks import io_callback as io_callback
