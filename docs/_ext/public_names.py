"""What is public: the names that each module offers, and where they are defined."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from docstrings import Entry

MODULES = (
    "xpr",
    "xpr.numpy",
    "xpr.numpy.linalg",
    "xpr.numpy.fft",
    "xpr.lax",
    "xpr.lax.linalg",
    "xpr.accuracy",
    "xpr.random",
    "xpr.nn",
    "xpr.nn.initializers",
    "xpr.nn.quantize",
    "xpr.scipy.cluster.vq",
    "xpr.scipy.fft",
    "xpr.scipy.integrate",
    "xpr.scipy.interpolate",
    "xpr.scipy.linalg",
    "xpr.scipy.ndimage",
    "xpr.scipy.optimize",
    "xpr.scipy.signal",
    "xpr.scipy.sparse.linalg",
    "xpr.scipy.spatial.transform",
    "xpr.scipy.special",
    "xpr.scipy.stats",
    "xpr.tree",
    "xpr.tree_util",
    "xpr.flatten_util",
    "xpr.image",
    "xpr.dtypes",
    "xpr.custom_batching",
    "xpr.custom_derivatives",
    "xpr.ad_checkpoint",
    "xpr.sharding",
    "xpr.memory",
    "xpr.ref",
    "xpr.ad",
    "xpr.distributed",
    "xpr.export",
    "xpr.stages",
    "xpr.debug",
    "xpr.profiler",
    "xpr.recording",
    "xpr.errors",
    "xpr.example_libraries.optimizers",
    "xpr.example_libraries.stax",
    "xpr.experimental.checkpoint",
    "xpr.experimental.jet",
    "xpr.experimental.kernel",
    "xpr.experimental.layout",
    "xpr.experimental.mesh_utils",
    "xpr.experimental.multihost_utils",
    "xpr.experimental.ode",
    "xpr.experimental.pjit",
    "xpr.experimental.random",
    "xpr.experimental.shard_map",
    "xpr.experimental.sparse",
    "xpr.experimental.xla_metadata",
    "xpr.test_util",
    "xpr.typing",
)


def _names(module: ModuleType) -> list[str]:
    """The names that a module offers: those of `__all__`, or what it defines or passes on."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return sorted(name for name in names if not name.startswith("_"))


def _summary(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").split("\n\n")[0]


def find_entries() -> dict[str, list[Entry]]:
    """The entries of each public module, by the module's name.

    An object that several modules offer is described in the first of them.
    """
    found: dict[str, list[Entry]] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        entries = []
        for attribute in _names(module):
            value: Any = getattr(module, attribute)
            if isinstance(value, ModuleType):
                continue
            entries.append(Entry(attribute, name, value, _summary(module)))
        found[name] = entries
    return found
