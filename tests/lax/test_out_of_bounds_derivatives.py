"""Values and derivatives of reads and updates out of bounds are those of JAX 0.10.2.

`out_of_bounds.json` has JAX's, made by `out_of_bounds_cases.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import xpr
from tests.lax import out_of_bounds_cases as cases

GOLDEN = json.loads(Path(__file__).with_name("out_of_bounds.json").read_text())
FUNCTIONS = cases.cases(xpr)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_gradients_and_tangents(name: str) -> None:
    found = cases.noted(xpr, FUNCTIONS[name])
    kinds = ("value", "gradient", "tangent")
    for k, (a, e) in enumerate(zip(found, GOLDEN[name], strict=True)):
        where = f"{kinds[k % 3]} of {name}, {'compiled' if k < 3 else 'at once'}"
        np.testing.assert_allclose(a, e, rtol=1e-6, err_msg=where)


def test_golden_data_are_of_these_functions() -> None:
    assert set(FUNCTIONS) == set(GOLDEN)
