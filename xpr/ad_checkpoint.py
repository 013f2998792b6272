"""`checkpoint`, its policies, and what reverse mode keeps: JAX's module of that name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.transforms.checkpoint import checkpoint as checkpoint
from xpr.transforms.checkpoint import checkpoint_name as checkpoint_name
from xpr.transforms.checkpoint import checkpoint_policies as checkpoint_policies
from xpr.transforms.checkpoint import print_saved_residuals as print_saved_residuals


def remat(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    concrete: bool = False,
) -> Any:
    """The function `checkpoint` under its other name.

    >>> import xpr, xpr.numpy as jnp
    >>> float(xpr.grad(xpr.remat(lambda x: jnp.exp(x)))(0.0))
    1.0
    """
    return checkpoint(
        fun,
        prevent_cse=prevent_cse,
        policy=policy,
        static_argnums=static_argnums,
        concrete=concrete,
    )
