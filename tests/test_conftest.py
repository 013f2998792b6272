"""What `tests/conftest.py` does: the order of tests, and what follows when a device is lost."""

from __future__ import annotations

import os

import pytest

from tests.conftest import LOST, command_again, uses_vulkan


def test_a_test_whose_device_is_lost_is_run_again_in_another_process() -> None:
    first = "XPR_TEST_DEVICE_LOST_BEFORE" not in os.environ
    if first:
        raise RuntimeError(f"Error invoking function: {LOST}")
    assert not first


@pytest.mark.parametrize("runtime", [None, "vulkan"])
def test_it_is_run_again_on_the_same_runtime(runtime: str | None) -> None:
    given = [a for a in command_again("a/test", runtime) if a.startswith("--runtime")]
    assert given == ([] if runtime is None else [f"--runtime={runtime}"])


def test_modules_that_use_vulkan_come_last(request: pytest.FixtureRequest) -> None:
    found = [uses_vulkan(item.path) for item in request.session.items]
    assert found == sorted(found)
