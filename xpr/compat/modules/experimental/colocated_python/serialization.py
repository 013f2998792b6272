"""`jax.experimental.colocated_python.serialization`: devices in a row."""

from __future__ import annotations

from typing import Any


class DeviceList(tuple[Any, ...]):
    """Devices in a row."""

    __slots__ = ()
