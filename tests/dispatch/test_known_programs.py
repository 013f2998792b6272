"""Programs whose modules are found in the cache before they are lowered."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from tests.reliability import random_programs
from xpr import lax
from xpr.core import sources
from xpr.core.config import override
from xpr.core.events import before_compile
from xpr.core.primitive import Primitive
from xpr.dispatch import compiling, known_programs
from xpr.dispatch.compiled import CompiledProgram
from xpr.dispatch.known_programs import UNREAD, KnownModule, key_of
from xpr.lowering import passes
from xpr.lowering import rules as lowering_rules
from xpr.lowering.cache import CompileCache, default_cache
from xpr.lowering.registry import rules as rules_by_name
from xpr.primitives.callback import pure_callback_p
from xpr.runtimes import registry
from xpr.runtimes.extension import native

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def no_rules_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    lowering_rules.load_all()
    monkeypatch.setattr(sys.modules["xpr.lowering.registry"], "program_rules", {})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompileCache:
    """The disk cache, empty."""
    monkeypatch.setenv("XPR_CACHE", "1")
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("XPR_CACHE_PATH", raising=False)
    found = default_cache()
    assert found is not None
    return found


class Lowerings:
    """Counts programs that are lowered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = compiling.lower_jaxpr_to_module

        def lower(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(compiling, "lower_jaxpr_to_module", lower)


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> Lowerings:
    return Lowerings(monkeypatch)


def program(x: Any) -> Any:
    """Some of everything."""
    y = lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x)
    return jnp.sin(y) @ x.T, xpr.nn.relu(x), lax.cond(x[0, 0] > 0, jnp.cos, jnp.tan, x)


def again(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A first call of a function, as a new process makes it."""
    xpr.clear_caches()
    return xpr.jit(function, **options)(*args)


def files(cache: CompileCache) -> list[Path]:
    """The small files that say where modules are."""
    return sorted(cache.directory.glob("*/*.program"))


def key(function: Callable[..., Any], *args: Any, donated: tuple[int, ...] = ()) -> bytes | None:
    """The key of a program for the default device."""
    closed = xpr.make_jaxpr(function)(*args)
    return key_of(closed, "f", registry.first_device("cpu"), donated)


def test_the_second_process_lowers_nothing(cache: CompileCache, lowerings: Lowerings) -> None:
    first = again(program, X)
    assert lowerings.count == 1
    assert len(files(cache)) == 1
    second = again(program, X)
    assert lowerings.count == 1
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_new_process_imports_nothing_of_the_lowering(cache: CompileCache) -> None:
    # IREE's own runtime, which runs programs where the native part does not, loads that one.
    unwatched = {"tempfile"} if native().executor is None else set()
    code = (
        f"unwatched = {unwatched!r}"
        + """
import sys
import numpy as np
import xpr, xpr.numpy as jnp
f = xpr.jit(lambda x: jnp.sort(jnp.sin(x) @ x.T)[::-1] + jnp.arange(3))
print(np.asarray(f(np.eye(3, dtype=np.float32))).tolist())
watched = ("xpr.lowering.", "iree.compiler", "tempfile")
print([m for m in sys.modules if m.startswith(watched) and m not in unwatched])
"""
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert found[0][0] == found[1][0]
    loaded = {"cache", "iree", "iree.installed", "iree.stopwatch"}
    assert found[1][1] == str([f"xpr.lowering.{m}" for m in ("cache", *sorted(loaded - {"cache"}))])


FIRST_CALL = """
import sys
import numpy
before = set(sys.modules)
import xpr, xpr.numpy as jnp
print(xpr.jit(lambda x: x + 1)(jnp.arange(3.0)))
loaded = sorted(set(sys.modules) - before)
print([m for m in loaded if m in UNNEEDED])
print(len([m for m in loaded if m.split(".")[0] == "xpr"]))
"""
# Modules that take a millisecond and more each, and parts of xpr that a sum has nothing to do with.
UNNEEDED = [
    *("dataclasses", "glob", "importlib.metadata", "json", "logging", "optree", "pathlib"),
    *("platformdirs", "tempfile", "traceback", "typing_extensions", "urllib.parse"),
    *("xpr.contexts", "xpr.interpreters.jvp", "xpr.interpreters.references", "xpr.numpy.indexing"),
    *("xpr.numpy.reductions", "xpr.primitives._keys", "xpr.primitives._physical_rules"),
    *("xpr.primitives.call", "xpr.primitives.dot_general", "xpr.primitives.ffi"),
    *("xpr.primitives.gather", "xpr.primitives.scan", "xpr.sharding.explicit"),
]


def test_a_first_call_loads_little(cache: CompileCache) -> None:
    code = f"UNNEEDED = {UNNEEDED}\n{FIRST_CALL}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    value, unneeded, files = found[1]  # of the process that found the program in the cache
    assert value == "[1. 2. 3.]"
    if native().executor is not None:  # IREE's runtime loads more
        assert unneeded == "[]"
        assert int(files) <= 150, "each file takes about 0.3 ms of every process that uses xpr"


def test_donations_are_known(cache: CompileCache, lowerings: Lowerings) -> None:
    for _ in range(2):
        x = jnp.asarray(X)
        xpr.clear_caches()
        found = xpr.jit(lambda x, y: x * 2 + y, donate_argnums=0)(x, X)
        np.testing.assert_array_equal(found, X * 2 + X)
        assert x.is_deleted()
    assert lowerings.count == 1
    again(lambda x, y: x * 2 + y, X, X)
    assert lowerings.count == 2


def test_donations_that_are_lost_are_told_of_each_time(cache: CompileCache) -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"donated buffers were not usable: f32\[3,4\]"):
            again(lambda x: jnp.sum(x, axis=0), jnp.asarray(X), donate_argnums=0)


def test_what_is_known_is_what_the_lowering_said(cache: CompileCache) -> None:
    device = registry.first_device("cpu")
    closed = xpr.make_jaxpr(program)(X)
    signatures, lines = [], []
    for expected in (compiling.PendingModule, KnownModule):
        found = CompiledProgram(closed, "f", device, (0,), wait=False)
        assert type(found.pending) is expected
        found.finish()
        assert found.executable is not None
        signatures.append(found.executable.signature)
        assert found.executable.lines is not None
        lines.append(found.executable.lines())  # a known one is lowered for that
    assert lines[0]
    assert lines[0] == lines[1]
    assert signatures[0] == signatures[1]


def test_races_and_warm_starts_use_what_is_known(cache: CompileCache, lowerings: Lowerings) -> None:
    again(program, X)
    for race in ("wait", "race"):
        with override("first_call", race):
            xpr.clear_caches()
            f = xpr.jit(program)
            warming = f.warm(X)
            assert warming.done()
            warming.wait()
            np.testing.assert_array_equal(f(X)[1], np.maximum(X, 0))
    assert lowerings.count == 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [("enable_checks", True), ("log_compiles", True), ("explain", "loops"), ("dump_ir_to", "...")],
)
def test_whoever_watches_sees_all(
    cache: CompileCache, lowerings: Lowerings, setting: str, value: Any, tmp_path: Path
) -> None:
    again(program, X)
    with override(setting, str(tmp_path) if value == "..." else value):
        again(program, X)
    assert lowerings.count == 2


def test_whoever_may_forbid_a_compile_is_asked(cache: CompileCache, lowerings: Lowerings) -> None:
    again(program, X)
    asked: list[str] = []
    before_compile.append(asked.append)
    try:
        again(program, X)
    finally:
        before_compile.remove(asked.append)
    assert asked == ["cpu"]
    assert lowerings.count == 1


def test_programs_with_effects_and_calls_of_the_host_are_lowered(
    cache: CompileCache, lowerings: Lowerings
) -> None:
    def printing(x: Any) -> Any:
        xpr.debug.callback(lambda x: None, x)
        return x + 1

    big = np.ones((64, 64), np.float32) + 64 * np.eye(64, dtype="f")
    for function, x in (
        (printing, X),
        (lambda x: xpr.pure_callback(np.sin, x, x) + 1, X),
        (lambda x: jnp.linalg.eigh(x)[0], big),
    ):
        before = lowerings.count
        again(function, x)
        again(function, x)
        assert lowerings.count == before + 2
    assert not files(cache)


@pytest.mark.parametrize("kept", [0, 10, 84, 90, -1])
def test_a_damaged_entry_is_written_anew(
    cache: CompileCache, lowerings: Lowerings, kept: int
) -> None:
    again(program, X)
    (path,) = files(cache)
    sound = path.read_bytes()
    path.write_bytes(sound[:kept])
    np.testing.assert_array_equal(again(program, X)[1], np.maximum(X, 0))
    assert lowerings.count == 2
    assert path.read_bytes() == sound


def test_an_entry_of_another_program_is_refused(cache: CompileCache, lowerings: Lowerings) -> None:
    again(program, X)
    (path,) = files(cache)
    again(lambda x: x + 1, X)
    other = next(p for p in files(cache) if p != path)
    other.write_bytes(path.read_bytes())
    np.testing.assert_array_equal(again(lambda x: x + 1, X), X + 1)
    assert lowerings.count == 3


def test_an_entry_of_the_wrong_size_is_refused(cache: CompileCache) -> None:
    """Sound by its digest, but none that this version writes."""
    again(program, X)
    (path,) = files(cache)
    found = bytes.fromhex(path.stem)
    facts = cache.program(found)
    assert facts is not None
    assert known_programs.find(found) is not None
    for wrong in (b"", facts[:-1], facts + b"0", facts + bytes(8)):
        cache.put_program(found, wrong)
        assert known_programs.find(found) is None


def test_a_module_that_is_gone_is_compiled_again(cache: CompileCache, lowerings: Lowerings) -> None:
    again(program, X)
    for entry in cache.entries():
        cache.path(entry.key).unlink()
    np.testing.assert_array_equal(again(program, X)[1], np.maximum(X, 0))
    assert lowerings.count == 2
    assert len(cache.entries()) == 1


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX notions")
def test_what_others_may_write_is_refused(cache: CompileCache, lowerings: Lowerings) -> None:
    again(program, X)
    (path,) = files(cache)
    path.chmod(0o666)
    again(program, X)
    assert lowerings.count == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_shared_directory_is_read(
    cache: CompileCache,
    lowerings: Lowerings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again(program, X)
    monkeypatch.setenv("XPR_CACHE_PATH", str(cache.directory))
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "own"))
    again(program, X)
    assert lowerings.count == 1
    # A directory that cannot be written is none to complain of where nothing has to be written.
    for path in files(cache):
        path.unlink()
    monkeypatch.setenv("XPR_CACHE_DIR", os.devnull)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again(program, X)
    assert lowerings.count == 2


def test_clearing_and_pruning_remove_them(cache: CompileCache) -> None:
    again(program, X)
    again(lambda x: x + 1, X)
    assert len(files(cache)) == 2
    old = files(cache)[0]
    os.utime(old, (1, 1))
    cache.max_bytes = sum(p.stat().st_size for p in cache.directory.glob("*/*.*")) - 1
    cache.prune()
    assert not old.exists()
    cache.clear()
    assert not files(cache)


def test_without_a_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    np.testing.assert_array_equal(again(lambda x: x + 1, X), X + 1)


def test_the_key_has_all_that_the_lowering_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return x * 2

    keys = [key(f, X), key(f, X, donated=(0,)), key(f, X.T), key(lambda x: x * 3, X)]
    closed = xpr.make_jaxpr(f)(X)
    keys.append(key_of(closed, "g", registry.first_device("cpu"), ()))
    for name, value in (("enable_x64", True), ("default_matmul_precision", "highest")):
        with override(name, value):
            keys.append(key_of(closed, "f", registry.first_device("cpu"), ()))
    for module, name in ((known_programs.installed, "version"), (known_programs, "_contents")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_: "another")
            keys.append(key(f, X))
    with monkeypatch.context() as patch:
        patch.setattr(known_programs.processor, "description", lambda: "another")
        keys.append(key(f, X))
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key(f, X) == key(lambda x: x * 2, X)


def test_devices_of_other_capabilities_have_other_keys() -> None:
    device = first_device("vulkan")
    closed = xpr.make_jaxpr(lambda x: x * 2)(X)
    keys = {key_of(closed, "f", d, ()) for d in (device, registry.first_device("cpu"))}
    assert len(keys) == 2
    assert None not in keys


def test_meshes_and_unknown_settings_have_no_key() -> None:
    class Precision:
        pass

    closed = xpr.make_jaxpr(lambda x: x * 2)(X)
    with override("default_matmul_precision", Precision()):
        assert key_of(closed, "f", registry.first_device("cpu"), ()) is None


def test_files_that_were_changed_while_the_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in sources._FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.py").write_text("1")
        os.utime(tmp_path / folder / "one.py", ns=(10, 10))
    monkeypatch.setattr(sources, "_PACKAGE", str(tmp_path))
    stamp = sources.stamp.__wrapped__
    first = stamp()
    assert first is not None
    assert first == stamp()
    file = tmp_path / "lowering" / "one.py"
    os.utime(file, ns=(11, 11))
    second = stamp()
    file.write_text("12")
    os.utime(file, ns=(11, 11))
    third = stamp()
    file.rename(file.with_name("two.py"))
    fourth = stamp()
    (tmp_path / "lowering" / "below").mkdir()
    (tmp_path / "lowering" / "below" / "one.py").write_text("1")
    assert stamp() is None  # newer than this process
    os.utime(tmp_path / "lowering" / "below" / "one.py", ns=(10, 10))
    fifth = stamp()
    assert len({first, second, third, fourth, fifth}) == 5
    file.with_name("two.py").unlink()
    (tmp_path / "core" / "one.py").unlink()
    (tmp_path / "core").rmdir()
    assert stamp() is None  # a package in an archive


def test_what_files_hold_is_told_without_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in sources._FOLDERS:
        (tmp_path / folder / "below").mkdir(parents=True)
        (tmp_path / folder / "one.py").write_text("1")
        (tmp_path / folder / "below" / "two.py").write_text("2")
    monkeypatch.setattr(sources, "_PACKAGE", str(tmp_path))
    first = sources.contents()
    os.utime(tmp_path / "core" / "one.py", ns=(10, 10))
    (tmp_path / "core" / "note.txt").write_text("no program")
    assert sources.contents() == first
    found = {first}
    (tmp_path / "core" / "one.py").write_text("3")
    found.add(sources.contents())
    (tmp_path / "core" / "one.py").write_text("1")
    assert sources.contents() == first
    (tmp_path / "core" / "one.py").rename(tmp_path / "core" / "other.py")
    found.add(sources.contents())
    (tmp_path / "lowering" / "below" / "two.py").write_text("22")
    found.add(sources.contents())
    assert len(found) == 4


def test_files_are_not_read_where_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    monkeypatch.setattr(known_programs, "_contents", lambda stamp: pytest.fail("files are read"))
    assert key(lambda x: x * 2, X) == key(lambda x: x * 2, X) != key(lambda x: x * 3, X)


SHIPPED = """
import sys
import numpy as np
import xpr, xpr.numpy as jnp
f = xpr.jit(lambda x: jnp.sin(x) @ x.T + 1)
print(np.asarray(f(np.eye(3, dtype=np.float32))).tolist())
print("xpr.lowering.module" in sys.modules, xpr.__file__)
"""


def test_a_shipped_cache_spares_another_machine_the_lowering(tmp_path: Path) -> None:
    """The other machine has a copy of xpr, with times of its own, at another place."""
    copy = tmp_path / "elsewhere" / "xpr"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "xpr", copy, symlinks=False, ignore=ignored)
    for path in copy.rglob("*.py"):
        os.utime(path, (1e9, 1e9))

    def ran(root: Path, cache: str, *args: str) -> list[str]:
        environment = {**os.environ, "XPR_CACHE": "1", "XPR_CACHE_DIR": str(tmp_path / cache)}
        environment |= {"PYTHONPATH": str(root)}
        command = [sys.executable, *args]
        options: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
        options["cwd"] = root
        return subprocess.run(command, env=environment, **options).stdout.splitlines()

    file = str(tmp_path / "cache.tar.gz")
    first = ran(ROOT, "here", "-c", SHIPPED)
    assert first[1].startswith("True ")
    ran(ROOT, "here", "-m", "xpr", "cache", "export", file)
    ran(copy.parent, "there", "-m", "xpr", "cache", "import", file)
    second = ran(copy.parent, "there", "-c", SHIPPED)
    assert second == [first[0], f"False {copy / '__init__.py'}"]
    # Without what is known of programs the module is found, but behind the lowering.
    for path in (tmp_path / "there").glob("*/*.program"):
        path.unlink()
    third = ran(copy.parent, "there", "-c", SHIPPED)
    assert third == [first[0], f"True {copy / '__init__.py'}"]


def test_the_lowering_does_not_read_what_the_key_leaves_out() -> None:
    lowering_rules.load_all()
    for name, unread in UNREAD.items():
        parameters = inspect.signature(rules_by_name[name]).parameters
        assert any(p.kind is p.VAR_KEYWORD for p in parameters.values()), name
        assert unread.isdisjoint(parameters), name
    source = "".join(p.read_text() for p in (ROOT / "lowering").rglob("*.py"))
    for name in set().union(*UNREAD.values()):
        assert f'params["{name}"]' not in source


def test_a_program_of_the_users_own_rules_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    lowering_registry = sys.modules["xpr.lowering.registry"]
    assert key(lambda x: x * 2, X) is not None
    own = Primitive("of_the_users_own", "custom")
    monkeypatch.setitem(lowering_registry.program_rules, own, {})
    assert key(lambda x: x * 2, X) is not None
    monkeypatch.setitem(lowering_registry.program_rules, pure_callback_p, {})
    assert key(lambda x: x * 2, X) is None


def test_a_program_with_a_pass_switched_off_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "conversions")
    assert key(lambda x: x * 2, X) is None


def test_programs_with_one_key_have_one_text() -> None:
    """Random programs, traced twice, and each with one number changed."""
    device = registry.first_device("cpu")
    target = compiling.target_of(device)
    texts: dict[bytes, str] = {}
    repeated = 0
    with override("enable_x64", True):
        for number in range(60):
            rng = np.random.default_rng(number // 2)
            arrays, steps = random_programs.operands(rng), random_programs.steps(rng)
            closed = xpr.make_jaxpr(lambda *xs, p=steps: random_programs.results(p, xs))(*arrays)
            found = key_of(closed, "f", device, ())
            assert found is not None
            lowered = compiling.lower(closed, target, "f").text
            repeated += found in texts
            assert texts.setdefault(found, lowered) == lowered
    assert repeated == 30
    assert len(set(texts.values())) == len(texts)
