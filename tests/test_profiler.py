"""Traces of what xpr does, profiles of memory, and the server that gives both."""

from __future__ import annotations

import gzip
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from xpr import profiler
from xpr.core import events
from xpr.runtimes.base import Executable
from xpr.runtimes.extension import native


def spans(folder: Path, pattern: str = "*.trace.json.gz") -> list[dict[str, Any]]:
    """The events of the one trace in a folder."""
    (file,) = folder.rglob(pattern)
    data = json.loads(gzip.decompress(file.read_bytes()))
    return [e for e in data["traceEvents"] if e["ph"] == "X"]


def inside(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    return (
        inner["tid"] == outer["tid"]
        and outer["ts"] <= inner["ts"]
        and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    )


def test_a_trace_tells_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")  # that there is something to compile

    def cubed_sines(x: Any) -> Any:
        return jnp.sin(x) ** 3

    f = xpr.jit(cubed_sines)
    x = xpr.device_put(np.ones(5, np.float32))
    with profiler.trace(tmp_path, create_perfetto_trace=True):
        with profiler.TraceAnnotation("first", part=3):
            f(x)
        for i in range(2):
            with profiler.StepTraceAnnotation("step", step_num=i):
                f(x)
        thread = threading.Thread(target=lambda: f(x), name="helper")
        thread.start()
        thread.join()
    f(x)
    found = spans(tmp_path)
    assert found == spans(tmp_path, "perfetto_trace.json.gz")
    mine = [e for e in found if e["name"] == "cubed_sines"]
    assert [e["cat"] for e in mine] == ["trace", "lower", "compile", *["execute"] * 4]
    first, *steps = (e for e in found if e["cat"] == "annotation")
    assert (first["name"], first["args"]["part"]) == ("first", "3")
    assert [(e["name"], e["args"]["step_num"]) for e in steps] == [("step", "0"), ("step", "1")]
    assert all(inside(e, first) for e in mine[:4])
    phases = [e for e in found if e["cat"] == "compile phase"]
    assert {e["args"]["program"] for e in phases} == {"cubed_sines"}
    assert [phases[0]["name"], phases[-1]["name"]] == ["parse", "end"]
    assert sum(e["dur"] for e in phases) <= mine[2]["ts"] + mine[2]["dur"] - phases[0]["ts"]
    assert [inside(e, step) for e, step in zip(mine[4:6], steps, strict=True)] == [True, True]
    assert mine[6]["tid"] != first["tid"]
    assert mine[3]["args"]["device"] == "cpu:0"


def counters(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.rglob("*.trace.json.gz")
    data = json.loads(gzip.decompress(file.read_bytes()))
    return [e for e in data["traceEvents"] if e["ph"] == "C"]


@pytest.mark.skipif(native().executor is None, reason="the native part does not run programs here")
def test_a_trace_has_the_dispatches_of_programs(tmp_path: Path) -> None:
    def layers(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w).sum(0)

    f = xpr.jit(layers)
    w, x = jnp.ones((64, 32)), jnp.ones((16, 64))
    f(w, x)
    with profiler.trace(tmp_path):
        f(w, x)
    found = spans(tmp_path)
    (call,) = (e for e in found if e["cat"] == "execute")
    dispatches = [e for e in found if e["cat"] == "dispatch"]
    assert any("matmul_16x32x64_f32" in e["name"] for e in dispatches)
    assert any("reduction" in e["name"] for e in dispatches)
    assert all(inside(e, call) for e in dispatches)
    assert sum(e["dur"] for e in dispatches) <= call["dur"]


@pytest.mark.skipif(native().executor is None, reason="the native part does not run programs here")
def test_dispatches_have_the_lines_that_they_compute(tmp_path: Path) -> None:
    def layers(w: Any, x: Any) -> Any:
        hidden = jnp.tanh(x @ w)
        return xpr.lax.cumsum(hidden, 0) * 2

    f = xpr.jit(layers)
    w, x = jnp.ones((64, 32)), jnp.ones((16, 64))
    f(w, x)
    with profiler.trace(tmp_path, dispatch_lines=True):
        f(w, x)
    first = layers.__code__.co_firstlineno
    lines = {e["name"]: e["args"]["lines"] for e in spans(tmp_path) if e["cat"] == "dispatch"}
    product = next(found for name, found in lines.items() if "matmul" in name)
    assert f"{__file__}:{first + 1}" in product.split(", ")
    every = ", ".join(lines.values())
    assert f"{__file__}:{first + 2}" in every


@pytest.mark.skipif(native().executor is None, reason="the native part does not run programs here")
def test_a_program_that_runs_later_is_one_event_with_its_name_and_lines(tmp_path: Path) -> None:
    def large(x: Any) -> Any:
        return x @ x

    f = xpr.jit(large)
    x = jnp.ones((1000, 1000))
    f(x).block_until_ready()
    with profiler.trace(tmp_path, dispatch_lines=True):
        f(x).block_until_ready()
    found = spans(tmp_path)
    (call,) = (e for e in found if e["cat"] == "execute")
    assert call["name"] == "large"
    dispatches = [e for e in found if e["cat"] == "dispatch"]
    assert all(inside(e, call) for e in dispatches)
    line = f"{__file__}:{large.__code__.co_firstlineno + 1}"
    assert line in ", ".join(e["args"]["lines"] for e in dispatches)


def test_a_trace_has_collectives_and_memory_over_time(tmp_path: Path) -> None:
    mesh = xpr.make_mesh((2,), ("i",), devices=xpr.devices("cpu")[:2])
    spec = xpr.P("i")
    f = xpr.jit(
        xpr.shard_map(lambda x: xpr.lax.psum(x, "i"), mesh=mesh, in_specs=spec, out_specs=xpr.P())
    )
    x = np.arange(8.0, dtype=np.float32)
    with profiler.trace(tmp_path):
        assert np.asarray(f(x)).tolist() == [4.0, 6.0, 8.0, 10.0]
    met = [e for e in spans(tmp_path) if e["cat"] == "collective"]
    assert {e["name"] for e in met} == {"all_reduce"}
    assert all("psum" in e["args"]["source"] for e in met)
    used = counters(tmp_path)
    assert {e["name"] for e in used} >= {"memory cpu:0", "memory cpu:1"}
    assert all(e["args"]["bytes_in_use"] >= 0 for e in used)


def test_a_trace_has_transfers_to_and_from_vulkan(tmp_path: Path) -> None:
    vulkan = first_device("vulkan")
    x = np.arange(24.0, dtype=np.float32)
    f = xpr.jit(lambda x: x + 1)
    with profiler.trace(tmp_path):
        result = np.asarray(f(xpr.device_put(x, vulkan)))
    assert result.tolist() == (x + 1).tolist()
    moved = [e for e in spans(tmp_path) if e["cat"] == "transfer"]
    assert next(e["args"]["bytes"] for e in moved if e["name"] == f"to {vulkan}") == "96"
    assert "96" in [e["args"]["bytes"] for e in moved if e["name"] == f"from {vulkan}"]


def test_programs_known_before_a_trace_are_in_it(tmp_path: Path) -> None:
    def known(x: Any, y: Any) -> Any:
        return x + y, x * y

    given = xpr.jit(known, donate_argnums=1)
    x = jnp.arange(3.0)

    def call() -> None:
        total, product = given(x, jnp.ones(3))
        assert (total + product).tolist() == [1.0, 3.0, 5.0]

    for _ in range(3):
        call()
    with profiler.trace(tmp_path):
        call()
        call()
    call()
    mine = [e["cat"] for e in spans(tmp_path) if e["name"] == "known"]
    assert mine == ["execute"] * 2


def test_nothing_is_measured_without_a_trace(tmp_path: Path) -> None:
    f = xpr.jit(lambda x: x + 1)
    f(1.0)
    kinds = [k for k in Executable.__subclasses__() if "__call__" in vars(k)]
    calls = [k.__call__ for k in kinds]
    with profiler.trace(tmp_path):
        assert all(k.__call__ is not c for k, c in zip(kinds, calls, strict=True))
    assert [k.__call__ for k in kinds] == calls
    assert events.recorders == []


def test_errors_in_programs_pass_through_a_trace(tmp_path: Path) -> None:
    def fail(x: Any) -> Any:
        raise KeyError(float(x))

    like = xpr.ShapeDtypeStruct((), jnp.float32)
    with pytest.raises(KeyError, match=r"2\.0"), profiler.trace(tmp_path):
        xpr.jit(lambda x: xpr.pure_callback(fail, like, x))(2.0)
    assert [e["cat"] for e in spans(tmp_path)][-1] == "execute"


def test_one_trace_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    with profiler.trace(tmp_path), pytest.raises(RuntimeError, match="already been started"):
        profiler.start_trace(tmp_path)
    with pytest.raises(NotImplementedError, match="create_perfetto_link"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)


def test_annotated_functions(tmp_path: Path) -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    named = profiler.annotate_function(add, name="sum", unit="m")
    with profiler.trace(tmp_path):
        assert profiler.annotate_function(add)(1) == 2
        assert named(1, b=3) == 4
    assert [(e["name"], e["args"].get("unit")) for e in spans(tmp_path)] == [
        ("add", None),
        ("sum", "m"),
    ]
    assert named.__name__ == "add"
    with pytest.raises(TypeError, match="takes a function, got 3"):
        profiler.annotate_function(3)  # pyright: ignore[reportArgumentType]


def fields(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a protocol buffer: numbers, and bytes of what is nested."""
    found: list[tuple[int, Any]] = []
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while place < len(data):
        tag = varint()
        value: Any = varint()
        if tag & 7 == 2:
            value, place = data[place : place + value], place + value
        found.append((tag >> 3, value))
    return found


def test_memory_profiles_name_the_arrays(tmp_path: Path) -> None:
    held = [jnp.ones((123, 45)) for _ in range(3)]
    profiler.save_device_memory_profile(tmp_path / "memory.gz", "cpu")
    profile = fields(gzip.decompress((tmp_path / "memory.gz").read_bytes()))
    strings = [v.decode() for k, v in profile if k == 6]
    assert strings[0] == ""
    functions = {dict(fields(v))[1]: strings[dict(fields(v))[2]] for k, v in profile if k == 5}
    units = [[strings[n] for _, n in fields(v)] for k, v in profile if k == 1]
    assert units == [["allocations", "count"], ["space", "bytes"]]
    locations = {}
    for k, v in profile:
        if k == 4:
            fields_of = dict(fields(v))
            locations[fields_of[1]] = functions[dict(fields(fields_of[4]))[1]]
    samples = {}
    for k, v in profile:
        if k == 2:
            stack = tuple(locations[n] for i, n in fields(v) if i == 1)
            samples[stack] = [n for i, n in fields(v) if i == 2]
    assert samples["f32[123,45]", "cpu:0"] == [3, sum(x.nbytes for x in held)]
    with pytest.raises(RuntimeError, match="nowhere"):
        profiler.device_memory_profile("nowhere")


def test_the_server_gives_traces_and_memory() -> None:
    server = profiler.start_server(0)
    try:
        with pytest.raises(ValueError, match="Only one profiler server"):
            profiler.start_server(0)
        address = f"http://localhost:{server.server_port}"
        with urllib.request.urlopen(f"{address}/trace?duration_ms=1") as answer:
            assert "traceEvents" in json.loads(answer.read())
        with urllib.request.urlopen(f"{address}/memory") as answer:
            assert fields(gzip.decompress(answer.read()))
        for wrong in ("", "/trace?duration_ms=soon"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(address + wrong)
    finally:
        profiler.stop_server()
    with pytest.raises(ValueError, match="No active profiler server"):
        profiler.stop_server()
    assert events.recorders == []
