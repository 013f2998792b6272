"""What `tests/conftest.py` does when a Vulkan device is lost."""

from __future__ import annotations

import os

from tests.conftest import LOST


def test_a_test_whose_device_is_lost_is_run_again_in_another_process() -> None:
    first = "XPR_TEST_DEVICE_LOST_BEFORE" not in os.environ
    if first:
        raise RuntimeError(f"Error invoking function: {LOST}")
    assert not first
