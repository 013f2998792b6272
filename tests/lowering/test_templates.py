"""Programs that differ in numbers alone share a compile (`lowering/templates.py`)."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import Call, run
from xpr import lax
from xpr.experimental import io_callback
from xpr.lowering import module as lowering
from xpr.lowering import rules, templates
from xpr.lowering.iree import attempts, compiler, driver, merging, numbers, vm_code
from xpr.lowering.iree.compiler import compile_stablehlo
from xpr.lowering.iree.jobs import new_job
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints
from xpr.lowering.templates import Template

rules.load_all()
CPU = get_target("cpu")
RNG = np.random.default_rng(5)
X = RNG.standard_normal((8, 12), dtype=np.float32)
W = RNG.standard_normal((12, 12), dtype=np.float32)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The texts that the compiler gets, with a cache that is empty."""
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "cache"))
    found: list[str] = []
    real = attempts.run_compiler

    def counted(job: Any, text: str, *rest: Any) -> Any:
        found.append(text)
        return real(job, text, *rest)

    monkeypatch.setattr(attempts, "run_compiler", counted)
    return found


def template_of(function: Callable[..., Any], *args: Any) -> Template | None:
    lowered = lowering.lower_jaxpr_to_module(xpr.make_jaxpr(function)(*args), CPU, name="f")
    return lowered.template()


def numbers_of(function: Callable[..., Any], *args: Any) -> list[float]:
    found = template_of(function, *args)
    return [] if found is None else [float(np.uint32(b).view(np.float32)) for b in found.bits]


def step(rate: float, decay: float) -> Callable[..., Any]:
    def loss(w: Any, x: Any) -> Any:
        return jnp.mean(jnp.tanh(x @ w) ** 2) + decay * jnp.sum(w * w)

    return xpr.jit(lambda w, x: w - rate * xpr.grad(loss)(w, x))


def check_step(rate: float, decay: float) -> None:
    found = step(rate, decay)(W, X)
    wanted = step_in_numpy(W, X, rate, decay)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * max(1.0, abs(rate)))


def step_in_numpy(w: np.ndarray, x: np.ndarray, rate: float, decay: float) -> np.ndarray:
    y = np.tanh(x @ w)
    return w - rate * (x.T @ (2 * y * (1 - y * y) / y.size) + 2 * decay * w)


def test_another_number_compiles_nothing(compiles: list[str]) -> None:
    for rate, decay in ((0.1, 0.01), (0.3, 0.01), (-7.5, 1e-30), (1e30, 3e-39), (0.1, 0.7)):
        check_step(rate, decay)
        assert len(compiles) == 1
    # One that the compiler makes more of is compiled in, and so is a number that stands twice.
    check_step(0.5, 0.01)
    assert len(compiles) == 2


def test_a_new_process_finds_the_template(compiles: list[str]) -> None:
    assert step(0.1, 0.01)(W, X).shape == W.shape
    xpr.clear_caches()
    check_step(0.2, 0.03)
    assert len(compiles) == 1


def test_programs_asked_for_together_share_a_template(
    compiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "LONGEST_TEXT", 0)  # none is so small that it is merged
    monkeypatch.setattr(compiler._requests, "_cores", 1)  # or each core begins with one
    rates = [0.1, 0.2, 0.3]
    steps = [step(rate, 0.01) for rate in rates]
    for warming in xpr.compile_ahead([(f, W, X) for f in steps]):
        warming.wait()
    for rate, f in zip(rates, steps, strict=True):
        np.testing.assert_allclose(f(W, X), step_in_numpy(W, X, rate, 0.01), rtol=1e-5, atol=1e-6)
    assert len(compiles) == 1


def test_what_is_left_out() -> None:
    x = jnp.ones((3, 4))
    f = np.float32
    left_out = {
        "each kind of arithmetic": (lambda x: (0.3 + x, x - 0.7, 1.5 * x, x / 3.1), 4),
        "scalars": (lambda x: jnp.sum(x) * 0.3, 1),
        "one number in two places": (lambda x: (x * 0.3, x - 0.3), 1),
        "signs": (lambda x: x * -0.3, 1),
        "the gradient's": (xpr.grad(lambda x: jnp.sum(x * x * 0.3)), 1),
        "a function that is called": (lambda x: xpr.jit(lambda x: x * 0.3)(x) - 1.7, 1),
        "what nobody reads": (lambda x: (x * 0.3, x * 0.7)[0], 1),
        "large programs": (lambda x: sum(x * 0.3 - i % 2 for i in range(999)), 0),
        "what is made of numbers": (lambda x: x @ (jnp.arange(4.0) * 0.3), 0),
        "powers of two": (lambda x: x * 0.5 + 2.0 - x * 1.0 - x / -4.0, 0),
        "what is not finite": (lambda x: x * np.inf + np.nan, 0),
        "zero": (lambda x: x + 0.0, 0),
        "no arithmetic": (lambda x: jnp.maximum(x, 0.3), 0),
        "both": (lambda x: jnp.where(x > 0.3, x * 0.3, x), 0),
        "loops": (lambda x: lax.fori_loop(0, 5, lambda _, x: x * 0.3, x), 0),
        "integers": (lambda x: x.astype(np.int32) * 3, 0),
        "halves": (lambda x: x.astype(jnp.bfloat16) * 0.3, 0),
        "as many as fit": (lambda x: sum(x * (0.3 + i) for i in range(templates.MOST)), 16),
        "too many": (lambda x: sum(x * (0.3 + i) for i in range(templates.MOST + 1)), 0),
    }
    assert {k: len(numbers_of(g, x)) for k, (g, _) in left_out.items()} == {
        k: n for k, (_, n) in left_out.items()
    }
    assert numbers_of(lambda x: 0.3 + x / 3.1, x) == [f(3.1), f(0.3)]


def test_the_text_tells_nothing_of_the_numbers() -> None:
    def program(a: float, b: float) -> Template:
        found = template_of(lambda x: x * a - b, X)
        assert found is not None
        return found

    one, other = program(0.1, 0.7), program(1e-38, -5e20)
    assert (one.text, one.marks) == (other.text, other.marks)
    assert one.bits != other.bits
    assert template_of(lambda x: x * 0.1 + 0.7, X).marks != one.marks  # pyright: ignore


def test_what_the_device_gets_is_in_one_piece() -> None:
    """A slot between two dispatches would split it, and the memory of the results with it."""
    found = template_of(lambda x: [x[i] * (0.3 + i) for i in range(6)], X)
    assert found is not None
    job = new_job(found.text, CPU, ProgramHints())
    text, said = driver.text_at("stream", job.text, job.flag_sets[0], job.changes())
    assert text is not None, said
    assert text.count("stream.cmd.execute") == 1
    assert text.count("stream.resource.alloca ") == 1


def test_callbacks_get_their_numbers(compiles: list[str]) -> None:
    got: list[float] = []

    def callback(*values: Any) -> np.ndarray:
        got.extend(float(v) for v in values)
        return np.float32(1)

    shape = xpr.ShapeDtypeStruct((), np.float32)

    def function(x: Any) -> Any:
        io_callback(callback, shape, 0.371, ordered=True)
        io_callback(callback, shape, 0.372, 0.373)
        return x * 0.7  # without it there is no template

    x = np.ones(3, np.float32)
    np.testing.assert_allclose(xpr.jit(function)(x), x * np.float32(0.7))
    xpr.effects_barrier()
    assert sorted(got) == pytest.approx([0.371, 0.372, 0.373])


_GUARDS: dict[str, Callable[[Any, float], Any]] = {
    "maximum": lambda x, a: (jnp.maximum(x * a, x - a), x * a),
    "exponential": lambda x, a: (jnp.exp(x * a), jnp.exp(x) * a),
    "selection": lambda x, a: jnp.where(x > 0, x * a, x - a),
    "pad": lambda x, a: (jnp.pad(x * a, 2), jnp.concatenate([x - a, x / a])),
    "sum": lambda x, a: (jnp.sum(x * a) * a, jnp.sum(x, 0) - a),
    "conversion": lambda x, a: (x * a).astype(np.int32) + (x - a).astype(np.int32),
    "slice": lambda x, a: (x * a)[1:, ::2] + (x[1:, ::2] - a),
    "product": lambda x, a: (x * a) @ (x.T - a),
    "of indices": lambda x, a: x @ (jnp.arange(12.0) * a)[:, None] - a,
    "scalars": lambda x, a: jnp.sum(x) / a + jnp.sum(x[0]) * a,
    "loops": lambda x, a: lax.fori_loop(0, 3, lambda _, y: y * 0.5 + 1, x * a) - a,
}


def test_each_use_of_a_number_gets_it(compiles: list[str]) -> None:
    """Where the compiler saw through one use and not another one, that one would go wrong."""

    def all_of_them(x: Any, a: float) -> Any:
        return [guard(x, a) for guard in _GUARDS.values()]

    for a in (0.3, -1.7, 2.9):
        found = xpr.jit(lambda x, a=a: all_of_them(x, a))(X)
        with xpr.disable_jit():
            wanted = all_of_them(jnp.asarray(X), a)
        for got, want in zip(
            xpr.tree_util.tree_leaves(found), xpr.tree_util.tree_leaves(wanted), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_a_compile_that_takes_too_long_is_tried_in_simpler_form(
    monkeypatch: pytest.MonkeyPatch, compiles: list[str]
) -> None:
    real = attempts.run_compiler

    def slow(job: Any, *rest: Any) -> Any:
        if not job.separate:
            raise TimeoutError("too long")
        return real(job, *rest)

    monkeypatch.setattr(attempts, "run_compiler", slow)
    with pytest.warns(RuntimeWarning, match="one by one"):
        found = xpr.jit(lambda x: jnp.sin(x) * 0.3)(X)
    np.testing.assert_allclose(found, np.sin(X) * np.float32(0.3), rtol=1e-6)


@pytest.fixture(scope="module")
def line() -> tuple[Template, bytes]:
    """a x + b."""
    template = template_of(lambda x: x * 0.1 + 0.7, X)
    assert template is not None
    return template, compile_stablehlo(template.text, CPU, hints=ProgramHints())


_NUMBERS = st.floats(width=32, allow_nan=False, allow_subnormal=False)


@given(st.lists(_NUMBERS, min_size=2, max_size=2))
@settings(max_examples=20, deadline=None)
def test_any_numbers_are_filled_in(line: tuple[Template, bytes], given: list[float]) -> None:
    template, module = line
    a, b = np.asarray(given, np.float32)
    bits = tuple(int(v.view(np.uint32)) for v in (a, b))
    module = numbers.filled(module, Template(template.text, template.marks, bits))
    assert module is not None
    assert zipfile.ZipFile(io.BytesIO(module)).testzip() is None
    x = X[0]
    with np.errstate(all="ignore"):
        wanted = (x.astype(np.float64) * a).astype(np.float32) + b
        fused = (x.astype(np.float64) * a + b).astype(np.float32)
    status, (answer,) = run(module, [Call("main", [X])])
    assert status == 0
    found = answer.results[0][0]
    # What is less than the least normal number may be taken for zero.
    tiny = np.finfo(np.float32).tiny
    is_tiny = (np.abs(found) <= tiny) & (np.abs(wanted) <= tiny)
    is_nan = np.isnan(found) & np.isnan(wanted)
    assert np.all((found == wanted) | (found == fused) | is_tiny | is_nan)


def test_modules_without_a_place_for_each_number_are_refused(line: tuple[Template, bytes]) -> None:
    template, module = line
    assert numbers.filled(module, template) is not None
    mark = struct.pack("<I", template.marks[0])
    for damaged in (
        b"",
        b"nothing",
        module[: len(module) // 2],
        module + mark,  # it is somewhere else, too
        module.replace(mark, bytes(4)),
    ):
        assert numbers.filled(damaged, template) is None


def test_a_program_whose_template_is_of_no_use_is_compiled_with_its_numbers(
    compiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "filled", lambda module, template: None)
    check_step(0.3, 0.01)
    assert ["%slot_" in text for text in compiles] == [True, False]


def test_all_instructions_of_such_modules_are_known(line: tuple[Template, bytes]) -> None:
    _, module = line
    found = [
        instruction.code
        for function in vm_code.functions(module)
        for instruction in vm_code.instructions(module, function)
    ]
    assert found.count(vm_code.CONST_I32) >= 2
