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


def test_mesh_axes_of_one_device_shard_axes_of_size_one() -> None:
    mesh = xpr.make_mesh((1, 2), ("X", "Y"))
    place = xpr.sharding.NamedSharding(mesh, xpr.sharding.PartitionSpec("X", "Y"))
    x = xpr.ShapeDtypeStruct((1, 4), "float32", sharding=place)
    (found,) = xpr.make_jaxpr(lambda x: x.sum(0) + x[0])(x).out_avals
    assert str(found) == "float32[4@Y]"
