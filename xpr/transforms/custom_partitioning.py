"""`custom_partitioning`: functions whose author says how several devices compute them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr import tree_util
from xpr.core.aval import Shape, ShapedArray
from xpr.core.errors import UnexpectedTracerError, shown
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import Tracer, get_aval
from xpr.core.wrapping import like
from xpr.primitives.sharding import custom_partitioning_p
from xpr.sharding import Sharding
from xpr.sharding.rule import FactorRule
from xpr.sharding.user_rule import SdyShardingRule, factor_rule, parsed
from xpr.transforms.arguments import FlatFunction, check_leaf
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import ShapeDtypeStruct, check_callable, debug_info


@dataclass(frozen=True)
class ValueType:
    """The type of an operand or result, as a function that makes a sharding rule is shown it."""

    shape: Shape
    element_type: Any

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, eq=False)
class UserPartition:
    """What a user said of one function, for one structure of arguments and its static ones."""

    name: str
    partition: Callable[..., Any]
    infer_sharding_from_operands: Callable[..., Any] | None
    propagate_user_sharding: Callable[..., Any] | None
    decode_shardings: bool
    sharding_rule: SdyShardingRule | Callable[..., Any] | None
    in_tree: Any
    out_tree: Any
    static_args: tuple[Any, ...]

    @property
    def infers(self) -> bool:
        return self.infer_sharding_from_operands is not None

    def _operands(self, avals: Sequence[ShapedArray], shardings: Sequence[Sharding]) -> Any:
        return tree_util.tree_unflatten(self.in_tree, _structs(avals, shardings))

    def factor_rule(
        self, mesh: Any, operands: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> FactorRule | None:
        rule = self.sharding_rule
        if rule is None:
            return None
        if not isinstance(rule, SdyShardingRule):
            rule = self._made(rule, mesh, operands, results)
        return factor_rule(rule, [a.shape for a in operands], [a.shape for a in results])

    def _made(
        self,
        make: Callable[..., Any],
        mesh: Any,
        operands: Sequence[ShapedArray],
        results: Sequence[ShapedArray],
    ) -> SdyShardingRule:
        """The rule that the user's function makes for arrays of these types."""
        types = [[ValueType(a.shape, a.dtype) for a in avals] for avals in (operands, results)]
        found = make(*self.static_args, mesh, *types)
        options: dict[str, Any] = {}
        if isinstance(found, (list, tuple)) and len(found) == 2:
            found, options = found
        if isinstance(found, str):
            return parsed(found, **options)
        if isinstance(found, SdyShardingRule):
            return found
        raise ValueError(
            "sharding_rule callable must produce either an SdyShardingRule object or an "
            f"Einsum-like notation string, got {shown(found)}"
        )

    def inferred(
        self,
        mesh: Any,
        operands: Sequence[ShapedArray],
        shardings: Sequence[Sharding],
        results: Sequence[ShapedArray],
    ) -> list[Sharding]:
        infer = self.infer_sharding_from_operands
        assert infer is not None
        shapes = tree_util.tree_unflatten(self.out_tree, _structs(results, [None] * len(results)))
        found = infer(*self.static_args, mesh, self._operands(operands, shardings), shapes)
        return self._flat("infer_sharding_from_operands", self.out_tree, found)

    def partitioned(
        self,
        mesh: Any,
        operands: Sequence[ShapedArray],
        shardings: Sequence[Sharding],
        results: Sequence[ShapedArray],
        result_shardings: Sequence[Sharding],
    ) -> tuple[Any, Callable[..., list[Any]], list[Sharding], list[Sharding]]:
        wanted = tree_util.tree_unflatten(self.out_tree, _structs(results, result_shardings))
        if self.propagate_user_sharding is not None and self.sharding_rule is None:
            found = self.propagate_user_sharding(*self.static_args, mesh, wanted)
            given = self._flat("propagate_user_sharding", self.out_tree, found)
            wanted = tree_util.tree_unflatten(self.out_tree, _structs(results, given))
        found = self.partition(*self.static_args, mesh, self._operands(operands, shardings), wanted)
        if not (isinstance(found, (tuple, list)) and len(found) == 4):
            raise TypeError(
                f"the partition function of {self.name} must return (mesh, function, result "
                f"shardings, argument shardings), got {shown(found)}"
            )
        own_mesh, function, out, into = found
        flat = FlatFunction(function, tree_util.tree_structure((self._placeholders(), {})))

        def on_parts(*parts: Any) -> list[Any]:
            values = flat(*parts)
            if flat.out_tree != self.out_tree:
                raise TypeError(
                    f"custom_partitioning of {self.name}: the function that partition returned "
                    f"gives {flat.out_tree}, the function itself {self.out_tree}"
                )
            return values

        return (
            own_mesh,
            on_parts,
            self._flat("partition", self.in_tree, into),
            self._flat("partition", self.out_tree, out),
        )

    def _placeholders(self) -> Any:
        return tree_util.tree_unflatten(self.in_tree, [0] * self.in_tree.num_leaves)

    def _flat(self, what: str, tree: Any, shardings: Any) -> list[Sharding]:
        """A user's tree of shardings as a list."""
        found = tree.flatten_up_to(shardings)
        for s in found:
            if not isinstance(s, Sharding):
                raise ValueError(
                    f"Custom Partitioning rules must return Sharding. The {what} function of "
                    f"{self.name} gave {shown(s)}"
                )
        return found


def _structs(
    avals: Sequence[ShapedArray], shardings: Sequence[Sharding | None]
) -> list[ShapeDtypeStruct]:
    return [
        ShapeDtypeStruct(a.shape, a.dtype, sharding=s)
        for a, s in zip(avals, shardings, strict=True)
    ]


class custom_partitioning:
    """A function that says itself how several devices compute it.

    `f.def_partition(partition, ...)` gives the rules. On one device, and in a `shard_map` over all
    axes of the mesh, `f` is computed as it is. Arguments in `static_argnums` are passed to `f` and,
    in front of all others, to the rules as they are.

    It has no derivative and no batching rule; `custom_vjp` and `custom_vmap` give it some.

    >>> import xpr, xpr.numpy as jnp
    >>> @custom_partitioning
    ... def double(x):
    ...     return x * 2
    >>> def partition(mesh, arg_shapes, result_shape):
    ...     return mesh, double.fun, result_shape.sharding, (result_shape.sharding,)
    >>> double.def_partition(partition, sharding_rule="... -> ...") is partition
    True
    >>> double(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: Sequence[int] = ()) -> None:
        check_callable(fun, "custom_partitioning")
        like(self, fun)
        self.fun = fun
        self.static_argnums = tuple(static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.propagate_user_sharding: Callable[..., Any] | None = None
        self.infer_sharding_from_operands: Callable[..., Any] | None = None
        self.decode_shardings = True
        self.sharding_rule: SdyShardingRule | Callable[..., Any] | None = None

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: SdyShardingRule | Callable[..., Any] | str | None = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Callable[..., Any]:
        """Says how the function is sharded; returns `partition`.

        - `partition(mesh, arg_shapes, result_shape)` gets the shapes with the shardings that were
          found, and returns the mesh, the function of one device's parts (which may use collectives
          over the axes of the mesh), the shardings of the results and those of the arguments.
          Arguments are moved to what it says.
        - `sharding_rule` says which axes correspond: a string such as "... i -> ... i", an
          `SdyShardingRule`, or a function of the mesh and the types of operands and results that
          makes one. The keywords that follow it are those of `SdyShardingRule`, for strings.
        - Without a rule `infer_sharding_from_operands(mesh, arg_shapes, result_shape)` returns the
          shardings of the results, and `propagate_user_sharding(mesh, result_shape)` those of the
          results as their users want them.

        Shardings are always `NamedSharding`s; `decode_shardings` changes nothing. Raises ValueError
        for a rule that is not well formed.
        """
        self.partition = partition
        self.propagate_user_sharding = propagate_user_sharding
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.decode_shardings = decode_shardings
        special = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        if (
            sharding_rule is None
            or callable(sharding_rule)
            or isinstance(sharding_rule, SdyShardingRule)
        ):
            unknown = factor_sizes | {k: v for k, v in special.items() if v}
            if unknown:
                raise ValueError(f"Unknown keyword arguments: {unknown}")
            self.sharding_rule = sharding_rule
        else:
            self.sharding_rule = parsed(sharding_rule, **special, **factor_sizes)
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.partition is None:
            raise AttributeError(
                f"No partition defined for custom_partitioning function {name_of(self.fun)} using "
                "def_partition."
            )
        args = self._positional(args, kwargs)
        count = len(args)
        static = {i + count if i < 0 else i: args[i] for i in self.static_argnums}
        if any(isinstance(x, Tracer) for x in tree_util.tree_leaves(tuple(static.values()))):
            raise UnexpectedTracerError(
                "Found a JAX Tracer object passed as an argument to the custom_partitioning "
                f"function {name_of(self.fun)} in a position indicated as static by "
                "static_argnums."
            )
        dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, in_tree = tree_util.tree_flatten(dynamic)
        for x in leaves:
            check_leaf(x, "custom_partitioning")

        def whole(*given: Any) -> Any:
            rest = iter(given)
            return self.fun(*(static[i] if i in static else next(rest) for i in range(count)))

        tree = tree_util.tree_structure((dynamic, {}))
        flat = FlatFunction(whole, tree)
        info = debug_info(self.fun, tree, static, "custom_partitioning")
        closed = trace_to_jaxpr(flat, [get_aval(x) for x in leaves], info)
        if any(isinstance(c, Tracer) for c in closed.consts):
            raise UnexpectedTracerError(
                f"the custom_partitioning function {name_of(self.fun)} closes over a value that "
                "is being traced: pass it as an argument"
            )
        rules = UserPartition(
            name_of(self.fun),
            self.partition,
            self.infer_sharding_from_operands,
            self.propagate_user_sharding,
            self.decode_shardings,
            self.sharding_rule,
            in_tree,
            flat.out_tree,
            tuple(static[i + count if i < 0 else i] for i in self.static_argnums),
        )
        return flat.result(custom_partitioning_p.bind(*leaves, call=closed, rules=rules))

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments by position, defaults filled in."""
        try:
            bound = inspect.signature(self.fun).bind(*args, **kwargs)
        except ValueError:  # a built-in function without a signature
            if kwargs:
                raise TypeError("keyword arguments could not be resolved to positions") from None
            return args
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError("keyword arguments could not be resolved to positions")
        return bound.args
