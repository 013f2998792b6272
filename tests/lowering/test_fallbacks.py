"""Programs that do not compile as they are: plainer forms of them, and what is told."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from xpr import lax
from xpr.cli import main
from xpr.core.config import override
from xpr.core.errors import CompileError
from xpr.lowering.cache import CompileCache, default_cache
from xpr.lowering.iree import driver
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.iree.post_passes import SEPARATE_OPERATIONS, Change

HERE = Path(__file__).name
Refuses = Callable[[str, bool], bool]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompileCache:
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("XPR_CACHE", raising=False)
    found = default_cache()
    assert found is not None
    return found


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Refuses], list[bool]]]:
    """Has the compiler refuse texts; gives a list of whether what was compiled was separate."""
    original = driver.compile_module
    tried: list[bool] = []

    def there(refuses: Refuses) -> list[bool]:
        def compile_module(
            text: str, flags: Sequence[str], *, changes: Sequence[Change], **options: Any
        ) -> tuple[bytes | None, list[Diagnostic]]:
            separate = SEPARATE_OPERATIONS in changes
            tried.append(separate)
            if refuses(text, separate):
                return None, [Diagnostic("error", "refused")]
            return original(text, flags, changes=changes, **options)

        monkeypatch.setattr(driver, "compile_module", compile_module)
        return tried

    with override("compiler", "inline"):
        yield there


def fused(text: str, separate: bool) -> bool:
    return not separate


def everything(x: Any, y: Any, n: Any) -> list[Any]:
    """A program with all kinds of operations, whose arguments must stay as they are."""
    total = lax.fori_loop(0, n, lambda i, s: s.at[i % 3].add(s[i % 3] * 2 + i), y)
    z = (x + 1j * x).conj() * 2
    sliced = lax.dynamic_update_slice(x, x[:1] * 0, (n - 4, 0))
    chosen = lax.cond(n > 3, lambda: x.sum(0), lambda: x.min(0))
    small = (x * 50).astype(xnp.uint8) // 3
    ordered = xnp.sort(x, axis=1) + lax.cumsum(x, axis=0)
    scanned = lax.scan(lambda c, r: (c * 0.5 + r, c @ r), chosen, x)
    return [total, z, sliced, chosen, small, ordered, *scanned, x @ x.T, xnp.median(x)]


def test_separate_operations_give_the_same_numbers(
    cache: CompileCache, refuse: Callable[[Refuses], list[bool]]
) -> None:
    x = np.random.default_rng(0).uniform(0, 4, (3, 5)).astype(np.float32)
    y = np.arange(3, dtype=np.int32)
    device_x, device_y = xnp.asarray(x), xnp.asarray(y)
    tried = refuse(fused)
    with pytest.warns(RuntimeWarning, match="everything .* one by one"):
        got = xpr.jit(everything)(device_x, device_y, 6)
    assert tried[-1]
    total = y.copy()
    for i in range(6):
        total[i % 3] += total[i % 3] * 2 + i
    sliced = x.copy()
    sliced[2] = 0
    carry, dots = x.sum(0), []
    for row in x:
        dots.append(carry @ row)
        carry = carry * np.float32(0.5) + row
    wanted = [
        *(total, (x - 1j * x) * 2, sliced, x.sum(0), (x * 50).astype(np.uint8) // 3),
        *(np.sort(x, 1) + np.cumsum(x, 0), carry, dots, x @ x.T, np.median(x)),
    ]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    np.testing.assert_array_equal(device_x, x)
    np.testing.assert_array_equal(device_y, y)


def test_what_is_updated_is_no_other_array_too(
    cache: CompileCache, refuse: Callable[[Refuses], list[bool]]
) -> None:
    """Barriers hide that a reshape, or the greater of two equal arrays, is what it was made of."""
    refuse(fused)

    def updates(x: Any, i: Any) -> list[Any]:
        y = xnp.exp(x)
        flat = y.reshape(-1)
        same = xnp.maximum(y, y)
        first = lax.dynamic_update_slice(flat, xnp.zeros(2), (i,))
        second = same.at[i, i].set(-1)
        third = lax.fori_loop(0, i, lambda j, c: c.at[j].add(1), y.reshape(4, 3))
        _, fourth = lax.while_loop(lambda s: s[0] < i, lambda s: (s[0] + 1, s[1] * 2), (0, flat))
        return [y, flat, same, first, second, third, fourth, lax.sort(y), y + 1]

    x = np.linspace(3, -2, 12, dtype=np.float32).reshape(3, 4)
    y = np.exp(x)
    first, second, third = y.ravel().copy(), y.copy(), y.reshape(4, 3).copy()
    first[2:4] = 0
    second[2, 2] = -1
    third[:2] += 1
    with pytest.warns(RuntimeWarning, match="updates .* one by one"):
        got = xpr.jit(updates)(x, 2)
    wanted = [y, y.ravel(), y, first, second, third, y.ravel() * 4, np.sort(y), y + 1]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_one_warning_names_the_line_and_the_cache_counts(
    cache: CompileCache,
    refuse: Callable[[Refuses], list[bool]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    refuse(fused)

    def halves(x: Any) -> Any:
        return xnp.sin(x) / 2

    with pytest.warns(RuntimeWarning, match="halves") as caught:
        xpr.jit(halves)(np.ones(3, np.float32))
    (warning,) = caught
    assert Path(warning.filename).name == HERE
    assert warning.lineno == halves.__code__.co_firstlineno + 1
    assert main(["cache", "verify"]) == 0
    assert "1 program compiled only with operations one by one" in capsys.readouterr().out
    # From the cache it comes without a word.
    xpr.clear_caches()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xpr.jit(halves)(np.ones(3, np.float32))
    assert cache.clear() == 1
    assert cache.notes() == []


def test_a_median_in_a_loop(cache: CompileCache) -> None:
    """It has ended the process."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, found = lax.scan(lambda c, _: (c * 0.5, xnp.median(c)), x, None, 4)
    np.testing.assert_array_equal(found, [5.5, 2.75, 1.375, 0.6875])


def test_notes_that_are_damaged_count_for_nothing(cache: CompileCache) -> None:
    cache.put(bytes(32), b"module")
    cache.note(bytes(32), {"fallback": "separate"})
    assert cache.noted(bytes(32)) == {"fallback": "separate"}
    cache.path(bytes(32)).with_suffix(".json").write_bytes(b"{")
    assert cache.noted(bytes(32)) == {}
    assert cache.noted(bytes(31) + b"1") == {}
    cache.discard(bytes(32))
    assert cache.notes() == []


def without_floor(text: str, separate: bool) -> bool:
    return "stablehlo.floor" in text


@xpr.jit
def inner(x: Any) -> Any:
    return xnp.floor(x * 3)


def test_an_operation_that_compiles_in_no_form_runs_on_the_host(
    cache: CompileCache,
    refuse: Callable[[Refuses], list[bool]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried = refuse(without_floor)

    def steps(x: Any) -> Any:
        y = inner(x) + 1
        return y.sum(axis=0), inner(y) @ y.T, xnp.exp(-y)

    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    y = np.floor(x * 3) + 1
    wanted = y.sum(0), np.floor(y * 3) @ y.T, np.exp(-y)
    with pytest.warns(RuntimeWarning, match=r"cannot compile steps .* NumPy.*: floor$") as caught:
        got = xpr.jit(steps)(x)
    (warning,) = caught
    assert Path(warning.filename).name == HERE
    assert warning.lineno == inner.__wrapped__.__code__.co_firstlineno + 2
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert main(["cache", "verify"]) == 0
    assert "1 program compiled only with operations left to NumPy" in capsys.readouterr().out
    # Another process knows what was found.
    xpr.clear_caches()
    tried.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(xpr.jit(steps)(x)[0], wanted[0], rtol=1e-5)
    assert tried == []


@pytest.mark.usefixtures("plain_loops")
def test_a_loop_that_compiles_in_no_form_runs_on_the_host(
    cache: CompileCache, refuse: Callable[[Refuses], list[bool]]
) -> None:
    refuse(without_floor)

    def run(x: Any) -> Any:
        return lax.scan(lambda c, r: (xnp.floor(c + r), c.sum()), x[0] * 2, x)

    # Too large for registers.
    x = np.linspace(-2, 2, 3600, dtype=np.float32).reshape(3, 1200)
    with pytest.warns(RuntimeWarning, match=r"NumPy.*: scan$"):
        last, sums = xpr.jit(run)(x)
    carry, wanted = x[0] * 2, []
    for row in x:
        wanted.append(carry.sum())
        carry = np.floor(carry + row)
    np.testing.assert_array_equal(last, carry)
    np.testing.assert_allclose(sums, wanted, rtol=1e-5)


def test_what_no_form_helps_is_an_error(
    cache: CompileCache, refuse: Callable[[Refuses], list[bool]]
) -> None:
    refuse(lambda text, separate: True)
    with pytest.raises(CompileError, match="refused") as caught:
        xpr.jit(lambda x: xnp.exp(x) * 2)(np.ones(3, np.float32))
    assert caught.value.stablehlo_path is not None
    Path(caught.value.stablehlo_path).unlink()
    assert cache.notes() == []
