"""Meshes: devices in a grid whose axes have names, and grids of which only the shape is known."""

from __future__ import annotations

import enum
import functools
import math
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from xpr.core.aval import ManualAxisType as ManualAxisType
from xpr.core.source_info import user_stacklevel
from xpr.runtimes import registry
from xpr.runtimes.base import Device
from xpr.sharding import entered


class AxisType(enum.Enum):
    """Who decides how arrays are spread along a mesh axis.

    >>> import xpr
    >>> from xpr.sharding import AxisType
    >>> mesh = xpr.make_mesh((1,), ("x",), axis_types=(AxisType.Explicit,))
    >>> mesh.axis_types
    (Explicit,)
    """

    Auto = enum.auto()
    """The partitioner does, when a program is compiled."""
    Explicit = enum.auto()
    """The types of arrays say it, and operations derive the type of their result."""
    Manual = enum.auto()
    """The program is written for one device: the body of a `shard_map`."""

    def __repr__(self) -> str:
        return self.name


class AbstractDevice(NamedTuple):
    """What is known of the devices of an abstract mesh.

    >>> from xpr.sharding import AbstractDevice
    >>> AbstractDevice("cpu", None, "cpu").platform
    'cpu'
    """

    device_kind: str
    num_cores: int | None
    platform: str

    def fields(self) -> str:
        """The fields as texts show them."""
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform}"
        )

    def __repr__(self) -> str:
        return f"AbstractDevice({self.fields()})"


def checked_axis_types(names: tuple[Any, ...], types: Any, what: str) -> tuple[AxisType, ...]:
    """`types` as a tuple with one entry for each axis name; Auto without any."""
    if types is None:
        return (AxisType.Auto,) * len(names)
    types = types if isinstance(types, tuple) else (types,)
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(
            f"axis_types passed to {what} must be of type `xpr.sharding.AxisType`. Got {types} of "
            f"type {tuple(type(t) for t in types)}"
        )
    if len(types) != len(names):
        raise ValueError(
            "Number of axis names should match the number of axis_types. Got "
            f"axis_names={names} and axis_types={types}"
        )
    return types


class BaseMesh:
    """What meshes and abstract meshes have in common. Equal ones are the same object."""

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    size: int

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def _set(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    @property
    def empty(self) -> bool:
        """Whether it has no devices."""
        return self.size == 0

    @functools.cached_property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Pairs of axis name and size, in order."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @functools.cached_property
    def shape(self) -> OrderedDict[Any, int]:
        """The size of each axis, by name."""
        return OrderedDict(self.shape_tuple)

    def _axes_of(self, kind: AxisType) -> tuple[Any, ...]:
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple(name for name, t in pairs if t is kind)

    @functools.cached_property
    def auto_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type Auto."""
        return self._axes_of(AxisType.Auto)

    @functools.cached_property
    def explicit_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type Explicit."""
        return self._axes_of(AxisType.Explicit)

    @functools.cached_property
    def manual_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type Manual."""
        return self._axes_of(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        return bool(self.axis_types) and len(self.auto_axes) == len(self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        return bool(self.axis_types) and len(self.explicit_axes) == len(self.axis_types)

    @property
    def are_all_axes_manual(self) -> bool:
        return bool(self.axis_types) and len(self.manual_axes) == len(self.axis_types)

    def axis_type(self, name: Any) -> AxisType:
        """The type of the axis of that name."""
        return self.axis_types[self.axis_names.index(name)]


_lock = threading.Lock()
_meshes: weakref.WeakValueDictionary[Any, Mesh] = weakref.WeakValueDictionary()
_concrete: weakref.WeakValueDictionary[AbstractMesh, Mesh] = weakref.WeakValueDictionary()
_abstract: weakref.WeakValueDictionary[Any, AbstractMesh] = weakref.WeakValueDictionary()


class Mesh(BaseMesh, ContextDecorator):
    """Devices in a grid of any rank whose axes have names.

    `devices` is an array (or nested sequence) of devices, `axis_names` has a name for each of its
    axes, `axis_types` an `AxisType` for each; without any they are Auto. Equal meshes are the same
    object. Raises ValueError when the numbers of names, types and axes differ.

    >>> import xpr
    >>> Mesh(xpr.devices("cpu")[:1], ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    devices: np.ndarray[Any, Any]

    def __new__(
        cls,
        devices: np.ndarray[Any, Any] | Sequence[Any],
        axis_names: Any,
        axis_types: Any = None,
    ) -> Mesh:
        grid = np.array(devices)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if None in names:
            raise ValueError(f"Mesh axis names cannot be None. Got: {names}")
        if grid.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}."
            )
        types = checked_axis_types(names, axis_types, "Mesh")
        flat = tuple(grid.flat)
        nothing = not names and flat[0] is None  # the mesh of no devices and no axes
        for d in () if nothing else flat:
            if not isinstance(d, Device):
                raise TypeError(f"Mesh takes devices, got {d!r} of type {type(d)}")
        key = (flat, grid.shape, names, types)
        with _lock:
            found = _meshes.get(key)
            if found is None:
                grid.flags.writeable = False
                found = _meshes[key] = super().__new__(cls)
                found._set(
                    devices=grid,
                    axis_names=names,
                    axis_sizes=grid.shape,
                    axis_types=types,
                    size=0 if nothing else grid.size,
                )
            return found

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __copy__(self) -> Mesh:
        return self

    def __deepcopy__(self, memo: Any) -> Mesh:
        return self

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A mesh with some of devices, names and types replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    @property
    def is_scalar(self) -> bool:
        """Whether it is one device without any axis."""
        return self.size == 1 and not self.axis_names

    @functools.cached_property
    def flat_devices(self) -> tuple[Device, ...]:
        """The devices, row by row."""
        return () if self.empty else tuple(self.devices.flat)

    @functools.cached_property
    def device_set(self) -> frozenset[Device]:
        """The devices, without an order."""
        return frozenset(self.flat_devices)

    @functools.cached_property
    def device_ids(self) -> np.ndarray[Any, Any]:
        """The numbers of the devices, in the mesh's shape."""
        if self.empty:
            raise ValueError("device_ids: a mesh without devices has no numbers")
        return np.array([d.id for d in self.flat_devices], int).reshape(self.devices.shape)

    @functools.cached_property
    def local_devices(self) -> list[Device]:
        """The devices that belong to this process."""
        mine = registry.this_process()
        return [d for d in self.flat_devices if d.process_index == mine]

    @property
    def is_multi_process(self) -> bool:
        """Whether some devices belong to other processes."""
        return len(self.local_devices) != len(self.flat_devices)

    @functools.cached_property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that belongs to this process.

        Raises ValueError when the process's devices are no block of the mesh.
        """
        if self.empty:
            return self
        mine = registry.this_process()
        here = np.array([d.process_index == mine for d in self.flat_devices])
        places = np.argwhere(here.reshape(self.devices.shape))
        if not len(places):
            raise ValueError(f"process {mine} has no device of {self}")
        spans = zip(places.min(0), places.max(0) + 1, strict=True)
        block = self.devices[tuple(slice(int(a), int(b)) for a, b in spans)]
        if block.size != len(places):
            raise ValueError(
                f"the {len(places)} devices of process {mine} are no block of the mesh {self}: "
                f"the smallest that holds them has {block.size}"
            )
        # In JAX a local mesh has the default axis types, too.
        return Mesh(block, self.axis_names)

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        if not self.axis_names:
            return AbstractMesh((), ())
        first = self.flat_devices[0] if self.size else None
        device = None if first is None else AbstractDevice(first.device_kind, None, first.platform)
        found = AbstractMesh(
            self.axis_sizes, self.axis_names, self.axis_types, abstract_device=device
        )
        _concrete[found] = self
        return found

    def __enter__(self) -> Mesh:
        warnings.warn(
            "`with mesh:` context manager has been deprecated. Please use `with "
            "xpr.set_mesh(mesh):` instead.",
            category=DeprecationWarning,
            stacklevel=user_stacklevel(),
        )
        entered.push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        entered.pop()

    def __str__(self) -> str:
        if self.empty:
            return "Mesh()"
        sizes = ", ".join(f"'{name}': {size}" for name, size in self.shape.items())
        return f"Mesh({sizes}, axis_types={self.axis_types})"

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


class AbstractMesh(BaseMesh):
    """The axes of a mesh, without devices.

    Raises ValueError when the numbers of sizes, names and types differ.

    >>> AbstractMesh((4, 2), ("x", "y"))
    AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
    """

    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        sizes = tuple(int(s) for s in axis_sizes)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        types = checked_axis_types(names, axis_types, "AbstractMesh")
        if len(sizes) != len(names):
            raise ValueError(
                "AbstractMesh requires one size for each axis name, got "
                f"axis_sizes={sizes} and axis_names={names}"
            )
        key = (sizes, names, types, abstract_device)
        with _lock:
            found = _abstract.get(key)
            if found is None:
                found = _abstract[key] = super().__new__(cls)
                found._set(
                    axis_sizes=sizes,
                    axis_names=names,
                    axis_types=types,
                    abstract_device=abstract_device,
                    size=math.prod(sizes) if sizes else 0,
                )
            return found

    def __reduce__(self) -> Any:
        fields = (self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device)
        return _abstract_mesh, fields

    def __copy__(self) -> AbstractMesh:
        return self

    def __deepcopy__(self, memo: Any) -> AbstractMesh:
        return self

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **device: Any
    ) -> AbstractMesh:
        """A mesh with some of sizes, names, types and `abstract_device` replaced."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            **{"abstract_device": self.abstract_device, **device},
        )

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """A mesh in which the named axes have other types."""
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(name_to_type.get(n, t) for n, t in pairs))

    def _lacks(self, name: str) -> NoReturn:
        raise ValueError(f"AbstractMesh does not implement {name}")

    @property
    def devices(self) -> NoReturn:
        self._lacks("devices")

    @property
    def device_ids(self) -> NoReturn:
        self._lacks("device_ids")

    @property
    def local_devices(self) -> NoReturn:
        self._lacks("local_devices")

    @property
    def local_mesh(self) -> NoReturn:
        self._lacks("local_mesh")

    @property
    def is_multi_process(self) -> NoReturn:
        self._lacks("is_multi_process")

    def __enter__(self) -> NoReturn:
        self._lacks("__enter__")

    def __exit__(self, *exc: object) -> None:
        self._lacks("__exit__")

    def __repr__(self) -> str:
        sizes = ", ".join(f"'{name}': {size}" for name, size in self.shape_tuple) or "()"
        device = self.abstract_device
        shown = "" if device is None else f", {device.fields()}"
        return f"AbstractMesh({sizes}, axis_types={self.axis_types}{shown})"


def _abstract_mesh(
    sizes: Any, names: Any, types: Any, device: AbstractDevice | None
) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


EMPTY_MESH = Mesh(np.empty((), dtype=object), ())
EMPTY_ABSTRACT_MESH = AbstractMesh((), ())


def latest_of(mesh: AbstractMesh) -> Mesh | None:
    """The latest mesh whose abstract one was asked for and is `mesh`, if it is still there."""
    return _concrete.get(mesh)
