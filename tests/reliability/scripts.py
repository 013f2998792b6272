"""Scripts that may not crash: each runs in a process of its own, which must end in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONG = os.environ.get("XPR_LONG_TESTS", "0") == "1"


def cases(short: int, long: int) -> int:
    """How many cases to try: `long` where `XPR_LONG_TESTS=1` is set."""
    return long if LONG else short


def run(body: str, *arguments: object, **environment: str) -> str:
    """Runs a script; returns what it printed. It must end with status 0 and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", body, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=7200 if LONG else 300,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout


def damaged(content: bytes, rng: random.Random) -> bytes:
    """`content` with some of its bits, a stretch of its bytes or its length changed, or all of it.

    >>> content = bytes(100)
    >>> all(damaged(content, random.Random(i)) != content for i in range(50))
    True
    """
    changed = bytearray(content)
    match rng.randrange(6):
        case 0 | 1:
            for _ in range(rng.choice((1, 1, 1, 2, 8))):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        case 2:
            del changed[rng.randrange(len(changed)) :]
        case 3:
            start = rng.randrange(len(changed))
            changed[start : start + rng.randrange(1, 64)] = rng.randbytes(rng.randrange(1, 64))
        case 4:
            start = rng.randrange(len(changed))
            del changed[start : start + rng.randrange(1, 64)]
        case _:
            return rng.randbytes(rng.randrange(2 * len(content)))
    if bytes(changed) == content:
        changed += b"\0"
    return bytes(changed)
