"""Bundles that are ready to be called."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.runtimes.bundle.archive import open_bundle
from xpr.runtimes.bundle.arguments import checked_argument, symbolic_sizes
from xpr.runtimes.bundle.errors import ArgumentTypeError, naming
from xpr.runtimes.bundle.native_runner import runner
from xpr.runtimes.bundle.programs import Program
from xpr.runtimes.bundle.runner import aligned
from xpr.runtimes.bundle.tensors import Array
from xpr.runtimes.bundle.trees import flatten_call, unflatten
from xpr.runtimes.shutdown import enters_iree, stop_if_near


class Bundle:
    """An exported program, ready to be called with NumPy arrays.

    `source` is a path or the bytes of a bundle. `platform` names a runtime (`cpu`, `vulkan`, ...)
    or one of the bundle's own names of modules; without it the first that fits this machine is
    taken. `hmac_key` (bytes) and `public_key` (32 bytes, or a key object of `cryptography`) ask
    for a signature. `order` picks the function itself (0) or its derivatives (`vjp_order`).
    `check_machine=False` skips the comparison of the module's needs with this machine.

    Raises CorruptBundleError, BundleSignatureError, BundleVersionError or BundleTargetError, all of
    them BundleErrors and ValueErrors, before any of the bundle's code is loaded.
    """

    @enters_iree
    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        platform: str | None = None,
        hmac_key: bytes | None = None,
        public_key: Any = None,
        order: int = 0,
        check_machine: bool = True,
    ) -> None:
        stop_if_near()
        with naming(source):
            members = open_bundle(source, hmac_key=hmac_key, public_key=public_key)
            program = Program(members, order, platform, check_machine)
            passed = [i for i, t in enumerate(program.inputs) if not t.given_no_values]
            count = len(program.weights) + len(passed)
            self._runner = runner(program, count)
        self.manifest = members.manifest
        self.platform = program.platform
        self.inputs, self.outputs = program.inputs, program.outputs
        self._program = program
        self._passed = passed
        self._weights = [self._runner.to_device(aligned(w)) for w in program.weights]
        # The results to copy out of other memory, once that is known: where no branch of the
        # program decides about it, the first call shows it for all.
        self._shared: frozenset[int] | None = None
        self._fixed = all(t.fixed for t in (*self.inputs, *self.outputs))
        self._shapes = [t.shape({}) for t in self.inputs] if self._fixed else []
        self._kinds = self._result_kinds({}) if self._fixed else []

    def _result_kinds(self, sizes: dict[str, int]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        return [(t.shape(sizes), t.dtype) for t in self.outputs if not t.given_no_values]

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program; arguments and result have the structure of the exported function.

        Raises ArgumentTypeError for a wrong number, structure or dtype, ArgumentValueError for
        wrong shapes, both with the name of the argument.
        """
        leaves = flatten_call(self._program.in_tree, args, kwargs)
        return unflatten(self._program.out_tree, self.call_flat(leaves))

    __call__ = call

    @enters_iree
    def call_flat(self, leaves: Sequence[Any]) -> list[Array]:
        """Calls the program with its flat inputs and gives its flat results."""
        stop_if_near()
        types = self.inputs
        if len(leaves) != len(types):
            raise ArgumentTypeError(f"the program takes {len(types)} arrays, got {len(leaves)}")
        arrays = [checked_argument(t, x) for t, x in zip(types, leaves, strict=True)]
        shapes = [a.shape for a in arrays]
        sizes: dict[str, int] = {}
        if self._fixed and shapes == self._shapes:
            kinds = self._kinds
        else:
            sizes = symbolic_sizes(types, shapes, self.manifest["constraints"])
            kinds = self._result_kinds(sizes)
        run = self._runner
        views = [*self._weights, *(run.to_device(arrays[i]) for i in self._passed)]
        results = run(views, kinds)
        shared = self._shared
        if shared is None:
            shared = run.shared_results(views, results)
            if self._program.straight_line:
                self._shared = shared
        for i in shared:
            results[i] = results[i].copy()
        if len(results) == len(self.outputs):
            return results
        rest = iter(results)
        return [
            np.zeros(t.shape(sizes), bool) if t.given_no_values else next(rest)
            for t in self.outputs
        ]
