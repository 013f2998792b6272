"""Functions as programs to be stored, compiled for other machines, and run without the compiler.

`export(jit(f))(*args)` gives an `Exported`, which can be called, serialised and read back by
`deserialize`, and saved as a bundle: one file with compiled modules for several platforms. `load`
reads a bundle; `runtimes/bundle/` does so with NumPy and IREE's runtime alone.

>>> import xpr, xpr.numpy as jnp
>>> exported = xpr.export.export(xpr.jit(lambda x: x + 1))(jnp.ones(2))
>>> exported.call(jnp.zeros(2))
Array([1., 1.], dtype=float32)
"""

from __future__ import annotations

from xpr.export.deserialization import CorruptExportError as CorruptExportError
from xpr.export.deserialization import deserialize as deserialize
from xpr.export.exported import DisabledSafetyCheck as DisabledSafetyCheck
from xpr.export.exported import Exported as Exported
from xpr.export.exported import default_export_platform as default_export_platform
from xpr.export.exported import export as export
from xpr.export.exported import (
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
)
from xpr.export.exported import (
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from xpr.export.loaded import LoadedBundle as LoadedBundle
from xpr.export.loaded import load as load
from xpr.export.reading import from_stablehlo as from_stablehlo
from xpr.export.stablehlo.errors import StableHLOError as StableHLOError
from xpr.export.symbolic import SymbolicScope as SymbolicScope
from xpr.export.symbolic import is_symbolic_dim as is_symbolic_dim
from xpr.export.symbolic import symbolic_args_specs as symbolic_args_specs
from xpr.export.symbolic import symbolic_shape as symbolic_shape
from xpr.export.trees import (
    register_namedtuple_serialization as register_namedtuple_serialization,
)
from xpr.export.trees import (
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from xpr.export.without_runtime import save_c as save_c
from xpr.export.without_runtime import save_wasm as save_wasm
