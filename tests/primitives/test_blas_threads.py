"""How many threads BLAS has for the matrices of a factorisation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController

import xpr
import xpr.numpy as jnp
from xpr.primitives._blas_threads import with_few_threads


def counts() -> list[int]:
    """The numbers of threads of the BLAS that SciPy uses."""
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    assert found
    ours = [b for b in found if Path(b.filepath).parent.name.startswith("scipy")]
    return [b.get_num_threads() for b in ours or found]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Two threads, also on a machine with one core."""
    assert scipy.linalg is not None  # its BLAS counts, too
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [(b, b.get_num_threads()) for b in found]
    for library in found:
        library.set_num_threads(2)
        library.clear_controlling_thread()
    yield
    for library, count in before:
        library.set_num_threads(count)
        library.clear_controlling_thread()


def seen_in(name: str, *shape: int) -> set[int]:
    """How many threads a function had for a matrix."""
    seen: list[int] = []
    with_few_threads(name, lambda x: seen.extend(counts()))(np.zeros(shape))
    return set(seen)


@pytest.mark.parametrize(
    ("name", "shape", "wanted"),
    [
        ("gesdd", (200, 200), 1),
        ("gesdd", (500, 10_000), 1),
        ("gesdd", (1000, 1000), 2),
        ("potrf", (200, 200), 1),
        ("potrf", (500, 500), 2),
        ("syevd", (383, 383), 1),
        ("syevd", (10, 10), 2),  # uses none
        ("gesdd", (48, 48), 1),
        ("trsm", (32, 32), 1),
        ("trsm", (0, 0), 2),
    ],
)
def test_threads_by_size(name: str, shape: tuple[int, ...], wanted: int) -> None:
    assert seen_in(name, *shape) == {wanted}
    assert set(counts()) == {2}


@pytest.mark.parametrize(("columns", "wanted"), [(1, 2), (16, 2), (40, 1)])
def test_few_right_hand_sides_need_no_limit(columns: int, wanted: int) -> None:
    """OpenBLAS solves them with one thread whatever the number is, and setting it takes longer."""
    seen: list[int] = []
    solve = with_few_threads("trsm", lambda a, b: seen.extend(counts()))
    solve(np.zeros((100, 100)), np.zeros((100, columns)))
    assert set(seen) == {wanted}


def test_they_are_back_after_an_error() -> None:
    def fails(_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        with_few_threads("getrf", fails)(np.zeros((100, 100)))
    assert set(counts()) == {2}


def test_calls_that_overlap_leave_the_number_as_it_was() -> None:
    """The first to begin ends first: the other one must not put back what it found."""
    inside, leave = threading.Event(), threading.Event()

    def first(_: Any) -> None:
        inside.set()
        assert leave.wait(60)

    def second(_: Any) -> None:
        leave.set()
        thread.join()

    x = np.zeros((100, 100))
    thread = threading.Thread(target=with_few_threads("getrf", first), args=(x,))
    thread.start()
    assert inside.wait(60)
    with_few_threads("getrf", second)(x)
    assert set(counts()) == {2}
    # Nor may the thread that was in it keep others from setting the number.
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        assert set(counts()) == {1}


_A = np.random.default_rng(0).standard_normal((150, 150))
_S = _A @ _A.T + np.eye(150)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda: jnp.linalg.eigvalsh(_S), lambda: np.linalg.eigvalsh(_S)),
        (lambda: jnp.linalg.cholesky(_S), lambda: np.linalg.cholesky(_S)),
        (lambda: jnp.linalg.solve(_S, _A), lambda: np.linalg.solve(_S, _A)),
        (lambda: jnp.linalg.svd(_A)[1], lambda: np.linalg.svd(_A)[1]),
        (lambda: jnp.abs(jnp.linalg.qr(_A)[1]), lambda: np.abs(np.linalg.qr(_A)[1])),
    ],
)
def test_factorisations(function: Callable[[], Any], wanted: Callable[[], Any]) -> None:
    with xpr.enable_x64(True):
        np.testing.assert_allclose(np.asarray(function()), wanted(), rtol=1e-8, atol=1e-8)
    assert set(counts()) == {2}
