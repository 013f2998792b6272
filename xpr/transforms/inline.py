"""`Inline`: where a jitted function that another one calls is written into its caller."""

from __future__ import annotations

import enum


class Inline(enum.Enum):
    """Values of `jit(inline=)`: JAX_EARLY writes the function into the programs that call it.

    With the others the call stays in the jaxpr, and the compiler inlines as it sees fit: there is
    one way to compile a call here. True stands for JAX_EARLY, False for AUTO.

    >>> import xpr
    >>> f = xpr.jit(lambda x: x + 1.0, inline=xpr.Inline.JAX_EARLY)
    >>> [eqn.primitive.name for eqn in xpr.make_jaxpr(f)(2.0).eqns]
    ['add']
    """

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


def while_tracing(inline: bool | Inline) -> bool:
    """Whether calls are written out while the caller is traced."""
    return inline is Inline.JAX_EARLY if isinstance(inline, Inline) else inline
