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
from xpr import profiler
from xpr.core import events
from xpr.runtimes.base import Executable


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


def test_a_trace_tells_what_was_done(tmp_path: Path) -> None:
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
    assert [inside(e, step) for e, step in zip(mine[4:6], steps, strict=True)] == [True, True]
    assert mine[6]["tid"] != first["tid"]
    assert mine[3]["args"]["device"] == "cpu:0"


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
