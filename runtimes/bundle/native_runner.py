"""One module run by the native part of xpr, where that is installed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.runtimes.bundle.programs import Program
from xpr.runtimes.bundle.runner import COPIED_BYTES, Runner, is_parallel
from xpr.runtimes.bundle.tensors import Array
from xpr.runtimes.extension import SHORT_COST, native


class NativeRunner:
    """One module on the processor, without IREE's runtime: flat arrays in, flat arrays out.

    Raises the native part's `Refusal` for a module that IREE has to run.
    """

    def __init__(self, module: Any, program: Program) -> None:
        taken = [(w.shape, w.dtype.itemsize) for w in program.weights]
        taken += [(t.shape({}), t.dtype.itemsize) for t in program.inputs if not t.given_no_values]
        made = [(t.shape({}), t.dtype.itemsize) for t in program.outputs if not t.given_no_values]
        self._program = module.Program(program.vmfb, "main", taken, made, [False] * len(taken))
        self._parallel = is_parallel(program.cost)
        fixed = self._program.is_fixed and program.straight_line
        self._keeps_lock = fixed and program.cost < SHORT_COST
        self._block_over = module.Block.over

    def to_device(self, array: Array) -> Any:
        """A block with an array's values, over its own memory where that can be."""
        flat = np.ascontiguousarray(array).reshape(-1)
        return self._block_over(flat.view(np.uint8), COPIED_BYTES)

    def shared_results(self, views: Sequence[Any], results: Sequence[Array]) -> frozenset[int]:
        """The results that lie in the memory of an operand or of an earlier result: none."""
        return frozenset()

    def __call__(
        self, views: list[Any], results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> list[Array]:
        """The results, each over memory of its own."""
        blocks = self._program(views, self._parallel, self._keeps_lock)
        return [
            np.frombuffer(block, np.uint8).view(dtype).reshape(shape)
            if math.prod(shape)
            else np.empty(shape, dtype)
            for block, (shape, dtype) in zip(blocks, results, strict=True)
        ]


def runner(program: Program, count: int) -> Runner | NativeRunner:
    """What runs a program that takes so many arrays: the native part, or IREE.

    The native part runs programs of fixed shapes for the processor that hold nothing it does not
    know. Where `XPR_NATIVE` has programs run both ways, bundles are left to IREE.
    """
    fixed = all(t.fixed for t in (*program.inputs, *program.outputs))
    if program.runtime == "cpu" and fixed:
        try:
            found = native()
        except ImportError:  # asked for where there is none: a bundle does not need it
            found = None
        if found is not None and found.executor is not None and not found.checks:
            try:
                return NativeRunner(found.executor, program)
            except found.executor.Refusal:
                pass  # IREE runs it, or says what is wrong with it
    return Runner(program.vmfb, program.runtime, program.cost, count)
