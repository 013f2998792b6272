"""`jax.extend.backend`: the devices of each platform."""

from __future__ import annotations

import functools

from xpr.dispatch.default_device import default_device
from xpr.runtimes import registry
from xpr.runtimes.base import Device
from xpr.transforms.jit import clear_caches

__all__ = ["Backend", "backends", "clear_backends", "get_backend", "get_default_device"]


class Backend:
    """The devices of one platform."""

    def __init__(self, platform: str) -> None:
        self.platform = platform

    def devices(self) -> list[Device]:
        """All devices of the platform."""
        return list(registry.devices(self.platform))

    def local_devices(self) -> list[Device]:
        """Those of this process."""
        return list(registry.local_devices(backend=self.platform))

    def device_count(self) -> int:
        """The number of devices."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """The number of devices of this process."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """The number of this process."""
        return registry.this_process()

    def __repr__(self) -> str:
        return f"Backend({self.platform!r})"


# One object for each platform, so that they can be compared by identity.
_backend = functools.cache(Backend)


def get_backend(platform: str | None = None) -> Backend:
    """The devices of `platform`, or of the default one; RuntimeError for one that is not here."""
    name = get_default_device().platform if platform is None else platform
    registry.first_device(name)
    return _backend(name)


def backends() -> dict[str, Backend]:
    """The platforms that have devices here, by name."""
    return {name: _backend(name) for name in registry.backends()}


def get_default_device() -> Device:
    """Where arrays are made that nothing places elsewhere."""
    return default_device()


def clear_backends() -> None:
    """Forgets all compiled programs; the devices stay, for they hold arrays."""
    clear_caches()
