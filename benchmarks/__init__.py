"""How fast xpr is next to NumPy and JAX: ``python -m benchmarks``.

The modules, in the order a run passes through them:

- `kernels` and `overheads` define cases; `cases` what a case is.
- `implementations` gives each library under one interface; `worker` runs one of them behind pipes.
- `sessions` reaches an implementation in this process or in a worker; `timing` measures.
- `processes` and `child` measure what needs new processes: imports, warm starts, peak memory.
- `report` and `__main__` print the table.
"""
