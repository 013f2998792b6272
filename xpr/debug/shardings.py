"""Where arrays live: looking at shardings, and drawing them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.errors import shown
from xpr.core.trace import Tracer, get_aval
from xpr.debug import drawing
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.default_device import default_device
from xpr.dispatch.parts import check_sharding
from xpr.primitives._index_dims import canonicalize_shape
from xpr.primitives.sharding import inspect_sharding_p
from xpr.sharding import Sharding, SingleDeviceSharding


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Calls `callback` with the sharding of an array.

    For a traced value it is called when the program is compiled, with the sharding that the
    partitioner decided on, or that of the program's single device.

    >>> import xpr, xpr.numpy as jnp
    >>> x = xpr.device_put(jnp.ones(2), xpr.devices("cpu")[0])
    >>> xpr.debug.inspect_array_sharding(x, callback=print)
    SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """
    if not callable(callback):
        raise TypeError(f"inspect_array_sharding takes a function, got {shown(callback)}")
    while isinstance(value, Tracer) and (inner := value._concrete()) is not None:
        value = inner
    get_aval(value)  # TypeError for what is no array
    if isinstance(value, Tracer):
        inspect_sharding_p.bind(value, callback=callback)
    else:
        place = SingleDeviceSharding(default_device())  # of NumPy values and numbers
        callback(value.sharding if isinstance(value, ArrayImpl) else place)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Draws how an array of rank 1 or 2 is spread over devices; options as `visualize_sharding`.

    >>> import xpr, xpr.numpy as jnp
    >>> x = xpr.device_put(jnp.ones((2, 2)), xpr.devices("cpu")[0])
    >>> xpr.debug.visualize_array_sharding(x, scale=0.3)
    ┌───────┐
    │ CPU 0 │
    │       │
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
    color_map: drawing.ColorMap | None = None,
) -> None:
    """Draws how an array of that shape is spread over devices.

    Each part has the platform and the numbers of the devices that hold it. On a terminal with
    colours each part has one, if `rich` is installed; `color_map(i)` is that of the part of number
    `i`, as red, green and blue from 0 to 1. Raises ValueError for ranks other than 1 and 2,
    TypeError for what is no shape or no sharding.

    >>> import xpr
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.debug.visualize_sharding((8,), place, min_width=13)
    ┌───────────┐
    │   CPU 0   │
    └───────────┘
    """
    check_sharding("visualize_sharding", sharding)
    sizes = canonicalize_shape("visualize_sharding", shape)
    grid = drawing.grid_of("visualize_sharding", sizes, sharding)
    console = _color_console(max_width) if use_color else None
    cells = drawing.cells_of(grid, len(sizes), scale, min_width, max_width, console is None)
    if console is None:
        sys.stdout.write(drawing.with_lines(grid, cells) + "\n")
    else:
        for text, style in drawing.in_color(grid, cells, drawing.colors_of(grid, color_map)):
            console.print(text, style=style, end="", highlight=False)


def _color_console(width: int) -> Any:
    """A console of `rich` with colours, or None where there is none."""
    try:
        rich = importlib.import_module("rich.console")  # optional, and slow to load
    except ImportError:
        return None
    console = rich.Console(width=width)
    return None if console.color_system is None else console


def draw_sharding(
    shape: Sequence[int], sharding: Sharding, ax: Any = None, *, color_map: Any = None
) -> Any:
    """Plots how an array of that shape is spread over devices, and returns the axes.

    `ax` are axes of matplotlib, or None for new ones; `color_map` is as in `visualize_sharding`
    (a colour map of matplotlib is one). Raises ValueError for ranks other than 1 and 2,
    ImportError without matplotlib.

    >>> import xpr
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> axes = xpr.debug.draw_sharding((4, 6), place)
    >>> [float(end) for end in axes.get_xlim()]
    [0.0, 6.0]
    """
    grid = drawing.grid_of("draw_sharding", shape, sharding)
    return drawing.plot(grid, len(shape), ax, color_map)


def draw_array_sharding(arr: Any, ax: Any = None, *, color_map: Any = None) -> Any:
    """Plots how an array of rank 1 or 2 is spread over devices; as `draw_sharding`.

    For a traced value the result is None, and the plot is made when the program is compiled.

    >>> import xpr, xpr.numpy as jnp
    >>> axes = xpr.debug.draw_array_sharding(jnp.ones((4, 6)))
    >>> [float(end) for end in axes.get_ylim()]
    [4.0, 0.0]
    """
    found: list[Any] = []
    inspect_array_sharding(
        arr,
        callback=lambda s: found.append(draw_sharding(arr.shape, s, ax, color_map=color_map)),
    )
    return found[0] if found else None
