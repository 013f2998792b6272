"""Tables of cases: functions of xpr.numpy against NumPy, outside and inside `jit`.

All cases of a table are traced into a few programs, since each compilation takes a third of a
second.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import xpr
import xpr.numpy
from xpr.core import dtypes

# Many tests hand over what the types of the functions forbid.
jnp: Any = xpr.numpy

# Relative tolerance by dtype of the result: a few units in the last place.
RTOL = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1.5e-6, "float64": 1e-14}
RTOL |= {"complex64": 3e-6, "complex128": 1e-13}
CASES_PER_PROGRAM = 60


@dataclass(frozen=True)
class Case:
    """One call. `name` is a function of both namespaces; `call` replaces it where they differ.

    `call(module, *args)` is run with xpr.numpy and, unless `expected` is given, with NumPy. `dtype`
    is the expected dtype where it is not NumPy's in 32 bits.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    expected: Callable[..., Any] | None = None
    dtype: str | None = None
    rtol: float | None = None
    atol: float = 0.0
    eager_only: bool = False

    @property
    def id(self) -> str:
        types = ",".join(_type_name(a) for a in self.args)
        extra = ",".join(f"{k}={v}" for k, v in self.kwargs.items())
        return f"{self.name}({types}{';' if extra else ''}{extra})"

    def run(self, module: Any, *args: Any) -> Any:
        if self.call is not None:
            return self.call(module, *args, **self.kwargs)
        return getattr(module, self.name)(*args, **self.kwargs)


def _type_name(a: Any) -> str:
    return f"{a.dtype.name}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a)


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _wide(a: Any) -> Any:
    """NumPy has no arithmetic of its own for bfloat16."""
    return (
        a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == ml_dtypes.bfloat16 else a
    )


def oracle(case: Case) -> list[np.ndarray[Any, Any]]:
    """What NumPy says."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = [_wide(a) for a in case.args]
        found = case.expected(*args) if case.expected is not None else case.run(np, *args)
    return [np.asarray(r) for r in _flat(found)]


def compare(case: Case, found: Sequence[Any], expected: Sequence[Any], how: str) -> None:
    """Same number of results, shapes, dtypes and values; NaNs and infinities at the same places."""
    what = f"{case.id} {how}"
    assert len(found) == len(expected), what
    for a, e in zip(found, expected, strict=True):
        assert isinstance(a, xpr.Array), what
        value = np.asarray(a)
        assert value.shape == e.shape, f"{what}: shape {value.shape}, expected {e.shape}"
        wanted = np.dtype(getattr(ml_dtypes, case.dtype, case.dtype)) if case.dtype else e.dtype
        wanted = wanted if case.dtype else dtypes.canonicalize(wanted)
        assert value.dtype == wanted, f"{what}: dtype {value.dtype}, expected {wanted}"
        if value.dtype.kind in "biu":
            np.testing.assert_array_equal(value, e, err_msg=what)
            continue
        wide = np.complex128 if value.dtype.kind == "c" else np.float64
        rtol = RTOL[value.dtype.name] if case.rtol is None else case.rtol
        with np.errstate(all="ignore"):
            # What overflows the result's dtype is infinite in it.
            e = e.astype(value.dtype).astype(wide)
        np.testing.assert_allclose(
            value.astype(wide), e, rtol=rtol, atol=case.atol, err_msg=what, equal_nan=True
        )


def check(cases: Sequence[Case]) -> None:
    """Each case outside `jit` and, a few programs for all, inside it."""
    failures = []
    expected = [oracle(c) for c in cases]

    def note(case: Case, run: Callable[[], Any], e: Any, how: str) -> None:
        try:
            compare(case, _flat(run()), e, how)
        except Exception as error:
            failures.append(f"{case.id} {how}: {type(error).__name__}: {error}")

    for case, e in zip(cases, expected, strict=True):
        args = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in case.args]
        note(case, lambda c=case, args=args: c.run(jnp, *args), e, "eager")

    traced = [(c, e) for c, e in zip(cases, expected, strict=True) if not c.eager_only]
    for start in range(0, len(traced), CASES_PER_PROGRAM):
        group = traced[start : start + CASES_PER_PROGRAM]
        try:
            results = run_jitted([c for c, _ in group])
        except Exception:
            # One of them cannot be compiled: alone, each says whether it is the one.
            for case, e in group:
                note(case, lambda c=case: run_jitted([c])[0], e, "jitted alone")
            continue
        for (case, e), r in zip(group, results, strict=True):
            note(case, lambda r=r: r, e, "jitted")
    assert not failures, f"{len(failures)} failures:\n" + "\n".join(failures[:25])


def run_jitted(cases: Sequence[Case]) -> list[list[Any]]:
    """The results of all cases, computed by one compiled program."""

    @xpr.jit
    def program(operands: list[list[Any]]) -> list[list[Any]]:
        out = []
        for case, given in zip(cases, operands, strict=True):
            arrays = iter(given)
            args = [next(arrays) if isinstance(a, np.ndarray) else a for a in case.args]
            out.append(_flat(case.run(jnp, *args)))
        return out

    return program([[a for a in c.args if isinstance(a, np.ndarray)] for c in cases])
