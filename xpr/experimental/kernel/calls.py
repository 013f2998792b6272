"""Calls of kernels: types are checked, and the call becomes an equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.errors import shown
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.numpy import asarray
from xpr.transforms.tracing import ShapeDtypeStruct

Types = Sequence[ShapeDtypeStruct]
CodeFor = Callable[[Types, Types], Any]
"""The code for operands and results of these types; TypeError or ValueError if there is none."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel, to be called with arrays, in functions that are transformed and by itself.

    It has no derivative and no batching rule: `custom_vjp` (or `custom_jvp`) and
    `custom_batching.custom_vmap` around its calls give it both. Over several devices it is called
    with whole arrays. Made by `c_source`, `c_function`, `mlir`, `spirv` and `ptx`, whose `result`
    says which types it gives.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import kernel
    >>> source = "void next(const int *x, int *y) { *y = *x + 1; }"
    >>> kernel.c_source(source, "next", result=lambda x: x)(jnp.int32(4))
    Array(5, dtype=int32)
    """

    name: str
    result: Any
    primitive: Primitive
    code_for: CodeFor

    def __call__(self, *args: Any) -> Any:
        """The results for arrays `args`, in the structure that `result` has.

        Raises TypeError for operands that are no arrays, and for types that do not go with the
        kernel; NotImplementedError where the program's device cannot run it.
        """
        operands = [asarray(x) for x in args]
        types = [_struct(get_aval(x)) for x in operands]
        wanted = self.result(*types) if callable(self.result) else self.result
        leaves, tree = tree_util.tree_flatten(wanted)
        avals = tuple(self._aval(i, leaf) for i, leaf in enumerate(leaves))
        code = self.code_for(types, [_struct(a) for a in avals])
        found = self.primitive.bind(*operands, code=code, result_avals=avals)
        return tree_util.tree_unflatten(tree, found)

    def _aval(self, index: int, leaf: Any) -> ShapedArray:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise TypeError(
                f"the kernel {self.name} promises as result {index} what has no shape and dtype: "
                f"{shown(leaf)}"
            )
        dtype = np.dtype(leaf.dtype)
        if dtypes.canonicalize(dtype) != dtype:
            raise TypeError(
                f"the kernel {self.name} promises {dtype}, which needs xpr.config.update("
                "'jax_enable_x64', True)"
            )
        return ShapedArray(tuple(leaf.shape), dtype)

    def __repr__(self) -> str:
        return f"Kernel({self.name})"


def _struct(aval: Any) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype)
