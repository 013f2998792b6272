"""Programs of many processes: `mpirun -n 4 python train.py`, under JAX's names.

`initialize()` joins this process to the others; from then on `xpr.devices()` are those of all
processes and `xpr.local_devices()` this one's.
"""

from __future__ import annotations

from xpr.distributed.joining import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
