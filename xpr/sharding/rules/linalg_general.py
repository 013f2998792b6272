"""Decompositions of general matrices: batches pass through, each matrix is whole."""

from __future__ import annotations

from xpr.sharding.rules._forms import batched, register_all

register_all(("eig", "schur"), batched(2))
