"""Programs as users write them, from published definitions: loops over arrays in float64.

Each is written once for a module like `jax.numpy` and one like `jax.lax`, and once in plain NumPy,
which is what results are compared with.
"""
