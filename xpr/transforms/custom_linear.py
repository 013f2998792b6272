"""`linear_call`: linear functions whose transpose the user gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.primitives._custom_linear import linear_call as linear_call_flat
from xpr.transforms.arguments import FlatFunction, check_leaf
from xpr.transforms.tracing import FIRST_ARGUMENT, check_callable


def linear_call(
    fun: Callable[..., Any],
    fun_transpose: Callable[..., Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """The value of `fun(residual_args, linear_args)`, which is linear in its second argument.

    Where the call is transposed, as reverse mode does, `fun_transpose(residual_args, cotangents)`
    takes its place: it maps cotangents of the value to those of `linear_args`, and is transposed to
    `fun` in turn. Nothing checks that the two belong together. There are no derivatives with
    respect to `residual_args`, nor to what the functions close over: NotImplementedError.

    Raises TypeError when the transpose's result has another tree than `linear_args`, and ValueError
    for other types.

    >>> import xpr
    >>> def divide(r, x):
    ...     return x / r
    >>> def f(x):
    ...     return xpr.custom_derivatives.linear_call(divide, divide, 4.0, x)
    >>> f(2.0), xpr.grad(f)(2.0)
    (Array(0.5, dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    check_callable(fun, "linear_call", FIRST_ARGUMENT)
    check_callable(fun_transpose, "linear_call")
    residuals, res_tree = tree_util.tree_flatten(residual_args)
    operands, lin_tree = tree_util.tree_flatten(linear_args)
    for x in (*residuals, *operands):
        check_leaf(x, "linear_call")
    forward = FlatFunction(fun, tree_util.tree_structure(((residual_args, linear_args), {})))

    def transpose(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        args = (
            tree_util.tree_unflatten(res_tree, res),
            tree_util.tree_unflatten(forward.out_tree, cts),
        )
        flat = FlatFunction(fun_transpose, tree_util.tree_structure((args, {})))
        found = flat(*res, *cts)
        if flat.out_tree != lin_tree:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs, got output "
                f"structure {flat.out_tree} and input structure {lin_tree}."
            )
        return found

    out = linear_call_flat(forward, transpose, residuals, operands)
    return forward.result(out)
