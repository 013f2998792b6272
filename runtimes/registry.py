"""The runtimes of this process: found by name, started on first use, one object each.

Those of this package are built in. Others come from installed packages through the
entry-point group `xpr.runtimes`: the name is the backend's, the object a callable without
arguments (a class, say) that returns a `Runtime`. One that fails to start is remembered with its
reason and stands in nobody's way.
"""

from __future__ import annotations

import functools
import importlib
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import PathFinder

from xpr.runtimes import processes
from xpr.runtimes.base import Device, Runtime
from xpr.runtimes.cpu import CpuRuntime
from xpr.runtimes.reference import ReferenceRuntime

GROUP = "xpr.runtimes"

# Where Linux shows the devices of drivers; elsewhere a GPU must be asked for by name.
_DEVICE_FILES = {
    "vulkan": ("/dev/dri/renderD*", "/dev/nvidia0"),
    "cuda": ("/dev/nvidia0",),
    "rocm": ("/dev/kfd",),
    "metal": ("/System/Library/Frameworks/Metal.framework",),
}

_lock = threading.RLock()
_started: dict[str, Runtime] = {}
_failed: dict[str, BaseException] = {}
_factories: dict[str, Callable[[], Runtime]] | None = None
_num_cpu_devices: int | None = None
_number_elsewhere: Callable[[], int | None] | None = None
_platforms: tuple[str, Sequence[str]] | None = None  # who has set them, and their names
_index = 0
_all_devices: dict[str, list[Device]] = {}  # those of all processes, by the runtime's name


def num_cpu_devices() -> int:
    """How many CPU devices there are, or will be.

    As set, else `XPR_NUM_CPU_DEVICES`, else what `on_no_number` was given says, else 1.
    """
    if _num_cpu_devices is not None:
        return _num_cpu_devices
    text = os.environ.get("XPR_NUM_CPU_DEVICES")
    if text is None:
        return (_number_elsewhere() if _number_elsewhere else None) or 1
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"XPR_NUM_CPU_DEVICES must be a positive integer, got {text!r}")
    return int(text)


def on_no_number(function: Callable[[], int | None]) -> None:
    """Has a function say how many CPU devices there are, where nothing of xpr's does."""
    global _number_elsewhere
    _number_elsewhere = function


def set_num_cpu_devices(n: int) -> None:
    """Sets the number of CPU devices, before the first use of one.

    Raises RuntimeError when the cpu runtime has started with another number.
    """
    global _num_cpu_devices
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"num_cpu_devices must be a positive integer, got {n}")
    with _lock:
        cpu = _started.get("cpu")
        if cpu is not None and len(cpu.devices()) != n:
            raise RuntimeError(
                "num_cpu_devices must be set before the first use of a CPU device: the cpu "
                f"runtime has started with {len(cpu.devices())}, got {n}"
            )
        if "cpu" in _all_devices and n != num_cpu_devices():
            raise RuntimeError(
                "num_cpu_devices must be set before xpr.distributed.initialize(), which tells the "
                f"other processes that there are {num_cpu_devices()}, got {n}"
            )
        _num_cpu_devices = n


def set_platforms(names: Sequence[str] | None, where: str) -> None:
    """Limits and orders the choice of the default backend, as `XPR_PLATFORMS` does, or ends that.

    `where` is what messages name. A name that is not known raises on first use.
    """
    global _platforms
    _platforms = None if names is None else (where, list(names))


def _wished() -> tuple[str, Sequence[str]]:
    """The names of the platforms to choose from, all if there are none, and who says so."""
    if _platforms is not None:
        where, names = _platforms
    else:
        where, text = "XPR_PLATFORMS", os.environ.get("XPR_PLATFORMS", "")
        names = [p.strip() for p in text.split(",") if p.strip()]
    return where, [spelled(name) for name in names]


def spelled(name: str) -> str:
    """The name of a runtime, or "gpu", that is meant by one in upper or lower case.

    >>> spelled("CPU"), spelled("GPU"), spelled("nonesuch")
    ('cpu', 'gpu', 'nonesuch')
    """
    if name in _find():
        return name
    return next((n for n in (*_find(), "gpu") if n.lower() == name.lower()), name)


_GPUS = ("cuda", "rocm", "metal", "vulkan")


def _resolved(name: str) -> str:
    """The backend that a name means, in upper or lower case.

    "gpu" is the default one if it is a GPU's, else the best.
    """
    name = spelled(name)
    if name != "gpu" or name in _find():
        return name
    platforms = _wished()[1]
    wished = [*_GPUS] if "gpu" in platforms else [p for p in platforms if p in _GPUS]
    for found in wished or _GPUS:
        runtime = _start(found) if wished or _seems_present(found) else None
        if runtime is not None and (wished or runtime.priority >= 0):
            return found
    reasons = "; ".join(f"{n}: {r}" for n, r in failures().items() if n in _GPUS)
    raise RuntimeError(
        f"Unknown backend gpu: no GPU works on this machine ({reasons or 'none is there'}). "
        f"Available backends are {known()}"
    )


def _class(module: str, name: str) -> Callable[[], Runtime]:
    """A runtime of this package, whose file is loaded when it is wanted."""
    return getattr(importlib.import_module(f"xpr.runtimes.{module}"), name)


# What folders end in that tell of an installed package.
_METADATA = (".dist-info", ".egg-info")


# They stand for a device in tests, and are never the default.
_STAND_INS = frozenset(("reference", "vmvx"))


@functools.cache
def _seems_present(name: str) -> bool:
    """Whether it is worth starting a runtime to see if it should be the default.

    To start a GPU's driver takes a tenth of a second, which a machine without one need not spend.
    """
    if name in _STAND_INS:
        return False
    paths = _DEVICE_FILES.get(name)
    return paths is None or any(map(_is_there, paths))


def _is_there(path: str) -> bool:
    """Whether there is a file of that name, of which only the beginning is known before a `*`."""
    if not path.endswith("*"):
        return os.path.exists(path)
    folder, start = os.path.split(path[:-1])
    try:
        return any(name.startswith(start) for name in os.listdir(folder))
    except OSError:
        return False


def _find() -> dict[str, Callable[[], Runtime]]:
    """All runtimes by name, as callables that start them."""
    global _factories
    with _lock:
        if _factories is None:
            found: dict[str, Callable[[], Runtime]] = {
                "cpu": lambda: CpuRuntime(num_cpu_devices()),
                "reference": lambda: ReferenceRuntime(num_cpu_devices()),
                "vmvx": lambda: _class("vmvx", "VmvxRuntime")(),
                "vulkan": lambda: _class("vulkan", "VulkanRuntime")(),
                "cuda": lambda: _class("cuda", "CudaRuntime")(),
                "rocm": lambda: _class("rocm", "RocmRuntime")(),
                "metal": lambda: _class("metal", "MetalRuntime")(),
            }
            for name, start in _offered():
                found.setdefault(name, start)
            _factories = found
        return _factories


def _offered() -> Iterator[tuple[str, Callable[[], Runtime]]]:
    """The runtimes that installed packages offer."""
    if not _may_be_offered():
        return
    from importlib.metadata import entry_points  # noqa: PLC0415  takes 20 ms to import and to ask

    for point in entry_points(group=GROUP):
        yield point.name, lambda point=point: point.load()()


def _may_be_offered() -> bool:
    """Whether an installed package names the group of entry points: to look takes a millisecond."""
    if any(hasattr(f, "find_distributions") and f is not PathFinder for f in sys.meta_path):
        return True  # packages may be where only their finder knows
    for folder in sys.path:
        try:
            entries = [e.path for e in os.scandir(folder or ".") if e.name.endswith(_METADATA)]
        except NotADirectoryError:
            return True  # an archive
        except OSError:
            continue
        for entry in entries:
            if GROUP.encode() in _content(os.path.join(entry, "entry_points.txt")):
                return True
    return False


def _content(path: str) -> bytes:
    """What a small file holds, nothing if there is none; `open` would take three times as long."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def known() -> list[str]:
    """The names of all runtimes, whether they work on this machine or not."""
    return list(_find())


def _start(name: str) -> Runtime | None:
    """Starts a known runtime; None, with the reason in `failures()`, when it cannot."""
    with _lock:
        runtime = _started.get(name)
        if runtime is None and name not in _failed:
            try:
                runtime = _find()[name]()
                if not isinstance(runtime, Runtime):
                    raise TypeError(
                        f"the entry point {name!r} of {GROUP} must give a Runtime, "
                        f"got {type(runtime).__name__}"
                    )
                if not runtime.devices():
                    raise RuntimeError(f"the {name} runtime found no device")
            except Exception as error:
                # Whatever a driver raises must not stop the others; the reason is kept.
                _failed[name] = error
                return None
            if _index:
                _belong(runtime)
            _started[name] = runtime
        return runtime


def get_runtime(name: str) -> Runtime:
    """The runtime called `name`, started if need be; "gpu" is that of the best GPU.

    Raises RuntimeError for an unknown name and for a runtime that does not work here.
    """
    runtime = _started.get(name)
    if runtime is not None:
        return runtime
    asked, name = name, _resolved(name)
    if name not in _find():
        raise RuntimeError(f"Unknown backend {asked}. Available backends are {known()}")
    runtime = _start(name)
    if runtime is None:
        reason = _failed[name]
        raise RuntimeError(
            f"Unable to initialize backend {name}: {type(reason).__name__}: {reason}"
        ) from reason
    return runtime


def backends() -> dict[str, Runtime]:
    """All runtimes that work on this machine, by name; starts each of them."""
    found = {name: _start(name) for name in _find()}
    return {name: runtime for name, runtime in found.items() if runtime is not None}


def failures() -> dict[str, str]:
    """Why runtimes that were tried did not start, by name."""
    with _lock:
        return {name: f"{type(e).__name__}: {e}" for name, e in _failed.items()}


def live() -> dict[str, Runtime]:
    """The runtimes that have been started so far, by name; starts none."""
    with _lock:
        return dict(_started)


def default_backend() -> str:
    """The name of the runtime that is used when none is named.

    `XPR_PLATFORMS`, a list of names with commas between, limits and orders the choice; the first
    that works is taken. Otherwise it is the working runtime of highest priority.

    >>> import xpr
    >>> xpr.default_backend() == xpr.devices()[0].platform
    True
    """
    where, wished = _wished()
    if wished:
        for name in wished:
            if name == "gpu" and name not in _find():
                found = next((g for g in _GPUS if _start(g) is not None), None)
                if found is not None:
                    return found
            elif name not in _find():
                raise RuntimeError(
                    f"Unknown backend {name} in {where}. Available backends are {known()}"
                )
            elif _start(name) is not None:
                return name
        tried = {*wished, *(_GPUS if "gpu" in wished else ())}
        reasons = "; ".join(f"{n}: {r}" for n, r in failures().items() if n in tried)
        raise RuntimeError(f"No backend of {where} works: {reasons}")
    started = {name: _start(name) for name in _find() if _seems_present(name)}
    candidates = {n: r for n, r in started.items() if r is not None and r.priority >= 0}
    if not candidates:
        reasons = "; ".join(f"{n}: {r}" for n, r in failures().items())
        raise RuntimeError(f"No backend works on this machine: {reasons}")
    return max(candidates, key=lambda n: candidates[n].priority)


def devices(backend: str | Runtime | None = None) -> list[Device]:
    """The devices of the backend of that name, or of the default one, in all processes.

    >>> import xpr
    >>> xpr.devices()[0].id
    0
    >>> len(xpr.devices()) == xpr.device_count()
    True
    """
    if not isinstance(backend, Runtime):
        backend = get_runtime(default_backend() if backend is None else backend)
    found = _all_devices.get(backend.name)
    return list(backend.devices() if found is None else found)


def first_device(backend: str | Runtime | None = None) -> Device:
    """The first device that belongs to this process."""
    if not _all_devices:
        return devices(backend)[0]
    return local_devices(backend=backend)[0]


def this_process() -> int:
    """The number of this process among those that compute together."""
    return _index


def process_count() -> int:
    """The number of processes that compute together."""
    joined = processes.current
    return 1 if joined is None else joined.count


def local_devices(
    process_index: int | None = None, backend: str | Runtime | None = None
) -> list[Device]:
    """The devices that belong to this process, or to process `process_index`.

    Raises ValueError for a process that there is not.

    >>> import xpr
    >>> xpr.local_devices() == xpr.devices()
    True
    """
    mine = this_process() if process_index is None else process_index
    found = [d for d in devices(backend) if d.process_index == mine]
    if not found:
        raise ValueError(f"there is no process of number {process_index}")
    return found


def device_count(backend: str | None = None) -> int:
    """The number of devices of the backend of that name, or of the default one.

    >>> import xpr
    >>> xpr.device_count() == len(xpr.devices())
    True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices that belong to this process.

    >>> import xpr
    >>> xpr.local_device_count() == len(xpr.local_devices())
    True
    """
    return len(local_devices(backend=backend))


def join(
    found: dict[str, list[list[tuple[int, str]]]], own: dict[str, Sequence[Device]], index: int
) -> None:
    """Makes this process number `index` of several.

    `found[name][p]` are the devices that process `p` has of runtime `name`, by their numbers there
    and their kinds, and `own` those of this process. Ids are counted on from process to process.
    Runtimes that are not named keep devices of this process alone.
    """
    global _index
    # Loaded by programs that are joined, which few are.
    from xpr.runtimes.remote import RemoteRuntime  # noqa: PLC0415

    with _lock:
        _index = index
        for runtime in _started.values():
            _belong(runtime)
        for name, of_each in found.items():
            first = [sum(map(len, of_each[:p])) for p in range(len(of_each))]
            elsewhere = RemoteRuntime(
                get_runtime(name),
                {p: (first[p], of_each[p]) for p in range(len(of_each)) if p != index},
            )
            for i, device in enumerate(own[name]):
                device.id = first[index] + i
            _all_devices[name] = sorted((*own[name], *elsewhere.devices()), key=lambda d: d.id)


def _belong(runtime: Runtime) -> None:
    for device in runtime.devices():
        device.process_index = _index
