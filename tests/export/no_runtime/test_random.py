"""Random programs in C compute the bits of the compiled modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.differential_programs import program

from .harness import GCC
from .random_runs import compared


@pytest.mark.skipif(GCC is None, reason="there is no gcc to build the programs with")
def test_random_programs(tmp_path: Path) -> None:
    # They have loops on the host, one behind the other, and updates at places that depend on data.
    assert compared([program(number) for number in (50, 52)], tmp_path) == []
