"""Matrices of up to some hundred rows are factored in one thread.

The threads of OpenBLAS wait for each other hundreds of times in one factorisation, by spinning. Of
matrices of up to about 400 rows that costs as much as the second thread brings. Beside processes
(or threads of this one) that keep two cores busy it costs up to a thousand times as much: 200 ms
for eigenvectors of 180 rows, which one thread finds in 4 ms, and 16 ms for 32 triangular equations,
which take one thread 4 us.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.runtimes import fork

# Rows from which on several threads take less time on an idle machine of two cores: 1.2 to 1.5
# times for these, at most 1.1 times at 600 rows for all others (SVD, QR, LU, general eigenvalues).
_ROWS = {"potrf": 384, "syevd": 384, "heevd": 384, "trsm": 256}
_OTHER_ROWS = 768
# Under this size OpenBLAS uses one thread for all that these functions do. Triangular equations,
# and products of triangular matrices, which are inside of most of them, have several from 24 on.
_LEAST = 24

# Held while one thread of the process is in such a call.
_limited = threading.Lock()


@fork.in_child
def _renew_lock() -> None:
    global _limited
    _limited = threading.Lock()


@functools.cache
def _libraries() -> Any:
    """The BLAS of SciPy, which is loaded."""
    # It looks through all loaded libraries, which small matrices need not wait for.
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    # NumPy's may be another one, which these functions do not use.
    found = ThreadpoolController().select(user_api="blas")
    ours = [b.filepath for b in found.lib_controllers if "scipy" in b.filepath.split("/")[-2]]
    return found.select(filepath=ours) if ours else found


def with_few_threads(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's `function`, which is `name` in LAPACK or BLAS, with threads for large matrices only.

    The largest operand counts, by its smaller side; what has no matrix is called as it is, and so
    are equations for a few right-hand sides, for which one thread is used anyway. OpenBLAS has one
    number of threads for all threads of a process: while two of them are in such calls, the one
    that came first decides.
    """
    rows = _ROWS.get(name, _OTHER_ROWS)
    smallest = min if name == "trsm" else max

    def call(*args: Any, **kwargs: Any) -> Any:
        sizes = [min(x.shape) for x in args if isinstance(x, np.ndarray) and x.ndim == 2]
        if not sizes or max(sizes) >= rows or smallest(sizes) < _LEAST:
            return function(*args, **kwargs)
        if not _limited.acquire(blocking=False):
            return function(*args, **kwargs)
        try:
            with _libraries().limit(limits=1):
                return function(*args, **kwargs)
        finally:
            _limited.release()

    return call
