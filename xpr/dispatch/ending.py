"""The end of the process, when daemon threads may be inside of optree: see `runtimes.shutdown`."""

from __future__ import annotations

from xpr.runtimes import shutdown
from xpr.tree_util import _treedef


def _stop_flattening() -> None:
    _treedef.stop_before_flattening(shutdown.stop_other_threads)


for _function in (_treedef.flatten_spec, _treedef.flatten_key):
    shutdown.enters_iree(_function)
shutdown.when_near(_stop_flattening)
