"""`initialize`, `shutdown` and `is_initialized`."""

from __future__ import annotations

import atexit
import json
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from xpr.core.config import on_update, state
from xpr.distributed.mpi_processes import MpiProcesses
from xpr.runtimes import processes, registry
from xpr.runtimes.base import Device
from xpr.runtimes.queue import finish_all

_joined: MpiProcesses | None = None


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
) -> None:
    """Joins this process to the others that MPI's launcher started with it.

    Raises RuntimeError when it is called twice, or after devices were used.
    """
    global _joined
    if _joined is not None:
        raise RuntimeError("xpr.distributed.initialize should only be called once.")
    if registry.live():
        raise RuntimeError(
            "xpr.distributed.initialize() must be called before any computation and before "
            "devices are asked for: the devices of all processes are numbered together"
        )
    import mpi4py  # noqa: PLC0415  an extra

    mpi4py.rc.finalize = False
    from mpi4py import MPI  # noqa: PLC0415  it starts MPI

    found = MpiProcesses(MPI, MPI.COMM_WORLD.Dup(), initialization_timeout)
    if num_processes not in (None, found.count) or process_id not in (None, found.index):
        raise ValueError(
            f"num_processes={num_processes} and process_id={process_id} do not agree with MPI's "
            f"{found.count} and {found.index}"
        )
    own = _own_devices()
    texts = found.gather(
        json.dumps({name: [d.device_kind for d in ds] for name, ds in own.items()}).encode(),
        what="xpr.distributed.initialize()",
        timeout=initialization_timeout,
    )
    kinds = [json.loads(text) for text in texts]
    registry.join({name: [k[name] for k in kinds] for name in own}, own, found)
    found.limit = state.collective_timeout or processes.DEFAULT_LIMIT
    _joined = found
    _watch_failures(found)
    atexit.register(shutdown)


def _own_devices() -> dict[str, Sequence[Device]]:
    names = dict.fromkeys([registry.default_backend(), "cpu", "reference"])
    return {name: registry.get_runtime(name).devices() for name in names}


def _watch_failures(found: MpiProcesses) -> None:
    before = sys.excepthook

    def tell(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        found.fail(error)
        before(kind, error, traceback)

    sys.excepthook = tell


def is_initialized() -> bool:
    """Whether `initialize` has joined this process to others."""
    return _joined is not None


def shutdown() -> None:
    """Leaves the other processes; does nothing in a program that was not joined."""
    global _joined
    found, _joined = _joined, None
    if found is None:
        return
    finish_all()
    if not found.has_failed:
        found.gather(b"", what="xpr.distributed.shutdown()")
        found.MPI.Finalize()


def _set_limit(value: Any) -> None:
    if _joined is not None:
        _joined.limit = value or processes.DEFAULT_LIMIT


on_update("collective_timeout", _set_limit)
