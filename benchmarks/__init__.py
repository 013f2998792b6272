"""How fast xpr is next to NumPy and JAX: ``python -m benchmarks``.

The modules, in the order a run passes through them:

- `kernels`, `overheads`, `derivatives`, `loops` and `training` define cases; `cases` what one is.
- `implementations` gives each library under one interface; `worker` runs one of them behind pipes.
- `sessions` reaches an implementation in this process or in a worker; `timing` measures.
- `processes` and `child` measure what needs new processes: imports, warm starts, peak memory.
- `report` and `__main__` print the table.
"""

from __future__ import annotations

import os

# OpenBLAS's threads spin for a tenth of a second after a product, longer than a sample lasts, and
# so slow down whatever is measured next in this process. It reads this when NumPy is imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
