"""StableHLO programs of other tools, read and made programs of xpr's primitives.

Bytes and text become one form (`form.py`): `bytecode.py` reads MLIR bytecode in plain Python,
`text.py` has MLIR's bindings turn text into it, `container.py` reads what JAX's
`Exported.serialize` writes. `importer.py` walks the operations, and `rules/` says what each
becomes.
"""
