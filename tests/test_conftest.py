"""What `tests/conftest.py` does: the cache, the order of tests, and when a device is lost."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import LOST, command_again, uses_vulkan


def test_a_test_whose_device_is_lost_is_run_again_in_another_process() -> None:
    first = "XPR_TEST_DEVICE_LOST_BEFORE" not in os.environ
    if first:
        raise RuntimeError(f"Error invoking function: {LOST}")
    assert not first


_SHOWN = """
    import os, subprocess, sys, pytest

    @pytest.mark.parametrize("n", range(4))
    def test_shows_its_cache(n):
        program = (
            "import xpr; xpr.jit(lambda x: x + 1)(1.0); "
            "from xpr.lowering.cache import default_cache; print(default_cache().directory)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        with open(os.environ["SHOWN"], "a") as file:
            file.write(f"{os.environ['XPR_CACHE_DIR']} {done.stdout.strip()}\\n")
"""


def _caches_of_a_run(tmp_path: Path, *options: str, **environment: str) -> set[str]:
    """The caches that tests of another run had, and the processes that these tests started."""
    root = Path(__file__).parent.parent
    test, shown = tmp_path / "test_shown.py", tmp_path / "shown"
    test.write_text(textwrap.dedent(_SHOWN), encoding="utf-8")
    shown.unlink(missing_ok=True)
    inherited = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("XPR_CACHE", "XPR_COLD", "PYTEST_"))
    }
    plugins = ("-p", "no:cacheprovider", "-p", "tests.conftest")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(test)],
        env={**inherited, "SHOWN": str(shown), "PYTHONPATH": str(root), **environment},
        cwd=root,
        check=True,
        capture_output=True,
    )
    lines = shown.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    return {directory for line in lines for directory in line.split()}


def test_workers_share_a_cache_of_the_run_which_is_removed(tmp_path: Path) -> None:
    (first,) = _caches_of_a_run(tmp_path, "-n", "2", TMPDIR=str(tmp_path), XPR_COLD_TESTS="1")
    assert Path(first).parent == tmp_path
    assert not Path(first).exists()


def test_a_cache_that_is_given_is_kept(tmp_path: Path) -> None:
    given = tmp_path / "given"
    found = _caches_of_a_run(tmp_path, XPR_CACHE_DIR=str(given), XPR_COLD_TESTS="1")
    assert found == {str(given)}
    assert any(given.iterdir())


@pytest.mark.parametrize("runtime", [None, "vulkan"])
def test_it_is_run_again_on_the_same_runtime(runtime: str | None) -> None:
    given = [a for a in command_again("a/test", runtime) if a.startswith("--runtime")]
    assert given == ([] if runtime is None else [f"--runtime={runtime}"])


def test_modules_that_use_vulkan_come_last(request: pytest.FixtureRequest) -> None:
    found = [uses_vulkan(item.path) for item in request.session.items]
    assert found == sorted(found)


def test_garbage_is_not_looked_for_among_what_collecting_made(
    request: pytest.FixtureRequest,
) -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10 * len(request.session.items)
    seen = {id(x) for x in gc.get_objects()}
    assert not any(id(item) in seen for item in request.session.items)
