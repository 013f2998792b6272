"""Linear systems whose matrices are functions: `linalg`."""

from __future__ import annotations

from xpr.scipy.sparse import linalg as linalg
