"""Examples are programs of their own, run in processes of their own."""

from __future__ import annotations

collect_ignore_glob = ["examples/*"]
