"""`jax._src.distributed`: what is known of the processes that run together."""

from __future__ import annotations

from typing import Any

from xpr.runtimes.registry import process_count, this_process


class State:
    """What JAX's service of processes would know. xpr's processes have no such service."""

    service = None
    preemption_sync_manager = None

    @property
    def process_id(self) -> int:
        """The number of this process."""
        return this_process()

    @property
    def num_processes(self) -> int:
        """How many processes there are."""
        return process_count()

    @property
    def client(self) -> Any:
        """None in a single process; NotImplementedError with several."""
        if process_count() == 1:
            return None
        raise NotImplementedError(
            "a program of several processes asks for the client of JAX's distributed service: "
            "xpr's processes meet in another way (docs/distributed.md)"
        )


global_state = State()
