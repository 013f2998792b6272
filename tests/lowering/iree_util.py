"""Compile StableHLO and run it in a process of its own, which may die without harm.

Only IREE's own runtime is used there, so that a test of the compiler depends on nothing else. A
call's arguments are views into larger arrays: what a program writes or reads outside of an
argument stays inside the array, where it can be seen.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpr.lowering.iree import driver
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.targets import get_target

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64

MENDED = "IREE has mended this: the guard can go"
"""Why a test of a hazard fails."""


_KERNELS = get_target("cpu").product_kernels

needs_product_kernels = pytest.mark.skipif(
    _KERNELS is None or _KERNELS() is None,
    reason="there are no kernels for this processor, or xpr was installed without the native part",
)


class Store:
    """Keeps compiled dispatches in memory."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.kept.get(key)

    def put(self, key: bytes, payload: bytes) -> None:
        self.kept[key] = payload


@dataclass
class Call:
    """One call: the function, its arguments, how often to time it (0: run it once)."""

    function: str
    arguments: list[Array]
    repeat: int = 0


@dataclass
class Answer:
    """What came of a call: results, or the error text; the arguments afterwards; the best time."""

    results: list[Array]
    arguments: list[Array]
    error: str = ""
    seconds: float = 0.0


def function(name: str, arguments: str, results_: str, body: str) -> str:
    """A function whose body ends with the values that it returns, on a line of their own."""
    *lines, returned = body.strip().splitlines()
    return (
        f"func.func public @{name}({arguments}) -> ({results_}) {{\n"
        + "\n".join(lines)
        + f"\n return {returned} : {results_}\n}}\n"
    )


def barrier(value: str, type_: str) -> str:
    return f"%kept = util.optimization_barrier {value} : {type_}\n"


def region(names: str, element: str, body: str) -> str:
    arguments = ", ".join(f"%{name}: tensor<{element}>" for name in names)
    return f"({{ ^bb0({arguments}):\n {body} }})"


LESS = region(
    "ab",
    "f32",
    "%p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "stablehlo.return %p : tensor<i1>",
)


def in_larger(array: Array, before: int = 64, after: int = 512) -> tuple[Array, Array]:
    """A 64-byte aligned copy of ``array`` inside a larger array, and that array, of 100s."""
    unit = _ALIGNMENT // array.itemsize
    before = -(-before // unit) * unit
    spare = np.full(before + array.size + after + unit, 100, array.dtype)
    shift = (-spare.ctypes.data % _ALIGNMENT) // array.itemsize
    whole = spare[shift : shift + before + array.size + after]
    inner = whole[before : before + array.size].reshape(array.shape)
    inner[...] = array
    return inner, whole


def compile_with(
    text: str, flags: Sequence[str] = (), *, base: Sequence[str] | None = None, verify: bool = True
) -> tuple[bytes | None, list[Diagnostic]]:
    """Compile with the CPU target's base flags (or ``base``) and ``flags``, past the cache."""
    if base is None:
        base = get_target("cpu").base_flags
    return driver.compile_module(text, [*base, *flags], name="test.mlir", verify=verify)


def status_of_compile(
    text: str, flags: Sequence[str] = (), *, base: Sequence[str] | None = None, **environment: str
) -> int:
    """The exit status of a process that runs ``compile_with``; below 0 if a signal ended it."""
    script = (
        "import sys; from tests.lowering.iree_util import compile_with;"
        "compile_with(sys.argv[1], sys.argv[2:], base=())"
    )
    if base is None:
        base = get_target("cpu").base_flags
    return subprocess.run(
        [sys.executable, "-c", script, text, *base, *flags],
        capture_output=True,
        timeout=120,
        check=False,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        | environment,
    ).returncode


def run(module: bytes, calls: Sequence[Call]) -> tuple[int, list[Answer]]:
    """Run calls in a child process: its exit status, and the answers it gave before it ended.

    The answers' ``arguments`` are the larger arrays that the arguments were parts of.
    """
    with tempfile.TemporaryDirectory() as folder:
        job, answers = Path(folder, "job"), Path(folder, "answers")
        job.write_bytes(pickle.dumps((module, list(calls))))
        answers.write_bytes(b"")
        done = subprocess.run(
            [sys.executable, "-m", "tests.lowering.iree_util", str(job), str(answers)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=Path(__file__).parents[2],
        )
        given: list[Answer] = []
        with answers.open("rb") as file:
            while True:
                try:
                    given.append(pickle.load(file))
                except EOFError:
                    break
    if done.returncode == 1:
        raise RuntimeError(f"the child process failed:\n{done.stderr}")
    return done.returncode, given


def result(module: bytes, *args: Array) -> Array:
    """The first result of ``main``, which has to run well."""
    status, (answer,) = run(module, [Call("main", list(args))])
    assert (status, answer.error) == (0, "")
    return answer.results[0]


def answers(text: str, calls: Sequence[Call], flags: Sequence[str] = ()) -> list[Answer]:
    """Compile and run, both of which must succeed."""
    module, diagnostics = compile_with(text, flags)
    assert module is not None, diagnostics
    status, given = run(module, calls)
    assert status == 0
    return given


def results(text: str, calls: Sequence[Call], flags: Sequence[str] = ()) -> list[list[Array]]:
    """The results of each call, none of which may fail."""
    found = answers(text, calls, flags)
    assert not [answer.error for answer in found if answer.error]
    return [answer.results for answer in found]


def _serve(job: str, out: str) -> None:
    """The child's part."""
    # Only the child loads the runtime, whose stubs do not agree with it.
    rt: Any = importlib.import_module("iree.runtime")
    map_dtype_to_element_type = rt.array_interop.map_dtype_to_element_type
    module, calls = pickle.loads(Path(job).read_bytes())
    instance = rt.VmInstance()
    device = rt.get_driver("local-sync").create_default_device()
    vm_module = rt.VmModule.copy_buffer(instance, module)
    context = rt.VmContext(instance, [rt.create_hal_module(instance, device), vm_module])
    types: dict[int, Any] = {}
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
        element = map_dtype_to_element_type(np.dtype(dtype))
        assert element is not None
        types[int(element)] = np.dtype(dtype)
    types[int(rt.HalElementType.BOOL_8)] = np.dtype(np.bool_)
    elements = {dtype: number for number, dtype in types.items()}
    # Results of StableHLO's signed integers are signless in their types.
    for bits in (8, 16, 32, 64):
        types[int(getattr(rt.HalElementType, f"INT_{bits}"))] = np.dtype(f"i{bits // 8}")

    def view(array: Array) -> Any:
        buffer = device.allocator.import_host_allocation(
            memory_type=rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE,
            allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
            buffer=array.reshape(-1).view(np.uint8),
        )
        return rt.HalBufferView(buffer, list(array.shape), elements[array.dtype])

    def host(found: Any) -> Array:
        dtype = types[int(found.element_type)]
        shape = tuple(found.shape)
        raw = np.frombuffer(found.map(), np.uint8)[: int(np.prod(shape)) * dtype.itemsize]
        return raw.copy().view(dtype).reshape(shape)

    with Path(out).open("wb") as file:
        for call in calls:
            parts = [in_larger(argument) for argument in call.arguments]
            views = [view(inner) for inner, _ in parts]
            function = vm_module.lookup_function(call.function)
            answer = Answer([], [])
            times = []
            try:
                found = rt.VmVariantList(4)
                for _ in range(max(1, call.repeat)):
                    arguments, found = rt.VmVariantList(len(views)), rt.VmVariantList(4)
                    for one in views:
                        arguments.push_ref(one)
                    start = time.perf_counter()
                    context.invoke(function, arguments, found)
                    times.append(time.perf_counter() - start)
                answer.results = [
                    host(found.get_as_object(i, rt.HalBufferView)) for i in range(found.size)
                ]
                answer.seconds = min(times)
            except Exception as error:  # the tests look at what it says
                answer.error = str(error)
            answer.arguments = [whole for _, whole in parts]
            pickle.dump(answer, file)
            file.flush()


if __name__ == "__main__":
    # Under the name that the parent pickles with.
    from tests.lowering import iree_util

    iree_util._serve(*sys.argv[1:])
