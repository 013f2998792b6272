"""What the settings `transfer_guard_*` do about transfers between host and devices."""

from __future__ import annotations

import logging

from xpr.core.config import state

_log = logging.getLogger("xpr.transfer")


def check_transfer(way: str, explicit: bool, what: str) -> None:
    """Logs or refuses a transfer; `way` is one of `config.TRANSFER_WAYS`, `what` tells of what."""
    level: str = getattr(state, f"transfer_guard_{way}")
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    kind = f"{way.replace('_', '-')} transfer: {what}"
    if level.startswith("disallow"):
        raise RuntimeError(f"Disallowed {kind}")
    _log.warning("%s", kind)
