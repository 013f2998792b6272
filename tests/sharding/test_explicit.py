"""Types with shardings: what JAX 0.10.2 says of the same programs (`explicit_programs.py`)."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import xpr
from tests.sharding.explicit_programs import DIFFERENT, PROGRAMS, outcome

GOLDEN: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "explicit_golden.json").read_text()
)


@pytest.mark.parametrize("family", list(PROGRAMS))
def test_types_of_results(family: str) -> None:
    importlib.import_module("xpr.scipy.linalg")
    mesh = xpr.make_mesh((2, 2), ("X", "Y"))
    wrong: list[str] = []
    with xpr.set_mesh(mesh):
        for program, rows in PROGRAMS[family].items():
            for operands in rows:
                found, text = outcome(xpr, mesh, program, operands)
                wanted = DIFFERENT.get((program, operands), GOLDEN[program][operands])
                if found != wanted:
                    wrong.append(f"{program} of {operands}: {found} {text}, not {wanted}")
    assert not wrong, "\n".join(wrong)
