"""Importing this module makes `jax` and its submodules name xpr, for the whole process.

>>> import xpr.compat.jax
>>> import jax, jax.numpy as jnp
>>> jax.grad(lambda x: jnp.sum(x**2))(jnp.arange(3.0))
Array([0., 2., 4.], dtype=float32)

Raises ImportError if JAX itself has been imported already.
"""

from __future__ import annotations

from xpr.compat.finder import install

install()
