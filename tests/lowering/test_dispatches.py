"""Compiled dispatches that are kept, and put into the next program that has the same ones."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import Call, Store, run
from xpr.lowering import module as lowering
from xpr.lowering import rules
from xpr.lowering.cache import CompileCache
from xpr.lowering.iree import compiler_library, dispatches, driver
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.lowering.targets import get_target
from xpr.lowering.targets.cpu import cpu_target

rules.load_all()
CPU = get_target("cpu")
RNG = np.random.default_rng(3)
X = RNG.standard_normal((8, 40), dtype=np.float32)
W = RNG.standard_normal((40, 40), dtype=np.float32)


def two_layers(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w) @ w + 1.0, jnp.sum(x, axis=0)


def in_numpy(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    return [np.tanh(x @ w) @ w + 1.0, np.sum(x, axis=0)]


def compiled(store: dispatches.Store, function: Any, *args: Any) -> tuple[bytes, int, int]:
    """The module, how many of its dispatches were kept, and how many it has."""
    closed = xpr.make_jaxpr(function)(*args)
    lowered = lowering.lower_jaxpr_to_module(closed, CPU, name=function.__name__)
    watch = Stopwatch()
    module, said = driver.compile_module(
        lowered.text,
        CPU.flag_sets(lowered.hints)[0],
        name="program",
        verify=True,
        watch=watch,
        dispatches=store,
    )
    assert module is not None, said
    assert watch.dispatches is not None
    return module, -1 if watch.kept is None else watch.kept, watch.dispatches


def results(module: bytes, *args: np.ndarray) -> list[np.ndarray]:
    status, (answer,) = run(module, [Call("main", list(args))])
    assert (status, answer.error) == (0, "")
    return answer.results


def check(module: bytes, expected: list[np.ndarray], *args: np.ndarray) -> None:
    for found, wanted in zip(results(module, *args), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_the_same_program_under_another_name_compiles_no_dispatch() -> None:
    store = Store()
    first, kept, count = compiled(store, two_layers, X, W)
    assert kept == 0
    assert count >= 3
    check(first, in_numpy(X, W), X, W)

    def another(x: Any, w: Any) -> Any:
        return two_layers(x, w)

    second, kept, again = compiled(store, another, X, W)
    assert (kept, again) == (count, count)
    for a, b in zip(results(first, X, W), results(second, X, W), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_changed_line_compiles_what_it_changes_and_no_more() -> None:
    store = Store()
    _, _, count = compiled(store, two_layers, X, W)

    def changed(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w) @ w * 0.75, jnp.sum(x, axis=0), jnp.max(x)

    module, kept, now = compiled(store, changed, X, W)
    assert now == count + 1
    assert kept == count - 1
    expected = [np.tanh(X @ W) @ W * np.float32(0.75), X.sum(axis=0), X.max()]
    check(module, [np.asarray(e) for e in expected], X, W)


def test_updates_and_sizes_of_all_kinds() -> None:
    def program(x: Any, w: Any, i: Any) -> Any:
        updated = x.at[i].add(jnp.sin(x[i]))
        sliced = xpr.lax.dynamic_slice(updated, (1, i), (3, 4))
        return updated, sliced, jnp.concatenate([x, w])[::3], jnp.zeros((0, 3)) + x[0, 0]

    place = np.int32(2)
    expected = X.copy()
    expected[2] += np.sin(expected[2])
    stacked = np.concatenate([X, W])[::3]
    empty = np.zeros((0, 3), np.float32)
    store = Store()
    compiled(store, program, X, W, place)
    module, kept, count = compiled(store, program, X, W, place)
    check(module, [expected, expected[1:4, 2:6], stacked, empty], X, W, np.asarray(place))
    assert kept == count


def test_programs_with_loops_are_compiled_as_ever() -> None:
    """The product is too large for a loop in one dispatch."""

    def program(x: Any, w: Any) -> Any:
        return xpr.lax.while_loop(lambda c: jnp.sum(c) < 1e6, lambda c: c @ w + x, x)

    x, w = np.ones((256, 256), np.float32), np.eye(256, dtype=np.float32) * 2
    found = xpr.debug.explain(program, x, w)
    assert "dispatches" not in found.stages
    np.testing.assert_array_equal(xpr.jit(program)(x, w), np.full((256, 256), 31, np.float32))


def test_what_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    store = cache.dispatches
    _, _, count = compiled(store, two_layers, X, W)
    files = sorted(store.directory.glob("*/*.vmfb"))
    assert len(files) == count + 1
    assert compiled(store, two_layers, X, W)[1] == count
    # One library holds all functions.
    library = max(files, key=lambda file: file.stat().st_size)
    content = bytearray(library.read_bytes())
    content[-100] ^= 1
    library.write_bytes(content)
    module, kept, _ = compiled(store, two_layers, X, W)
    assert kept == 0
    check(module, in_numpy(X, W), X, W)
    # What others may write is not used.
    for file in files:
        file.chmod(0o666)
    module, kept, _ = compiled(store, two_layers, X, W)
    assert kept == 0
    check(module, in_numpy(X, W), X, W)
    assert cache.clear() == 0
    assert list(store.directory.glob("*/*.vmfb")) == []


def test_flags_tell_dispatches_apart() -> None:
    store = Store()
    compiled(store, two_layers, X, W)
    keys = set(store.kept)
    closed = xpr.make_jaxpr(two_layers)(X, W)
    lowered = lowering.lower_jaxpr_to_module(closed, CPU, name="two_layers")
    flags = CPU.flag_sets(lowered.hints)[-1]
    module, _ = driver.compile_module(
        lowered.text, flags, name="program", verify=False, dispatches=store
    )
    assert module is not None
    check(module, in_numpy(X, W), X, W)
    assert len(set(store.kept) - keys) >= 3


def test_what_cannot_be_kept_is_compiled_as_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As if a dispatch had more operands than there are bindings.
    monkeypatch.setattr(dispatches, "_MOST_BINDINGS", 1)
    store = Store()
    with caplog.at_level(logging.DEBUG, "xpr.compile"):
        module, kept, _ = compiled(store, two_layers, X, W)
    assert kept == -1
    assert store.kept == {}
    assert "compiled without dispatches: UnkeptError" in caplog.text
    check(module, in_numpy(X, W), X, W)


def test_a_program_with_no_dispatch() -> None:
    store = Store()
    module, kept, count = compiled(store, lambda x: x, X)
    assert (kept, count) == (0, 0)
    np.testing.assert_array_equal(results(module, X)[0], X)


def test_what_is_refused_is_refused() -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> { return %x : tensor<4xf32> }"
    flags = CPU.flag_sets(lowering.ProgramHints())[0]
    module, said = driver.compile_module(
        text, flags, name="program", verify=False, dispatches=Store()
    )
    assert module is None
    assert any(d.severity == "error" for d in said)


def test_modules_for_other_machines_hold_what_was_compiled_with_them() -> None:
    assert CPU.keeps_dispatches
    assert not cpu_target("generic").keeps_dispatches
    assert not cpu_target("host", "aarch64-unknown-linux-gnu").keeps_dispatches
    assert not get_target("vulkan").keeps_dispatches


def test_entries_name_a_function_its_declaration_and_a_library() -> None:
    store = Store()
    compiled(store, two_layers, X, W)
    libraries = [v for v in store.kept.values() if v.startswith(b"\x7fELF")]
    entries = [json.loads(v) for v in store.kept.values() if not v.startswith(b"\x7fELF")]
    assert len(libraries) == 1
    for function, export, library in entries:
        assert f"@{function}" in export
        assert store.kept[bytes.fromhex(library)] == libraries[0]
        assert function.encode() in libraries[0]


def _many(x: Any, w: Any) -> Any:
    """Constants, slices, copies, results that are operands, and products."""
    table = jnp.sin(jnp.arange(40.0)) @ w
    y = x.at[1:3].set(0.0) + table
    z = jnp.concatenate([y, y[::2]], 0) @ w
    return z, x, z[:2], jnp.cumsum(y, axis=1), jnp.where(y > 0, y, 0).sum(0), jnp.ones(3)


def _at_places(x: Any, w: Any) -> Any:
    """Rows whose places are computed, which the host has to read."""
    at = jnp.argmax(x[0]).astype(int)
    row = xpr.lax.dynamic_index_in_dim(w, at, 0)
    return xpr.lax.dynamic_update_index_in_dim(w, row * 2.0, at + 1, 0)


def _called(x: Any, w: Any) -> Any:
    """Functions that are called twice."""
    layer = xpr.jit(lambda v: jnp.tanh(v @ w))
    return layer(layer(x))


def _many_in_numpy(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    y = x.copy()
    y[1:3] = 0.0
    y = y + np.sin(np.arange(40.0, dtype=np.float32)) @ w
    z = np.concatenate([y, y[::2]], 0) @ w
    rest = [np.cumsum(y, axis=1), np.where(y > 0, y, 0).sum(0), np.ones(3, np.float32)]
    return [z, x, z[:2], *rest]


def _at_places_in_numpy(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    at = int(np.argmax(x[0]))
    expected = w.copy()
    expected[min(at + 1, len(w) - 1)] = w[at] * 2.0
    return [expected]


LESS_CLEANING = (
    (two_layers, in_numpy),
    (_many, _many_in_numpy),
    (_at_places, _at_places_in_numpy),
    (_called, lambda x, w: [np.tanh(np.tanh(x @ w) @ w)]),
    (lambda x, w: x + 1, lambda x, w: [x + 1]),
)


@pytest.mark.parametrize(("function", "wanted"), LESS_CLEANING)
def test_less_cleaning_up_gives_the_same_dispatches(
    function: Any, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, whole = Store(), Store()
    module, _, count = compiled(short, function, X, W)
    library = compiler_library.load()
    lists = library.version.dispatches
    long = dataclasses.replace(library.version, dispatches=lists._replace(short=lists.whole))
    monkeypatch.setattr(library, "version", long)
    longer, _, number = compiled(whole, function, X, W)
    assert short.kept == whole.kept
    assert count == number
    # The host's part differs in a few instructions at most.
    assert abs(len(module) - len(longer)) <= 256
    check(module, wanted(X, W), X, W)


def test_programs_whose_constants_are_globals_are_taken_too() -> None:
    """IREE makes globals of what several functions read, and stores their values at the start."""
    target = dataclasses.replace(CPU, host_calls=False)
    x = RNG.standard_normal((8, 8), dtype=np.float32)
    closed = xpr.make_jaxpr(lambda x: jnp.linalg.svd(x)[1])(x)
    lowered = lowering.lower_jaxpr_to_module(closed, target, name="m")
    store, flags, watch = Store(), target.flag_sets(lowered.hints)[0], Stopwatch()
    module, said = driver.compile_module(
        lowered.text, flags, name="m", verify=True, watch=watch, dispatches=store
    )
    assert module is not None, said
    assert (watch.kept, len(store.kept) > 1) == (0, True)
    check(module, [np.linalg.svd(x, compute_uv=False)], x)
