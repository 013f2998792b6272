"""Registration, stages, states, errors, and what handlers ask for."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.ffi
import xpr.numpy as jnp
from tests.ffi.conftest import capsule, text_of
from xpr.errors import JaxRuntimeError
from xpr.ffi import ffi_call, pycapsule, register_ffi_target, register_ffi_type
from xpr.runtimes.foreign.status import CODES

S = xpr.ShapeDtypeStruct
I32 = S((), jnp.int32)

pytestmark = pytest.mark.usefixtures("library")


# ---- registration


def test_a_name_is_taken(library: ctypes.CDLL) -> None:
    register_ffi_target("scale", capsule(library, "scale"))
    message = (
        "INVALID_ARGUMENT: Duplicate FFI handler registration for scale on platform Host "
        r"\(canonical host\) with different bundle addresses"
    )
    with pytest.raises(JaxRuntimeError, match=message):
        register_ffi_target("scale", capsule(library, "copy"))
    with pytest.raises(JaxRuntimeError, match="ALREADY_EXISTS: Duplicate custom call registration"):
        register_ffi_target("twice", capsule(library, "scale"), api_version=0)


def test_handlers_of_another_version(library: ctypes.CDLL) -> None:
    message = (
        r"the handler's API version \(7.3\) is incompatible with the framework's API version "
        r"\(0.3\). Minimum supported API version is \(0.1\)"
    )
    with pytest.raises(JaxRuntimeError, match=message):
        register_ffi_target("of_another_version", capsule(library, "of_another_version"))


def test_handlers_that_refuse_to_be_registered(library: ctypes.CDLL) -> None:
    with pytest.raises(JaxRuntimeError, match="FAILED_PRECONDITION: not here"):
        register_ffi_target("refuses", capsule(library, "refuses_registration"))


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (3, "Unsupported custom call target type for api_version=1: wrong needs a capsule or a"),
        (None, "Unsupported custom call target type for api_version=1"),
        ({}, "FFI handler for wrong on a platform Host must provide an execute implementation"),
        ({"execute": 3}, "Unsupported custom call target type for api_version=1"),
    ],
)
def test_what_is_no_handler(fn: Any, message: str) -> None:
    with pytest.raises(JaxRuntimeError, match=f"INVALID_ARGUMENT: {message}"):
        register_ffi_target("wrong", fn)


def test_unknown_stages(library: ctypes.CDLL) -> None:
    stages = {"execute": capsule(library, "scale"), "finish": capsule(library, "scale")}
    with pytest.raises(JaxRuntimeError, match="handlers for the stages 'finish', which are none"):
        register_ffi_target("wrong", stages)


def test_unknown_versions(library: ctypes.CDLL) -> None:
    with pytest.raises(JaxRuntimeError, match="UNIMPLEMENTED: API version 2 is not supported by"):
        register_ffi_target("wrong", capsule(library, "scale"), api_version=2)
    with pytest.raises(TypeError, match="takes a name, got 3"):
        register_ffi_target(3, capsule(library, "scale"))  # type: ignore[arg-type]


def test_other_platforms_are_kept_apart(library: ctypes.CDLL) -> None:
    register_ffi_target("only_elsewhere", capsule(library, "scale"), platform="gpu")
    with pytest.raises(JaxRuntimeError, match="No FFI handler registered for only_elsewhere on"):
        ffi_call("only_elsewhere", S((3,), jnp.float32))(jnp.ones(3))


def test_types() -> None:
    number, other = ctypes.c_int64(), ctypes.c_int64()
    register_ffi_type("one more", {"type_id": pycapsule(ctypes.addressof(number))})
    register_ffi_type("one more", {"type_id": pycapsule(ctypes.addressof(other))})
    assert number.value == other.value > 0
    with pytest.raises(JaxRuntimeError, match="must be a dictionary holding a pointer to a XLA"):
        register_ffi_type("one more", 3)
    with pytest.raises(JaxRuntimeError, match="must be a dictionary holding a pointer to a XLA"):
        register_ffi_type("one more", {})
    with pytest.raises(JaxRuntimeError, match="Custom type registration requires handlers as PyC"):
        register_ffi_type("one more", {"type_id": 3})
    with pytest.raises(JaxRuntimeError, match="is that of one more, which was registered before"):
        register_ffi_type("yet another", {"type_id": pycapsule(ctypes.addressof(number))})
    with pytest.raises(ValueError, match="register_ffi_type_id is not supported after jaxlib"):
        xpr.ffi.register_ffi_type_id("one more", number)


def test_capsules() -> None:
    for wrong in ("text", b"text", 2.5):
        with pytest.raises(TypeError, match="pycapsule takes a function that ctypes has loaded"):
            pycapsule(wrong)
    with pytest.raises(ValueError, match="null pointer"):
        pycapsule(None)


# ---- errors


@pytest.mark.parametrize("code", range(1, len(CODES)))
def test_errors_of_handlers(code: int) -> None:
    with pytest.raises(JaxRuntimeError, match=f"^{CODES[code]}: the handler did not like it\n"):
        ffi_call("fail", S((), jnp.float32))(code=code)


@pytest.mark.parametrize(
    ("code", "text"), [(0, "INTERNAL: "), (17, "code 17: "), (-1, "code -1: ")]
)
def test_errors_without_a_code(code: int, text: str) -> None:
    with pytest.raises(JaxRuntimeError, match=f"^{text}.*the handler did not like it\n"):
        ffi_call("fail", S((), jnp.float32))(code=code)


def test_errors_in_programs_name_the_users_line() -> None:
    def f() -> Any:
        return ffi_call("fail", S((), jnp.float32))()

    with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT: the handler") as caught:
        xpr.jit(f)()
    notes = "\n".join(caught.value.__notes__)
    line = f.__code__.co_firstlineno + 1
    assert "in the foreign function fail, called from " in notes
    assert f"test_stages.py:{line}:" in notes
    # Another call finds the same.
    with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT: the handler"):
        xpr.jit(f)()


def test_unknown_functions() -> None:
    message = r"NOT_FOUND: No FFI handler registered for nix on a platform Host \(canonical host\)"
    call = ffi_call("nix", S((), jnp.float32))
    with pytest.raises(JaxRuntimeError, match=message):
        call()
    lowered = xpr.jit(lambda: call()).lower()
    with pytest.raises(JaxRuntimeError, match=message):
        lowered.compile()


def test_exported_programs() -> None:
    f = xpr.jit(lambda x: ffi_call("scale", x)(x, factor=np.float32(2)))
    exported = xpr.export.export(f)(S((3,), jnp.float32))
    with pytest.raises(NotImplementedError, match="scale is a foreign function of this process"):
        exported.serialize()


# ---- stages and states


def test_states_of_all_stages() -> None:
    f = xpr.jit(lambda: ffi_call("stages", I32)(start=10))
    # 2000 and 100000 are of the stages before each execution, whose states begin anew.
    assert [int(f()) for _ in range(3)] == [102011, 102012, 102013]


def test_each_place_has_its_instance() -> None:
    f = xpr.jit(lambda: [ffi_call("counter", I32)(start=s) for s in (1, 20)])
    assert [int(x) for x in f()] == [2, 21]
    assert [int(x) for x in f()] == [3, 22]


def test_instances_outside_of_programs() -> None:
    xpr.clear_caches()
    call = ffi_call("counter", I32)
    assert [int(call(start=s)) for s in (50, 50, 7, 50)] == [51, 52, 8, 53]


def test_states_are_deleted(library: ctypes.CDLL) -> None:
    xpr.clear_caches()
    gc.collect()
    made, dropped = library.counters_made(), library.counters_dropped()
    assert made == dropped
    f = xpr.jit(lambda: ffi_call("stages", I32)(start=1))
    f()
    f()
    assert library.counters_made() - made == 5  # one instance, and two for each execution
    assert library.counters_dropped() - dropped == 4
    ffi_call("counter", I32)(start=1)
    del f
    xpr.clear_caches()
    gc.collect()
    assert library.counters_made() == library.counters_dropped() == made + 6


@pytest.mark.parametrize("stage", range(4))
def test_stages_that_fail(stage: int) -> None:
    f = xpr.jit(lambda: ffi_call("fail_at_each_stage", I32)(stage=stage))
    lowered = f.lower()
    if stage == 0:
        with pytest.raises(JaxRuntimeError, match="INTERNAL: at that stage"):
            lowered.compile()
    else:
        lowered.compile()
    for _ in range(2):
        with pytest.raises(JaxRuntimeError, match="INTERNAL: at that stage"):
            f()
    with pytest.raises(JaxRuntimeError, match="INTERNAL: at that stage"):
        ffi_call("fail_at_each_stage", I32)(stage=stage)


# ---- what handlers ask for

QUESTIONS = (
    "version 0.3, size 192, frame 168, stage 3\n",
    "stream: XLA FFI GPU context is not available\n",
    "context: User data with type id 123456 not found in execution context\n",
    "state: State is not set\n",
    "state: Type id 123456 is not registered with a static registry\n",
    "allocate: XLA FFI GPU context is not available\n",
    "threads: no error\nsome threads\n",
    "run: no error\n",
    "device: no error\ndevice 0\n",
    "a wrong size: Unexpected XLA_FFI_Stream_Get size: expected 32, got 3. Check installed "
    "software versions. The framework XLA FFI API version is 0.3.\n",
    "type: no error\na type\n",
    "free: XLA FFI GPU context is not available\n",
    "run: this execution context has ended, or never was one\n",
    "register: no error\n",
)


@pytest.mark.parametrize("what", range(len(QUESTIONS)))
@pytest.mark.parametrize("jit", [False, True])
def test_questions(what: int, jit: bool) -> None:
    def f() -> Any:
        return ffi_call("ask", S((400,), jnp.uint8))(what=what)

    assert text_of((xpr.jit(f) if jit else f)()) == QUESTIONS[what]


@pytest.mark.parametrize("stage", [1, 2, 3, 4, -1])
def test_states_of_other_stages(stage: int) -> None:
    call = ffi_call("ask", S((400,), jnp.uint8))
    wanted = "State is not set" if 0 <= stage < 4 else f"there is no stage {stage}"
    assert text_of(call(what=3, stage=stage)) == f"state: {wanted}\n"


def test_handlers_register_handlers() -> None:
    ffi_call("ask", S((400,), jnp.uint8))(what=13)
    assert text_of(ffi_call("late", S((100,), jnp.uint8))()) == "result 1 type 6 [100]\n"


# ---- threads


@pytest.mark.parametrize("jit", [False, True])
def test_results_that_are_written_later(jit: bool) -> None:
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)

    def f(x: Any, **how: Any) -> Any:
        return ffi_call("negate", S(x.shape, jnp.float32))(x, **how)

    np.testing.assert_array_equal((xpr.jit(f) if jit else f)(jnp.asarray(x)), -x)
    with pytest.raises(JaxRuntimeError, match="DATA_LOSS: lost on the way"):
        f(jnp.asarray(x), fails=1)


def test_the_thread_pool() -> None:
    for f in (lambda f: f, xpr.jit):
        y = f(lambda: ffi_call("squares", S((64,), jnp.int32))())()
        np.testing.assert_array_equal(y, np.arange(64) ** 2)


def test_calls_of_several_threads() -> None:
    x = np.arange(1000, dtype=np.float32)
    f = xpr.jit(lambda x: ffi_call("negate", S(x.shape, jnp.float32))(x))
    f(x)
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            if not np.array_equal(f(x + k), -(x + k)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
