"""Checkpoints: trees of sharded arrays and plain values, saved and restored through tensorstore.

>>> import tempfile, xpr.numpy as jnp
>>> from xpr.experimental import checkpoint
>>> with checkpoint.Checkpointer(tempfile.mkdtemp(), keep=3) as checkpointer:
...     checkpointer.save(100, {"w": jnp.zeros(2), "epoch": 1})
...     checkpointer.restore()
{'epoch': 1, 'w': Array([0., 0.], dtype=float32)}
"""

from __future__ import annotations

from xpr.experimental.checkpoint.checkpointer import Checkpointer as Checkpointer
from xpr.experimental.checkpoint.checkpointer import all_steps as all_steps
from xpr.experimental.checkpoint.checkpointer import latest_step as latest_step
from xpr.experimental.checkpoint.checkpointer import metadata as metadata
from xpr.experimental.checkpoint.checkpointer import restore as restore
from xpr.experimental.checkpoint.checkpointer import save as save
from xpr.experimental.checkpoint.errors import CheckpointError as CheckpointError
from xpr.experimental.checkpoint.errors import DamagedCheckpointError as DamagedCheckpointError
from xpr.experimental.checkpoint.restoring import ArrayMetadata as ArrayMetadata
