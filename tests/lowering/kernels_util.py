"""Programs with kernels that come with xpr, run by IREE's own runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from tests.lowering.iree_util import Call, run
from xpr.core.config import override
from xpr.lowering import module as lowering
from xpr.lowering import prebuilt, rules
from xpr.lowering.iree import driver
from xpr.lowering.targets import get_target
from xpr.runtimes import processor

rules.load_all()
CPU = get_target("cpu")

NEEDS = {
    "products_avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "products_avx2": {"avx2", "fma", "bmi2"},
}
KINDS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            prebuilt.content(name) is None or not needed.issubset(processor.description().split()),
            reason="needs the native part, for x86-64, and a processor of this kind",
        ),
    )
    for name, needed in NEEDS.items()
]


def lowered(function: Callable[..., Any], args: Any, kind: str | None) -> Any:
    target = dataclasses.replace(CPU, product_kernels=None if kind is None else lambda: kind)
    with override("enable_x64", True):
        closed = xpr.make_jaxpr(function)(*args)
        return lowering.lower_jaxpr_to_module(closed, target, name="program")


def results(
    function: Callable[..., Any], args: Any, kind: str | None, kernel: str = "xpr_product"
) -> list[np.ndarray]:
    """What IREE's own runtime gives."""
    program = lowered(function, args, kind)
    assert (kernel in program.text) == (kind is not None)
    module, said = driver.compile_module(
        program.text, CPU.flag_sets(program.hints)[0], name="program", verify=True
    )
    assert module is not None, said
    status, (answer,) = run(module, [Call("main", list(args))])
    assert (status, answer.error) == (0, "")
    return answer.results
