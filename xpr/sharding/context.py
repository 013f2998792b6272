"""The mesh in use: `set_mesh` for concrete ones, `use_abstract_mesh` for those of a trace."""

from __future__ import annotations

from xpr.core.context import context
from xpr.sharding import entered
from xpr.sharding.mesh import EMPTY_ABSTRACT_MESH, EMPTY_MESH, AbstractMesh, Mesh
from xpr.sharding.named import NamedSharding
from xpr.sharding.spec import PartitionSpec


class set_mesh:
    """Makes `mesh` the one in use in this thread: at once, or for the length of a `with` block.

    Bare partition specs then mean this mesh, and operations make arrays on it. Raises ValueError
    for what is no mesh, for a mesh with manual axes, and inside a trace.

    >>> import xpr
    >>> mesh = xpr.make_mesh((1,), ("x",))
    >>> with xpr.set_mesh(mesh):
    ...     xpr.sharding.get_mesh() is mesh
    True
    """

    __slots__ = ("_before",)

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(f"Expected mesh of type `xpr.sharding.Mesh`. Got {type(mesh)}")
        if context.trace is not context.eager:
            raise ValueError("`set_mesh` can only be used outside of `xpr.jit`.")
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"mesh {mesh} contains manual axes which is not allowed when using "
                "`xpr.set_mesh`. Please use `xpr.shard_map` to enter into `Manual` mode instead."
            )
        self._before = entered.current()
        concrete = None if mesh is None or mesh.empty else mesh
        abstract = None if concrete is None else concrete.abstract_mesh
        entered.replace(self._before._replace(concrete=concrete, abstract=abstract))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        before = self._before
        entered.replace(
            entered.current()._replace(concrete=before.concrete, abstract=before.abstract)
        )


def get_mesh() -> Mesh:
    """The mesh that `set_mesh` made the one in use; an empty one without any.

    Raises ValueError inside a trace, which may be run on other devices.

    >>> from xpr.sharding import get_mesh
    >>> get_mesh().empty
    True
    """
    if context.trace is not context.eager:
        raise ValueError(
            "`get_mesh` can only be used outside of `xpr.jit`. Maybe you want "
            "`xpr.sharding.get_abstract_mesh()`?"
        )
    return concrete_mesh()


def concrete_mesh() -> Mesh:
    """As `get_mesh`, and also inside a trace."""
    mesh = entered.current().concrete
    return EMPTY_MESH if mesh is None else mesh


class use_abstract_mesh:
    """Makes an abstract mesh the one in use for the length of a `with` block.

    Raises ValueError for what is no abstract mesh, and on entering when a mesh of another size is
    in use.

    >>> with use_abstract_mesh(AbstractMesh((2,), ("x",))):
    ...     get_abstract_mesh()
    AbstractMesh('x': 2, axis_types=(Auto,))
    """

    __slots__ = ("_before", "_mesh")

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                f"Expected mesh of type `xpr.sharding.AbstractMesh`. Got type: {type(mesh)}"
            )
        self._mesh = mesh

    def __enter__(self) -> None:
        now = entered.current()
        before, mesh = now.abstract, self._mesh
        if before is not None and not mesh.empty and before.size != mesh.size:
            raise ValueError(
                f"use_abstract_mesh cannot change the size of the mesh. Got new mesh: {mesh} with "
                f"size={mesh.size} and prev mesh: {before} with size={before.size}"
            )
        self._before = before
        entered.replace(now._replace(abstract=None if mesh.empty else mesh))

    def __exit__(self, *exc: object) -> None:
        entered.replace(entered.current()._replace(abstract=self._before))


def get_abstract_mesh() -> AbstractMesh:
    """The abstract mesh in use: that of `set_mesh` or of `use_abstract_mesh`, else an empty one.

    >>> get_abstract_mesh()
    AbstractMesh((), axis_types=())
    """
    mesh = entered.current().abstract
    return EMPTY_ABSTRACT_MESH if mesh is None else mesh


def over_mesh_in_use(spec: PartitionSpec) -> NamedSharding | None:
    """What a bare spec means: a sharding over the mesh in use, or None where there is none.

    Where there are no devices (under `use_abstract_mesh` alone) it is over the abstract mesh.
    """
    mesh = concrete_mesh()
    found = get_abstract_mesh() if mesh.empty else mesh
    return None if found.empty else NamedSharding(found, spec)


def entered_mesh() -> Mesh:
    """The mesh of the innermost block `with mesh:`; an empty one outside of any."""
    meshes = entered.current().entered
    return meshes[-1] if meshes else EMPTY_MESH
