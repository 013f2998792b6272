"""StableHLO's own test programs give the results that they state.

A sample lies here. All of them (or those that one has) run with
`XPR_STABLEHLO_DATA=FOLDER pytest tests/export/stablehlo/test_programs.py`, where the folder holds
the programs, as `make_sample.py` describes them, and `kinds.json`.
"""

from __future__ import annotations

import re
import warnings

import xpr
from tests.export.stablehlo.programs import difference, stablehlo_programs
from xpr.core.jaxpr import eval_closed

# lax.top_k counts NaN of either sign as greatest; XLA counts those with the sign bit as least.
KNOWN = {"top_k_float32_5_chlo.mlir"}
LEAST = 0.99


def _failure(text: str, kind: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of overflows that the programs mean
        try:
            with xpr.enable_x64(True):
                closed = xpr.export.from_stablehlo(text).program.at(())
                out = eval_closed(closed, [])
        except (ValueError, TypeError, NotImplementedError, ArithmeticError) as error:
            return f"{type(error).__name__}: {error}"
    half = len(out) // 2
    exact = kind == "check.expect_eq"
    found = [difference(a, b, exact) for a, b in zip(out[:half], out[half:], strict=True)]
    return next((text for text in found if text), None)


def test_programs_of_stablehlo_give_their_results() -> None:
    programs = stablehlo_programs()
    failures = {n: why for n, p in programs.items() if (why := _failure(*p)) is not None}
    report = "\n".join(f"{n}: {why[:200]}" for n, why in failures.items())
    assert not failures.keys() - KNOWN, report
    assert len(failures) <= (1 - LEAST) * len(programs), report


def test_the_sample_has_all_kinds_of_programs() -> None:
    text = "".join(program for program, _ in stablehlo_programs().values())
    found = set(re.findall(r"(?:stable|c)hlo\.\w+", text))
    wanted = (
        "stablehlo.scatter stablehlo.gather stablehlo.dot_general stablehlo.reduce_window "
        "stablehlo.select_and_scatter stablehlo.sort stablehlo.while stablehlo.fft "
        "stablehlo.convolution stablehlo.triangular_solve chlo.top_k chlo.erf_inv"
    )
    assert not set(wanted.split()) - found
