"""Decompositions by reflections: batches of matrices pass through, each matrix is whole."""

from __future__ import annotations

from xpr.sharding.rules._forms import batched, register_all

register_all(("geqrf", "geqp3", "householder_product", "hessenberg", "tridiagonal"), batched(2))
