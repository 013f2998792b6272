"""What propagation asks of functions that say themselves how they are sharded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import JaxprEqn
from xpr.sharding.base import Sharding
from xpr.sharding.layout import Sizes, replicated
from xpr.sharding.mesh import AbstractMesh
from xpr.sharding.named import NamedSharding
from xpr.sharding.rule import FactorRule, Spec
from xpr.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from xpr.sharding.propagate import Specs

Avals = Sequence[ShapedArray]
Shardings = Sequence[Sharding]


class UserRules(Protocol):
    """The parameter `rules` of `custom_partitioning`: the user's functions, on flat lists."""

    @property
    def infers(self) -> bool:
        """Whether `inferred` can be asked."""
        ...

    def factor_rule(self, mesh: Any, operands: Avals, results: Avals) -> FactorRule | None:
        """The user's sharding rule for arrays of these types; None without one."""
        ...

    def inferred(
        self, mesh: Any, operands: Avals, shardings: Shardings, results: Avals
    ) -> list[Sharding]:
        """The shardings of the results, from those of the operands."""
        ...

    def partitioned(
        self,
        mesh: Any,
        operands: Avals,
        shardings: Shardings,
        results: Avals,
        result_shardings: Shardings,
    ) -> tuple[Any, Callable[..., list[Any]], list[Sharding], list[Sharding]]:
        """The mesh, one device's function of flat parts, shardings of operands and of results."""
        ...


def mesh_of(mesh: Any, sizes: Sizes) -> Any:
    """The mesh that users are shown: that of the program, or an abstract one of these axes."""
    return AbstractMesh(tuple(sizes.values()), tuple(sizes)) if mesh is None else mesh


def as_sharding(mesh: Any, spec: Spec) -> NamedSharding:
    """A normalised spec as users see it, with an entry for each axis."""
    entries = [axes[0] if len(axes) == 1 else axes if axes else None for axes in spec]
    return NamedSharding(mesh, PartitionSpec(*entries))


def spec_from(sharding: Sharding, sizes: Sizes, shape: Sequence[int]) -> Spec:
    """The spec that a user's sharding of an array means; ValueError if it is of another mesh."""
    sharding.shard_shape(tuple(shape))
    if isinstance(sharding, NamedSharding):
        spec = sharding.normalized_spec(len(shape))
        if all(sizes.get(a) == sharding.mesh.shape[a] for axes in spec for a in axes):
            return spec
    elif sharding.is_fully_replicated:
        return replicated(len(shape))
    raise ValueError(
        f"custom_partitioning wants shardings over the mesh of the program, whose axes are "
        f"{dict(sizes)}, got {sharding}"
    )


class Inferred:
    """Results that are sharded as the user's function infers from the operands."""

    def __init__(self, specs: Specs, eqn: JaxprEqn) -> None:
        self.specs, self.eqn = specs, eqn
        self.asked: dict[tuple[Spec, ...], list[Spec]] = {}

    def sweep(self) -> bool:
        eqn, specs = self.eqn, self.specs
        have = tuple(specs.of(v) for v in eqn.invars)
        found = self.asked.get(have)
        if found is None:
            mesh = mesh_of(specs.mesh, specs.sizes)
            results = [v.aval for v in eqn.outvars]
            shardings = eqn.params["rules"].inferred(
                mesh, [v.aval for v in eqn.invars], [as_sharding(mesh, s) for s in have], results
            )
            found = self.asked[have] = [
                spec_from(s, specs.sizes, a.shape) for s, a in zip(shardings, results, strict=True)
            ]
        changed = False
        for v, spec in zip(eqn.outvars, found, strict=True):
            for dim, axes in enumerate(spec):
                changed = specs.extend(v, dim, axes) or changed
        return changed
