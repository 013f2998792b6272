"""Placement on a machine with three CPU devices, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("three_cpus.py")


def test_placement_on_three_cpu_devices() -> None:
    ran = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "XPR_NUM_CPU_DEVICES": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    checks = re.findall(r"^def (check_\w+)", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert ran.stdout.split() == checks
