"""What the settings `transfer_guard_*` do about transfers between host and devices."""

from __future__ import annotations

from xpr.core.config import state


def check_transfer(way: str, explicit: bool, what: str) -> None:
    """Logs or refuses a transfer; `way` is one of `config.TRANSFER_WAYS`, `what` tells of what."""
    level: str = getattr(state, f"transfer_guard_{way}")
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    kind = f"{way.replace('_', '-')} transfer: {what}"
    if level.startswith("disallow"):
        raise RuntimeError(f"Disallowed {kind}")
    import logging  # noqa: PLC0415  takes 4 ms, which importing xpr need not

    logging.getLogger("xpr.transfer").warning("%s", kind)
