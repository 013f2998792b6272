"""The native part under the address and the thread sanitizer: damaged modules, many threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.native import corpus
from xpr.runtimes import processor

ROOT = Path(__file__).parents[2]
LONG = os.environ.get("XPR_LONG_TESTS") == "1"

in_the_long_form = pytest.mark.skipif(
    not LONG, reason="builds the native part again and runs for minutes: XPR_LONG_TESTS=1"
)
needs = pytest.mark.skipif(
    not (ROOT / "CMakePresets.json").exists()
    or any(shutil.which(tool) is None for tool in ("cmake", "ninja", "c++")),
    reason="needs cmake, ninja and a compiler for C++",
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    assert len(corpus.write(folder)) >= 9
    return folder


def built(preset: str, program: str) -> Path:
    """A test program, built with a preset where it is not up to date."""
    for step in (["--preset", preset], ["--build", "--preset", preset, "--target", program]):
        done = subprocess.run(
            ["cmake", *step], cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build" / preset / program


def run(program: Path, *words: str) -> str:
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, timeout=36_000
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@in_the_long_form
@needs
def test_damaged_modules_are_refused_or_harmless(modules: Path) -> None:
    count = 1_000_000
    program = built("asan", "fuzz_modules")
    assert f"{count} damaged modules" in run(program, str(modules), str(count))


@in_the_long_form
@needs
def test_threads_that_run_programs_race_for_nothing(modules: Path) -> None:
    program = built("tsan", "race_programs")
    found = run(program, str(modules), "1000")
    assert found == "pool right, replaced right, programs right\n"


@in_the_long_form
@needs
@pytest.mark.parametrize("level", ["v3", "v4"])
def test_products_stay_inside_of_their_memory(level: str) -> None:
    needed = {"v3": "avx2", "v4": "avx512vl"}[level]
    if needed not in processor.description().split():
        pytest.skip("the kernels are for another kind of processor")
    assert run(built("asan", f"product_bounds_{level}")) == "1000 products right\n"
    assert run(built("asan", f"kernel_bounds_{level}")) == "500 rounds right\n"


# Python itself is not instrumented: only accesses of the native part are watched, and memory that
# Python keeps to its end is not lost.
_RUNTIMES = {
    "tsan": ("libtsan.so", {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1 exitcode=66"}),
    "asan": (
        "libasan.so",
        {
            "ASAN_OPTIONS": "detect_leaks=0 allocator_may_return_null=1 exitcode=66",
            "PYTHONMALLOC": "malloc",
        },
    ),
}


def _library(name: str) -> str:
    """Where the compiler has a library; skips where it has none."""
    found = subprocess.run(
        ["c++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"the compiler has no {name}")
    return found


def run_module(preset: str, module: str, *arguments: str) -> tuple[int, str, str]:
    """Run a module of the tests with a native part that a sanitizer watches."""
    library, settings = _RUNTIMES[preset]
    # The sanitizers look for C++'s own library when they start, which Python does not load.
    runtimes = [_library(name) for name in (library, "libstdc++.so")]
    folder = ROOT / "build" / f"{preset}-extension"
    options = [
        "-DXPR_EXTENSION=ON",
        "-DXPR_TEST_PROGRAMS=OFF",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    for step in (
        ["--preset", preset, "-B", str(folder), *options],
        ["--build", str(folder), "--target", "_native"],
    ):
        done = subprocess.run(
            ["cmake", *step], cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (extension,) = folder.glob("_native*.so")
    done = subprocess.run(
        [sys.executable, ROOT / "tests/native/instrumented.py", extension, module, *arguments],
        env={
            **os.environ,
            **settings,
            "LD_PRELOAD": " ".join(runtimes),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=36_000,
    )
    return done.returncode, done.stdout, done.stderr


@in_the_long_form
@needs
@pytest.mark.parametrize("preset", ["tsan", "asan"])
def test_calls_from_many_threads_under_a_sanitizer(preset: str) -> None:
    assert run_module(preset, "tests.native.call_path", "1000") == (0, "right\n", "")


@in_the_long_form
@needs
@pytest.mark.parametrize("kind", ["arrays", "loops"])
def test_random_programs_under_the_address_sanitizer(kind: str) -> None:
    count = 5000
    found = run_module("asan", "tests.reliability.random_runs", kind, "cpu", "0", f"{count}")
    status, printed, _ = found
    assert status == 0, found
    assert f"{count} programs, 0 to {count - 1}, 0 went wrong" in printed, found


@pytest.mark.skipif(
    find_spec("xpr.runtimes._native") is None, reason="the native part was not built here"
)
def test_calls_take_no_memory() -> None:
    """As many calls as a program makes in hours leave the process as large as it was."""
    rounds = 10_000_000 if LONG else 100_000
    source = f"""
import resource
import xpr
f = xpr.jit(lambda x, y: (x + 1, {{"a": x * y}}))
x = xpr.numpy.arange(4.0)
def call(n):
    y = x
    for _ in range(n):
        y, rest = f(y, x)
        _ = y[1] + 1
call(20_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
call({rounds})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    for choice in ("1", "calls"):
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "XPR_NATIVE": choice, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < 2048  # KiB
