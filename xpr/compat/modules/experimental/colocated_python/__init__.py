"""`jax.experimental.colocated_python`: functions that run in Python where their arrays lie.

All devices of an xpr process belong to it, so that they run in the process itself. With several
processes they raise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.dispatch.transfer import device_put
from xpr.runtimes.registry import devices, process_count
from xpr.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def _check_one_process(name: str) -> None:
    if process_count() > 1:
        raise NotImplementedError(
            f"{name} runs in one process: there are {process_count()}, and none runs functions "
            "for another"
        )


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices that go with devices, or the mesh of them that goes with a mesh.

    CPU devices go with themselves, and with the nth of other devices the nth CPU device, of which
    there must be enough: else ValueError.
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        found = colocated_cpu_devices(tuple(mesh.devices.flat))
        grid = np.array(found, object).reshape(mesh.devices.shape)
        return Mesh(grid, mesh.axis_names, axis_types=mesh.axis_types)
    given = tuple(devices_or_mesh)
    if all(d.platform == "cpu" for d in given):
        return list(given)
    hosts = devices("cpu")
    if len(hosts) < len(given):
        raise ValueError(
            f"colocated_cpu_devices: {len(given)} devices need as many CPU devices, there are "
            f"{len(hosts)}"
        )
    return hosts[: len(given)]


def _on_host(x: Any) -> Any:
    """An array on the CPU devices that go with its own."""
    sharding: Sharding | None = getattr(x, "sharding", None)
    if sharding is None or all(d.platform == "cpu" for d in sharding.device_set):
        return x
    if isinstance(sharding, NamedSharding):
        return device_put(x, NamedSharding(colocated_cpu_devices(sharding.mesh), sharding.spec))
    if isinstance(sharding, SingleDeviceSharding):
        return device_put(x, colocated_cpu_devices(tuple(sharding.device_set))[0])
    raise NotImplementedError(
        f"colocated_python takes arrays of one device or with a NamedSharding, got {sharding}"
    )


class _Colocated:
    """A function that runs where its arguments lie, with what is known of its results."""

    def __init__(
        self, fun: Callable[..., Any], out_specs_fn: Any = None, out_devices: Any = None
    ) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._out_specs_fn = out_specs_fn
        self._devices = out_devices

    def specialize(
        self,
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        out_specs: Any = None,
        devices: Sequence[Any] | None = None,
    ) -> _Colocated:
        """The function with its results' types or its devices told.

        `out_specs_fn` gives these types from those of the arguments; devices are needed by
        functions without arrays as arguments.
        """
        if in_specs is not None:
            raise NotImplementedError("colocated_python functions take any arguments: in_specs")
        if out_specs_fn is not None and out_specs is not None:
            raise ValueError("Only one of out_specs_fn and out_specs can be specified.")
        told = (lambda *_, **__: out_specs) if out_specs is not None else out_specs_fn
        if told is not None and self._out_specs_fn is not None:
            raise ValueError("out_specs_fn already specified")
        return _Colocated(self._fun, told or self._out_specs_fn, devices or self._devices)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _check_one_process("colocated_python")
        args, kwargs = tree_util.tree_map(_on_host, (args, kwargs))
        found = self._fun(*args, **kwargs)
        if self._out_specs_fn is None:
            return found
        types = tree_util.tree_map(_type_of, (args, kwargs))
        return tree_util.tree_map(_checked, found, self._out_specs_fn(*types[0], **types[1]))


def _type_of(x: Any) -> Any:
    from xpr import ShapeDtypeStruct  # noqa: PLC0415  the public surface lies above

    return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def _checked(x: Any, spec: Any) -> Any:
    """A result, where it was told to be; ValueError if it is not of the type that was told."""
    if tuple(x.shape) != tuple(spec.shape) or x.dtype != spec.dtype:
        raise ValueError(
            f"a colocated_python function gave {x.dtype}{list(x.shape)}, its out_specs say "
            f"{spec.dtype}{list(spec.shape)}"
        )
    return x if spec.sharding is None else device_put(x, spec.sharding)


def colocated_python(fun: Callable[..., Any]) -> _Colocated:
    """`fun`, run in Python where its arguments lie; it has a method `specialize`."""
    return _Colocated(fun)


def colocated_python_class(cls: type) -> Callable[..., Any]:
    """A class whose methods run where their arguments lie.

    Its object is made when a method is first called, as the arguments of that call tell where.
    """

    class Wrapped:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._made = functools.cache(lambda: cls(*args, **kwargs))

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or not callable(getattr(cls, name)):
                raise AttributeError(f"{cls.__name__} has no public method {name!r}")
            return _Colocated(lambda *args, **kwargs: getattr(self._made(), name)(*args, **kwargs))

    functools.update_wrapper(Wrapped, cls, updated=())
    return Wrapped
