"""A plugin for pytest: `python -m pytest -p xpr.compat.pytest` runs tests with JAX's name."""

from __future__ import annotations

import importlib

importlib.import_module("xpr.compat.jax")
