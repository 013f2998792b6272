"""What is logged: why functions are traced again, and the steps of a compile."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp

_LOGGER = "xpr.cache_misses"


def _messages(caplog: pytest.LogCaptureFixture, logger: str = _LOGGER) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == logger]


def _explained(caplog: pytest.LogCaptureFixture, call: Callable[[], Any]) -> str:
    """The one line that a call logs."""
    caplog.clear()
    with xpr.explain_cache_misses(True):
        assert xpr.config.explain_recompile
        call()
    [message] = _messages(caplog)
    assert message.startswith("TRACING CACHE MISS")
    return message


def test_the_difference_to_the_closest_key_is_told(caplog: pytest.LogCaptureFixture) -> None:
    f = xpr.jit(lambda x, y, flag=True: x, static_argnames="flag")
    first = _explained(caplog, lambda: f(np.float32(0), np.ones(1, "f4")))
    assert "never seen function: <lambda>" in first
    cases: list[tuple[Callable[[], Any], str, str]] = [
        (
            lambda: f(np.float32(0), np.ones(2, "f4")),
            "different input types",
            "at y, now f32[2] and before f32[1]",
        ),
        (
            lambda: f(np.float32(0), np.ones(1, "i4")),
            "different input types",
            "at y, now i32[1] and before f32[1]",
        ),
        (
            lambda: f(0.0, np.ones(1, "f4")),
            "different input types",
            "at x, now f32[]{weak_type=True} and before f32[]{weak_type=False} (https://docs",
        ),
        (
            lambda: f(np.float32(0), {"a": np.ones(1, "f4")}),
            "different input pytree",
            "at input path [0][1], now <class 'dict'> and before a pytree leaf",
        ),
        (
            lambda: f(np.float32(0), np.ones(1, "f4"), flag=None),
            "different static arguments",
            "static argument flag, now None and before",
        ),
    ]
    for call, kind, detail in cases:
        message = _explained(caplog, call)
        assert kind in message, message
        assert detail in message, message

    def under_another_setting() -> None:
        with xpr.default_matmul_precision("high"):
            f(np.float32(0), np.ones(1, "f4"))

    message = _explained(caplog, under_another_setting)
    assert "different tracing context" in message
    assert "default_matmul_precision, now high and before" in message


def test_a_function_that_is_defined_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    with xpr.explain_cache_misses(True):
        for _ in range(2):
            xpr.jit(lambda x: 2 * x)(3)
    first, second = _messages(caplog)
    assert "another function defined on the same line" not in first
    assert "another function defined on the same line" in second


def test_misses_are_told_in_all_threads(caplog: pytest.LogCaptureFixture) -> None:
    f = xpr.jit(jnp.sum)
    errors: list[Exception] = []

    def work(start: int) -> None:
        try:
            with xpr.explain_cache_misses(True):
                for n in range(start, 12, 4):
                    xpr.make_jaxpr(f)(np.zeros(n, "f4"))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_steps_of_a_compile_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    @xpr.jit
    def scaled(x: Any) -> Any:
        return x * 2

    with xpr.log_compiles(True):
        scaled(jnp.arange(3))
        xpr.clear_caches()
        scaled(jnp.arange(3))
    messages = _messages(caplog, "xpr.compile")
    assert sum(m.startswith("Finished tracing scaled for jit") for m in messages) == 2
    assert any(m.startswith("Compiling jit(scaled) for") for m in messages)
    assert all(r.levelno == logging.WARNING for r in caplog.records if r.name == "xpr.compile")
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="xpr.compile"):
        scaled(jnp.arange(4))
    records = [r for r in caplog.records if r.name == "xpr.compile"]
    assert records
    assert all(r.levelno == logging.DEBUG for r in records)


def test_what_a_function_closes_over_is_freed_with_it() -> None:
    x: Any = jnp.ones(10)
    function: Any = (lambda x: lambda: x)(x)
    jitted = xpr.jit(function)
    alive = weakref.ref(x)
    del x
    gc.disable()  # no cycles: the array goes with the last reference
    try:
        jitted()
        jitted()
        del function
        assert alive() is not None
        del jitted
        assert alive() is None
    finally:
        gc.enable()
