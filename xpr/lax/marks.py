"""What marks values and parts of a program: order, names and places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr import tree_util
from xpr.core.array import Array
from xpr.core.errors import shown
from xpr.core.trace import Tracer, is_valid_value
from xpr.dispatch.transfer import device_put
from xpr.lax._flat import as_arrays, trace_program, with_consts
from xpr.primitives.call import jit_p
from xpr.transforms.tracing import abstractify, check_callable

__all__ = ["Token", "after_all", "composite", "create_token", "stage"]


@tree_util.register_static
class Token:
    """Stands for the order of what has an effect: a pytree without arrays.

    Programs run their effects in the order in which they were traced, so a token holds nothing.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token)

    def __hash__(self) -> int:
        return hash(Token)

    def __repr__(self) -> str:
        return "Token()"


def after_all(*operands: Token) -> Token:
    """A token that comes after all the tokens given; a first one if there are none.

    Raises TypeError for an operand that is no token.

    >>> after_all(after_all(), after_all())
    Token()
    """
    for x in operands:
        if not isinstance(x, Token):
            raise TypeError(f"Arguments to after_all must be tokens, got {shown(x)} of {type(x)}")
    return Token()


def create_token(_: Any = None) -> Token:
    """A token that comes after nothing, whatever it is given.

    >>> create_token()
    Token()
    """
    return Token()


def stage(x: Any, /) -> Array:
    """The value as an array, of the type that operations take it for.

    Raises TypeError for what is no array and no number.

    >>> stage(1.5)
    Array(1.5, dtype=float32, weak_type=True)
    """
    if not is_valid_value(x):
        raise TypeError(f"stage requires an array or a number, got {shown(x)} of type {type(x)}")
    return x if isinstance(x, Array) else device_put(x)


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """`decomposition` as an operation that keeps its name in programs.

    Positional arguments of the function returned are operands, pytrees of arrays; keyword arguments
    are attributes, which Python sees as they are. In a jaxpr the operation is one equation with the
    program of `decomposition`; a compiler that knows none better compiles that. Derivatives and
    batches are those of the decomposition.

    Raises TypeError for a `decomposition` that cannot be called, operands that are no arrays and
    attributes that are traced values.

    >>> import xpr, xpr.numpy as jnp
    >>> softplus = composite(lambda x: jnp.log1p(jnp.exp(x)), "my.softplus")
    >>> softplus(0.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    >>> print(xpr.make_jaxpr(softplus)(0.0).eqns[0].params["name"])
    my.softplus
    """
    check_callable(decomposition, "composite")
    shown_name = f"{name}.v{version}" if version else name

    def operation(*args: Any, **attributes: Any) -> Any:
        for key, value in attributes.items():
            if any(isinstance(v, Tracer) for v in tree_util.tree_leaves(value)):
                raise TypeError(
                    f"composite {name}: the attribute {key} is a traced value; pass it as a "
                    "positional argument"
                )
        leaves, tree = tree_util.tree_flatten(args)
        as_arrays(leaves, f"composite {name}")
        if not any(isinstance(x, Tracer) for x in leaves):
            return decomposition(*args, **attributes)
        program = trace_program(
            lambda *operands: decomposition(*operands, **attributes),
            tree,
            [abstractify(x) for x in leaves],
            f"composite {name}",
        )
        (closed,), consts = with_consts([program])
        found = jit_p.bind(
            *consts,
            *leaves,
            jaxpr=closed,
            name=shown_name,
            donated_invars=(False,) * (len(consts) + len(leaves)),
            inline=False,
            keep_unused=False,
        )
        return tree_util.tree_unflatten(program.out_tree, found)

    return operation
