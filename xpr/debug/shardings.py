"""Where arrays live: looking at shardings, and drawing them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.errors import shown
from xpr.core.trace import Tracer, get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.placement import default_device
from xpr.sharding import Sharding, SingleDeviceSharding


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Calls `callback` with the sharding of an array.

    For a traced value it is called while the program is traced, with the sharding of uncommitted
    work: programs run on one device.

    >>> import xpr, xpr.numpy as jnp
    >>> x = xpr.device_put(jnp.ones(2), xpr.devices("cpu")[0])
    >>> xpr.debug.inspect_array_sharding(x, callback=print)
    SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """
    if not callable(callback):
        raise TypeError(f"inspect_array_sharding takes a function, got {shown(callback)}")
    while isinstance(value, Tracer) and (inner := value.concrete()) is not None:
        value = inner
    if isinstance(value, ArrayImpl):
        callback(value.sharding)
    else:
        get_aval(value)  # TypeError for what is no array
        callback(SingleDeviceSharding(default_device()))


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Draws how an array of rank 1 or 2 is spread over devices; options as `visualize_sharding`.

    >>> import xpr, xpr.numpy as jnp
    >>> x = xpr.device_put(jnp.ones((4, 4)), xpr.devices("cpu")[0])
    >>> xpr.debug.visualize_array_sharding(x)
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    inspect_array_sharding(
        arr, callback=lambda sharding: visualize_sharding(arr.shape, sharding, **kwargs)
    )


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Draws how an array of that shape is spread over devices.

    Raises ValueError for ranks other than 1 and 2, NotImplementedError for several devices.

    >>> import xpr
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.debug.visualize_sharding((8,), place, min_width=13)
    ┌───────────┐
    │   CPU 0   │
    └───────────┘
    """
    del use_color, scale, color_map  # the one device needs no colour, and as much room as its name
    if len(shape) not in (1, 2):
        raise ValueError(
            f"`visualize_sharding` only works for shapes with 1 and 2 dimensions, got {shape}"
        )
    devices = sorted(sharding.device_set, key=lambda d: d.id)
    if len(devices) != 1:
        raise NotImplementedError(
            f"visualize_sharding draws shardings of one device, got {len(devices)} devices"
        )
    name = f"{devices[0].platform.upper()} {devices[0].id}"
    width = min(max(min_width - 2, len(name) + 2), max(max_width - 2, len(name)))
    lines = (f"┌{'─' * width}┐", f"│{name.center(width)}│", f"└{'─' * width}┘")
    sys.stdout.write("\n".join(lines) + "\n")
