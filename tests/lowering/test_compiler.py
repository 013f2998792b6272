"""The compile layer: cache, fallback flags, diagnostics, threads, processes, interrupts."""

from __future__ import annotations

import dataclasses
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lowering.iree_util import Call, run
from tests.lowering.test_iree_hazards import BATCHED, DATA_TILING, FAST
from xpr.core.config import config, override
from xpr.core.errors import CompileError
from xpr.lowering.cache import CompileCache, default_cache
from xpr.lowering.iree import driver, failures
from xpr.lowering.iree.compiler import compile_stablehlo
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.iree.jobs import Job
from xpr.lowering.targets import get_target, register_target
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.cpu import cpu_target
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

CPU = get_target("cpu")
HINTS = ProgramHints()
ROOT = Path(__file__).parents[2]

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals, owners and fork are POSIX's")


def add_text(name: str = "main", size: int = 8) -> str:
    """A program that doubles a vector; different names are different programs to the cache."""
    t = f"tensor<{size}xf32>"
    return (
        f"func.func public @{name}(%x: {t}) -> {t} {{\n"
        f"  %0 = stablehlo.add %x, %x : {t}\n  return %0 : {t}\n}}\n"
    )


REFUSED = """\
func.func public @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""
REFUSED_WITH_PLACES = """\
func.func public @main(%x: tensor<4x4xf32> loc(unknown)) -> tensor<4x4xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<4x4xf32> loc(#named)
  return %0 : tensor<4x4xf32> loc(unknown)
} loc(unknown)
#line = loc("/home/user/my model.py":12:7)
#named = loc("jit(f)/cholesky"(#line))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompileCache:
    """A cache directory of the test's own."""
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("XPR_CACHE", raising=False)
    monkeypatch.delenv("XPR_CACHE_MAX_BYTES", raising=False)
    found = default_cache()
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiles in this process and in those that are started here, where they can be watched.

    `test_compiler_process.py` is about compiles elsewhere.
    """
    monkeypatch.setenv("XPR_COMPILER", "inline")
    before = config.read("compiler")
    config.update("compiler", "inline")
    yield
    config.update("compiler", before)


class Compiles(list[tuple[str, tuple[str, ...], bool]]):
    """The compiles made: their text, flags, and whether they were verified."""


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Compiles:
    made = Compiles()
    original = driver.compile_module

    def counted(
        text: str, flags: Sequence[str], *, verify: bool, **options: Any
    ) -> tuple[bytes | None, list[Diagnostic]]:
        made.append((text, tuple(flags), verify))
        return original(text, flags, verify=verify, **options)

    monkeypatch.setattr(driver, "compile_module", counted)
    return made


def compile_cpu(text: str, hints: ProgramHints = HINTS) -> bytes:
    return compile_stablehlo(text, CPU, hints=hints)


def doubles(module: bytes, name: str = "main", size: int = 8) -> None:
    """Check that a module doubles its argument."""
    x = np.arange(size, dtype=np.float32)
    status, (answer,) = run(module, [Call(name, [x])])
    assert (status, answer.error) == (0, "")
    np.testing.assert_array_equal(answer.results[0], 2 * x)


def entries(cache: CompileCache) -> list[Path]:
    return sorted(cache.directory.glob("*/*.vmfb"))


def child(script: str, **environment: str) -> subprocess.Popen[str]:
    """A Python process in which ``compile_cpu`` and ``add_text`` are to hand."""
    prelude = (
        "from tests.lowering.test_compiler import add_text, compile_cpu\n"
        "from xpr.lowering.iree import compiler_library\n"
        "import os, sys, time\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", prelude + textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


# ---- the plain case


def test_a_program_compiles_and_runs(cache: CompileCache, compiles: Compiles) -> None:
    module = compile_cpu(add_text())
    doubles(module)
    assert compile_cpu(add_text()) == module
    assert len(compiles) == 1
    assert len(entries(cache)) == 1


def test_a_compile_on_one_core_gives_the_same_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[bool] = []
    original = driver.compile_module

    def noted(*args: Any, parallel: bool, **kwargs: Any) -> Any:
        used.append(parallel)
        return original(*args, parallel=parallel, **kwargs)

    monkeypatch.setattr(driver, "compile_module", noted)
    monkeypatch.setenv("XPR_CACHE", "0")
    modules = []
    for parallel in (True, False):
        with override("parallel_compiles", parallel):
            modules.append(compile_cpu(add_text()))
    assert used == [True, False]
    assert modules[0] == modules[1]
    doubles(modules[1])


def test_the_first_compile_for_a_target_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at a time may end the process, where LLVM's code generators are not yet registered."""
    monkeypatch.setattr(driver, "_prepared", set())
    started, first_may_end = threading.Semaphore(0), threading.Event()
    running: list[int] = []
    together: list[int] = []

    def compile_(*_: Any) -> tuple[bytes, list[Diagnostic]]:
        running.append(1)
        first = len(running) == 1
        started.release()
        if first:
            first_may_end.wait(60)
            together.append(len(running))
        return b"", []

    monkeypatch.setattr(driver, "_without_declined", compile_)
    flags = ["--iree-hal-target-device=local"]

    def work() -> None:
        driver.compile_module("", flags, name="x", verify=False)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert started.acquire(timeout=60)
    # The others cannot begin, however long they are given.
    assert not started.acquire(timeout=0.2)
    first_may_end.set()
    for thread in threads:
        thread.join(60)
    assert together == [1]
    assert len(running) == 4


def test_the_key_holds_all_that_shapes_the_module() -> None:
    flags = CPU.flag_sets(HINTS)

    def key(
        text: str = "a",
        target: Target = CPU,
        sets: list[Any] = flags,
        verify: bool = False,
        hints: ProgramHints = HINTS,
    ) -> bytes:
        job = Job(text, None, target, list(sets), hints, verify, True, "inline")
        return job.cache_key()

    keys = [
        key(),
        key(text="b"),
        key(target=cpu_target("generic")),
        key(target=dataclasses.replace(CPU, name="other")),
        key(target=dataclasses.replace(CPU, machine=lambda: "another machine")),
        key(sets=flags[:1]),
        key(sets=[(*flags[0], *flags[1])]),
        key(verify=True),
        key(hints=ProgramHints(has_control_flow=True)),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_checks_switch_the_compilers_verifier_on(
    cache: CompileCache, compiles: Compiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = config.enable_checks
    try:
        config.update("enable_checks", False)
        compile_cpu(add_text())
        config.update("enable_checks", True)
        compile_cpu(add_text())
    finally:
        config.update("enable_checks", before)
    assert [verify for _, _, verify in compiles] == [False, True]


def test_a_module_for_any_cpu_does_not_depend_on_this_one(cache: CompileCache) -> None:
    generic = cpu_target("generic")
    assert generic.machine_key() == ""
    assert CPU.machine_key() != ""
    doubles(compile_stablehlo(add_text(), generic, hints=HINTS))
    arm = cpu_target("generic", "aarch64-unknown-linux-gnu")
    assert b"embedded-elf-arm_64" in compile_stablehlo(add_text(), arm, hints=HINTS)


def test_an_unknown_flag_is_an_error_of_its_own(cache: CompileCache) -> None:
    target = dataclasses.replace(CPU, choose_flags=lambda _: [("--no-such-flag",)])
    with pytest.raises(RuntimeError, match="no-such-flag"):
        compile_stablehlo(add_text(), target, hints=HINTS)


# ---- targets and flags


def test_targets_are_found_by_name() -> None:
    assert CPU.name == "cpu"
    assert CPU.host_calls
    with pytest.raises(ValueError, match=r"unknown target 'abacus'; the known targets are .*cpu"):
        get_target("abacus")
    with pytest.raises(ValueError, match="'cpu' is already registered"):
        register_target(CPU)


TILING, SPLIT = "data-tiling", "split-reduction"


@pytest.mark.parametrize(
    ("hints", "wanted", "unwanted"),
    [
        (ProgramHints(), "reassociate", TILING),
        (ProgramHints(matmul_size=(256, 256, 256)), "reassociate", TILING),
        (ProgramHints(matmul_size=(1024, 1024, 1024)), TILING, SPLIT),
        (ProgramHints(matmul_size=(8, 1024, 1024)), "reassociate", TILING),
        (ProgramHints(matmul_size=(1024, 8, 1024)), "reassociate", TILING),
        (ProgramHints(matmul_size=(100, 100, 100)), TILING, SPLIT),
        (ProgramHints(matmul_size=(1024, 1024, 1024), matvec_size=(64, 64)), TILING, SPLIT),
        (ProgramHints(matmul_size=(512, 512, 512), matvec_size=(4096, 4096)), "fusion", TILING),
        (ProgramHints(matvec_size=(4096, 4096)), "fusion", TILING),
        (
            ProgramHints(matmul_size=(512, 1024, 256), has_batched_contraction=True),
            "fusion",
            TILING,
        ),
        (
            ProgramHints(matmul_size=(4096, 1024, 1024), has_batched_contraction=True),
            TILING,
            SPLIT,
        ),
        (
            ProgramHints(matmul_size=(1024, 1024, 1024), has_control_flow=True),
            TILING,
            SPLIT,
        ),
        (ProgramHints(reduction_length=1 << 24), SPLIT, TILING),
        (ProgramHints(reduction_length=4096), "reassociate", SPLIT),
    ],
)
def test_flags_follow_the_program(hints: ProgramHints, wanted: str, unwanted: str) -> None:
    sets = llvm_cpu_flag_sets(hints)
    assert any(wanted in flag for flag in sets[0])
    assert not any(unwanted in flag for flag in sets[0])
    assert sets[-1] == ("--iree-dispatch-creation-fuse-multi-use=false",)
    assert FAST in sets or hints.reduction_length > 1
    assert CPU.flag_sets(hints) == [(*CPU.base_flags, *flags) for flags in sets]


def test_plainer_flags_follow_when_the_best_fail(cache: CompileCache, compiles: Compiles) -> None:
    """The program is one that data tiling cannot compile; its hints ask for data tiling."""
    hints = ProgramHints(matmul_size=(1024, 1024, 1024))
    module = compile_cpu(BATCHED, hints)
    base = CPU.base_flags
    assert [flags for _, flags, _ in compiles] == [(*base, *DATA_TILING), (*base, *FAST)]
    rng = np.random.default_rng(5)
    a, p, q = (rng.standard_normal(s).astype(np.float32) for s in ((8, 512), (8, 3), (512, 3)))
    status, (answer,) = run(module, [Call("f", [a, p, q])])
    assert status == 0
    expected = np.einsum("bk,bkn->bn", a.astype(float), p[:, None] - q[None].astype(float))
    np.testing.assert_allclose(answer.results[0], expected, rtol=1e-5, atol=1e-4)
    assert compile_cpu(BATCHED, hints) == module
    assert len(compiles) == 2


# ---- the cache in use


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


def _give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize("damage", [_truncate, _flip, _empty, _open_to_all, _give_away])
def test_a_bad_entry_is_compiled_again(
    cache: CompileCache, compiles: Compiles, damage: Callable[[Path], None]
) -> None:
    if os.name != "posix" and damage in (_open_to_all, _give_away):
        pytest.skip("owners and modes are POSIX notions")
    compile_cpu(add_text())
    (path,) = entries(cache)
    damage(path)
    module = compile_cpu(add_text())
    assert len(compiles) == 2
    doubles(module)
    assert compile_cpu(add_text()) == module
    assert len(compiles) == 2
    if os.name == "posix":
        status = path.stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (os.geteuid(), 0o600)


def test_without_a_cache_nothing_is_kept(
    cache: CompileCache, compiles: Compiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    compile_cpu(add_text())
    compile_cpu(add_text())
    assert len(compiles) == 2
    assert not cache.directory.exists()


def test_an_unusable_cache_directory_gives_one_warning_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("one", "two", "two"):
            compile_cpu(add_text(name))
    assert [str(w.message)[:33] for w in caught] == ["compiled programs are not cached:"]


def test_a_failure_leaves_no_entry(cache: CompileCache, compiles: Compiles) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="cholesky"):
            compile_cpu(REFUSED)
    assert not entries(cache)
    # The last time with operations that are not fused.
    assert len(compiles) == 2 * (len(CPU.flag_sets(HINTS)) + 1)


# ---- what a process pays


def test_nothing_is_loaded_until_a_compile_is_needed(cache: CompileCache) -> None:
    compile_cpu(add_text())
    script = """
    def loaded():
        return sorted(m for m in sys.modules if m == "iree" or m.startswith(("iree.", "jaxlib")))
    compile_cpu(add_text())
    print(compiler_library.is_loaded(), [m for m in loaded() if m != "iree"])
    compile_cpu(add_text("another"))
    print(compiler_library.is_loaded(), "iree.compiler" in sys.modules)
    """
    assert output(child(script)).splitlines() == ["False []", "True False"]


# ---- diagnostics


def test_an_error_names_the_users_line_and_keeps_the_program(cache: CompileCache) -> None:
    with pytest.raises(CompileError) as caught:
        compile_stablehlo(REFUSED, CPU, hints=HINTS, debug_text=lambda: REFUSED_WITH_PLACES)
    error = caught.value
    assert error.source_location == ("/home/user/my model.py", 12, 7)
    assert "/home/user/my model.py:12:7" in str(error)
    assert "stablehlo.cholesky" in error.diagnostics
    assert error.diagnostics.startswith("error: ")
    assert error.diagnostics in str(error)
    assert error.stablehlo_path is not None
    assert error.stablehlo_path in str(error)
    path = Path(error.stablehlo_path)
    assert path.read_text() == REFUSED_WITH_PLACES
    path.unlink()


def test_an_error_without_places_has_no_location(cache: CompileCache) -> None:
    with pytest.raises(CompileError, match=r"cannot be compiled for target 'cpu'\.") as caught:
        compile_cpu(REFUSED)
    assert caught.value.source_location is None
    assert caught.value.stablehlo_path is not None
    Path(caught.value.stablehlo_path).unlink()


def test_text_that_does_not_parse_is_reported(cache: CompileCache) -> None:
    with pytest.raises(CompileError, match="expected") as caught:
        compile_cpu("func.func @main( {")
    assert caught.value.source_location is None


def test_places_are_worked_out_only_after_a_failure(cache: CompileCache) -> None:
    def never() -> str:
        raise AssertionError("a compile that succeeds has no need of places")

    doubles(compile_stablehlo(add_text(), CPU, hints=HINTS, debug_text=never))


def test_a_failure_with_an_outside_cause_is_got_over(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every compile fails until the places are asked for, as if the linker had been killed."""
    original = driver.compile_module
    failures = len(CPU.flag_sets(HINTS))

    def unlucky(text: str, *arguments: Any, **options: Any) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            return None, [Diagnostic("error", "the linker was killed")]
        return original(text, *arguments, **options)

    monkeypatch.setattr(driver, "compile_module", unlucky)
    doubles(compile_stablehlo(add_text(), CPU, hints=HINTS, debug_text=add_text))


def test_a_program_that_cannot_be_saved_is_reported_all_the_same(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(failures.tempfile, "mkstemp", full)
    with pytest.raises(CompileError, match=r"could not be saved .*No space left") as caught:
        compile_cpu(REFUSED)
    assert caught.value.stablehlo_path is None


@posix_only
def test_a_missing_directory_for_temporary_files_is_an_error(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IREE would end the process."""
    monkeypatch.setenv("TMPDIR", "/nonexistent/directory")
    with pytest.raises(OSError, match=r"directory for temporary files.*set TMPDIR"):
        compile_cpu(add_text())
    monkeypatch.delenv("TMPDIR")
    doubles(compile_cpu(add_text()))


# ---- threads, processes, signals


def test_threads_share_the_compile_of_one_program(cache: CompileCache, compiles: Compiles) -> None:
    modules: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: modules.append(compile_cpu(add_text()))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(modules) == 6
    assert len(set(modules)) == 1
    assert len(compiles) == 1
    doubles(modules[0])


def test_threads_compile_different_programs_at_once(cache: CompileCache) -> None:
    modules: dict[str, bytes] = {}

    def work(name: str) -> None:
        modules[name] = compile_cpu(add_text(name))

    threads = [threading.Thread(target=work, args=(f"f{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, module in modules.items():
        doubles(module, name)


def test_a_failure_reaches_every_thread_that_waits(cache: CompileCache) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            compile_cpu(REFUSED)
        except CompileError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 3


def test_a_compile_needs_no_thread(cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    module = compile_cpu(add_text())
    monkeypatch.undo()
    doubles(module)


@pytest.mark.parametrize("count", [2, 8])
def test_processes_compile_one_program_at_once(cache: CompileCache, count: int) -> None:
    script = """
    import hashlib
    print(hashlib.sha256(compile_cpu(add_text())).hexdigest())
    """
    found = {output(process) for process in [child(script) for _ in range(count)]}
    assert len(found) == 1
    assert len(entries(cache)) == 1
    assert not list(cache.directory.glob("*/*.tmp"))
    doubles(compile_cpu(add_text()))


@posix_only
def test_a_forked_child_can_compile(cache: CompileCache) -> None:
    """Its parent has used the compiler, whose threads a fork leaves behind."""
    script = """
    import signal
    compile_cpu(add_text("parent"))
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        compile_cpu(add_text("child"))
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
    compile_cpu(add_text("parent_again"))
    """
    assert output(child(script)) == "0\n"
    assert len(entries(cache)) == 3


def long_text(steps: int) -> str:
    t = "tensor<16xf32>"
    lines = [f"%x{i + 1} = stablehlo.add %x{i}, %x{max(0, i - 1)} : {t}" for i in range(steps)]
    body = "\n".join(lines)
    return f"func.func public @main(%x0: {t}) -> {t} {{\n{body}\nreturn %x{steps} : {t} }}"


@posix_only
@pytest.mark.parametrize("where", ["auto", "inline"])
def test_an_interrupt_takes_effect_at_once_and_does_no_harm(
    cache: CompileCache, where: str
) -> None:
    script = """
    import signal, threading
    from tests.lowering.test_compiler import long_text
    compile_cpu(add_text("first"))
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        compile_cpu(long_text(900))
    except KeyboardInterrupt:
        # At once: a compile in this process is still under way; one in a helper ends, too.
        threads = [t for t in threading.enumerate() if t.name == "xpr-compile"]
        if os.environ["XPR_COMPILER"] == "inline":
            print(len(threads))
        else:
            for thread in threads:
                thread.join()
            print(1)
        compile_cpu(add_text("second"))
    """
    assert output(child(script, XPR_COMPILER=where)) == "1\n"
    # The process has waited for the compile in the background, and ended in good order.
    assert len(entries(cache)) == 2


@posix_only
@pytest.mark.parametrize("where", ["auto", "inline"])
def test_an_interrupt_by_signal_from_outside(cache: CompileCache, where: str) -> None:
    script = """
    from tests.lowering.test_compiler import long_text
    print("ready", flush=True)
    try:
        compile_cpu(long_text(700))
    except KeyboardInterrupt:
        compile_cpu(add_text("second"))
        print("interrupted")
    """
    process = child(script, XPR_COMPILER=where)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    threading.Event().wait(0.4)
    process.send_signal(signal.SIGINT)
    assert output(process) == "interrupted\n"
