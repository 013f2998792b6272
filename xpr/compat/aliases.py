"""Private modules of JAX whose names are public ones here, or come from small modules of ours.

Libraries import from `jax._src` what JAX has elsewhere, too. Such a module gives the names of the
modules that are listed for it, in this order, and has none of its own.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from xpr.compat.loading import Loader

_OWN = "xpr.compat.modules"
_CORE = (f"{_OWN}._src.core", f"{_OWN}.core")
_SHARDING = ("xpr.sharding", "xpr")

ALIASES: dict[str, tuple[str, ...]] = {
    "ad_checkpoint": (f"{_OWN}._src.remat", "xpr.ad_checkpoint", "xpr"),
    "api": (f"{_OWN}._src.api_names", "xpr"),
    "api_util": (f"{_OWN}.api_util",),
    "array": (f"{_OWN}._src.array_names", "xpr"),
    "basearray": ("xpr",),
    "callback": ("xpr", "xpr.experimental"),
    "config": (f"{_OWN}._src.config_names",),
    "custom_batching": ("xpr.custom_batching",),
    "custom_derivatives": ("xpr.custom_derivatives", "xpr"),
    "custom_partitioning": ("xpr.experimental.custom_partitioning",),
    "debugging": ("xpr.debug",),
    "dlpack": ("xpr.dlpack",),
    "earray": (f"{_OWN}._src.array_names",),
    "effects": (f"{_OWN}._src.effect_names", f"{_OWN}.experimental.hijax"),
    "errors": ("xpr.errors",),
    "export": ("xpr.export",),
    "ffi": ("xpr.ffi",),
    "image.scale": ("xpr.image",),
    "interpreters": (f"{_OWN}.interpreters",),
    "interpreters.ad": (f"{_OWN}.interpreters.ad",),
    "interpreters.batching": (f"{_OWN}.interpreters.batching",),
    "interpreters.mlir": (f"{_OWN}.interpreters.mlir",),
    "interpreters.partial_eval": (f"{_OWN}.interpreters.partial_eval",),
    "interpreters.pxla": (f"{_OWN}.interpreters.pxla",),
    "interpreters.xla": (f"{_OWN}.interpreters.xla",),
    "image": ("xpr.image",),
    "layout": ("xpr.experimental.layout",),
    "lax": ("xpr.lax",),
    **{
        f"lax.{name}": ("xpr.lax", "xpr.lax.linalg")
        for name in (
            *("ann", "control_flow", "convolution", "eigh", "fft", "lax", "linalg", "other"),
            *("parallel", "slicing", "special", "svd", "utils", "windowed_reductions"),
        )
    },
    **{
        f"lax.control_flow.{name}": ("xpr.lax",)
        for name in ("common", "conditionals", "loops", "solves")
    },
    "lib": (f"{_OWN}._src.lib_names",),
    "linear_util": (f"{_OWN}.extend.linear_util",),
    "literals": (f"{_OWN}._src.literal_names",),
    "mesh": (*_SHARDING, f"{_OWN}._src.mesh_names"),
    "mesh_utils": ("xpr.experimental.mesh_utils",),
    "monitoring": (f"{_OWN}.monitoring",),
    "named_sharding": _SHARDING,
    "nn": ("xpr.nn",),
    "nn.functions": ("xpr.nn",),
    "nn.initializers": ("xpr.nn.initializers",),
    "numpy": ("xpr.numpy",),
    **{
        f"numpy.{name}": ("xpr.numpy", f"xpr.numpy.{name}", f"{_OWN}._src.numpy_names")
        for name in (
            *("array", "array_creation", "einsum", "fft", "indexing", "lax_numpy", "linalg"),
            *("polynomial", "reductions", "setops", "sorting", "tensor_contractions", "ufuncs"),
            *("util", "vectorize"),
        )
    },
    "ops": ("xpr.ops",),
    "ops.scatter": ("xpr.ops",),
    "partition_spec": _SHARDING,
    "pjit": (f"{_OWN}._src.pjit_names", "xpr.experimental.pjit", "xpr.sharding", "xpr"),
    "prng": ("xpr.random",),
    "profiler": ("xpr.profiler",),
    "public_test_util": (f"{_OWN}._src.test_names", "xpr.test_util"),
    "random": ("xpr.random",),
    "scipy": ("xpr.scipy",),
    "scipy.linalg": ("xpr.scipy.linalg",),
    "scipy.optimize": ("xpr.scipy.optimize",),
    "scipy.signal": ("xpr.scipy.signal",),
    "scipy.special": ("xpr.scipy.special",),
    "scipy.stats": ("xpr.scipy.stats",),
    "shard_map": ("xpr", "xpr.experimental.shard_map"),
    "sharding": _SHARDING,
    "sharding_impls": (f"{_OWN}._src.sharding_names", *_SHARDING),
    "source_info_util": (f"{_OWN}.extend.source_info_util", f"{_OWN}._src.source_names"),
    "stages": ("xpr.stages",),
    "state.primitives": ("xpr.ref", "xpr"),
    "state.discharge": ("xpr.ref",),
    "test_util": ("xpr.test_util",),
    "tree": ("xpr.tree",),
    "typing": ("xpr.typing", f"{_OWN}._src.typing_names"),
    "util": (f"{_OWN}._src.util_names", f"{_OWN}.api_util"),
}
"""The modules that `jax._src.<path>` has its names from."""


def is_alias(path: str) -> bool:
    """Whether `jax.<path>` is one of these modules."""
    return path.startswith("_src.") and path[len("_src.") :] in ALIASES


class AliasModule(ModuleType):
    """A module whose names are those of others."""

    def __getattr__(self, name: str) -> Any:
        # A submodule that has the name of one of the functions is found by its path only.
        for target in () if name.startswith("__") else self.__dict__["__targets__"]:
            try:
                module = importlib.import_module(target)
            except ModuleNotFoundError as error:
                if error.name != target:
                    raise
                continue
            try:
                return getattr(module, name)
            except AttributeError:
                continue
        path = f"{self.__name__}.{name}"
        if is_alias(path.removeprefix("jax.")):
            return alias_named(path)
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r} in xpr: docs/jax_compat.md lists "
            "what is missing"
        )


def alias_named(name: str) -> ModuleType:
    """The module `jax._src.<path>`, made when it is first asked for."""
    found = sys.modules.get(name)
    if found is None:
        found = sys.modules[name] = _made(name)
        found.__path__ = []
    return found


def _made(name: str) -> AliasModule:
    module = AliasModule(name, f"{name}: names that xpr has elsewhere.")
    module.__dict__["__targets__"] = ALIASES[name.removeprefix("jax._src.")]
    return module


class AliasLoader(Loader):
    """Makes the modules."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _made(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: names are looked up when they are asked for."""
