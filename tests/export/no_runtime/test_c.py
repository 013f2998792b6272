"""Programs in C compute the bits of the compiled modules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpr

from .harness import GCC, Model, module_results, save_model
from .programs import ALONE, PROGRAMS

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc to build the programs with")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    save_model(folder, PROGRAMS)
    return Model(folder)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_bits_of_their_modules(model: Model, name: str, tmp_path: Path) -> None:
    function, args = PROGRAMS[name]
    leaves = [np.asarray(x) for x in xpr.tree.leaves(tuple(args))]
    assert model.call(name, leaves) == module_results(function, args, tmp_path)


@pytest.mark.parametrize("name", ALONE)
def test_programs_with_constants(name: str, tmp_path: Path) -> None:
    function, args = ALONE[name]
    save_model(tmp_path, {name: (function, args)})
    found = Model(tmp_path).call(name, [np.asarray(x) for x in args])
    assert found == module_results(function, args, tmp_path)
