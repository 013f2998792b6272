"""Modules of JAX that have no meaning here: they can be imported, and raise when they are used.

Libraries import them at the top of a file for what they do on a TPU. Each name in such a module
is a class, so that it may stand in annotations, in `isinstance` and as a base; to call it, or a
class made of it, raises NotImplementedError.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from xpr.compat.loading import Loader

PAGE = 'docs/jax_compat.md, "What is missing", says why'

_KERNELS = "write the kernel in C, MLIR or as a shader with xpr.experimental.kernel"
_MLIR = "lowerings are written with other primitives, by jax.interpreters.mlir.lower_fun"
_XLA = "it is about XLA, which xpr does not use"
_EXPORT = "xpr.export has programs for other machines"

# The modules with all below them, and what to do in their place.
_ROOTS = {
    "jax.experimental.compilation_cache": "the cache is on by default (docs/compile_cache.md)",
    "jax.experimental.compute_on": "jax.default_device and device_put say where programs run",
    "jax.experimental.fused": _XLA,
    "jax.experimental.jax2tf": _EXPORT,
    "jax.experimental.mosaic": _KERNELS,
    "jax.experimental.pallas": _KERNELS,
    "jax.experimental.profiler": _XLA,
    "jax.experimental.rnn": "write the cell as the body of lax.scan",
    "jax.experimental.roofline": "xpr.debug.explain shows what programs read and write",
    "jax.experimental.scheduling_groups": _XLA,
    "jax.experimental.serialize_executable": _EXPORT,
    "jax.experimental.source_mapper": _XLA,
    "jax.experimental.topologies": _EXPORT,
    "jax.experimental.transfer": "device_put moves arrays between the processes' devices",
    "jax.extend.mlir": _MLIR,
    "jax.extend.pallas": _KERNELS,
    "jax.interpreters.mlir.ir": _MLIR,
    "jax.lib": _XLA,
    "jax._src.cudnn": "xpr.nn.dot_product_attention runs on every device",
    "jax._src.lib.gpu_triton": _KERNELS,
    "jax._src.lib.mlir": _MLIR,
    "jax._src.lib.triton": _KERNELS,
    "jax._src.lib.xla_client": _XLA,
    "jax._src.pallas": _KERNELS,
    "jax._src.tpu_custom_call": _KERNELS,
    "jaxlib.gpu_triton": _KERNELS,
    "jaxlib.mlir": _MLIR,
    "jaxlib.mosaic": _KERNELS,
    "jaxlib.triton": _KERNELS,
    "jaxlib.xla_client": _XLA,
}


def advice(name: str) -> str | None:
    """The sentence for messages about the module `name`; None for one that is not here."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        found = _ROOTS.get(".".join(parts[:end]))
        if found is not None:
            return found
    return None


class _Kind(type):
    """The class of the classes that stand in the place of what is not there."""

    _name: str
    _advice: str

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        cls._refuse()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{cls.__name__} has no attribute {name!r}")
        found = placeholder(f"{cls._name}.{name}", cls._advice)
        type.__setattr__(cls, name, found)
        return found

    def __bool__(cls) -> bool:
        return True  # a library may ask whether it has the name

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __iter__(cls) -> NoReturn:
        cls._refuse()

    def _refuse(cls) -> NoReturn:
        raise NotImplementedError(f"{cls._name} is not there in xpr: {cls._advice}. {PAGE}")


for _operator in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "and", "xor"):
    for _side in ("", "r"):
        setattr(_Kind, f"__{_side}{_operator}__", lambda cls, _: cls._refuse())
for _operator in ("len", "int", "index", "float", "enter"):
    setattr(_Kind, f"__{_operator}__", lambda cls, *_: cls._refuse())


def placeholder(name: str, why: str) -> Any:
    """The class in the place of the missing `name`.

    >>> kernel = placeholder("jax.experimental.pallas.pallas_call", "use something else")
    >>> isinstance(3, kernel), kernel | None is not None
    (False, True)
    >>> kernel(len)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    NotImplementedError: jax.experimental.pallas.pallas_call is not there in xpr: ...
    """
    short = name.rpartition(".")[2]
    return _Kind(short, (), {"_name": name, "_advice": why, "__module__": name.rpartition(".")[0]})


class UnavailableModule(ModuleType):
    """A module whose names can be imported and not be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = placeholder(f"{self.__name__}.{name}", advice(self.__name__) or "")
        setattr(self, name, found)
        return found


def module_named(name: str) -> ModuleType | None:
    """The module `name`, made when it is first asked for; None for one that is not here."""
    if advice(name) is None:
        return None
    found = sys.modules.get(name)
    if found is None:
        found = sys.modules[name] = UnavailableModule(name, f"{name} is not there in xpr: {PAGE}.")
        found.__path__ = []
    return found


class UnavailableLoader(Loader):
    """Makes the modules."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return UnavailableModule(spec.name, f"{spec.name} is not there in xpr: {PAGE}.")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the names are made when they are asked for."""
