"""From Python functions on pytrees to closed jaxprs: `make_jaxpr` and `eval_shape`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.errors import shown
from xpr.core.events import log_step, span
from xpr.core.extended_array import ExtendedArray
from xpr.core.jaxpr import ClosedJaxpr, DebugInfo
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.physical import is_extended_aval
from xpr.core.references import AbstractRef, Discharged
from xpr.core.symbolic import SymbolicDim
from xpr.core.trace import Trace, get_aval, is_valid_value
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import wraps
from xpr.interpreters.physical import physical_program
from xpr.sharding import PartitionSpec, Sharding
from xpr.sharding.context import over_mesh_in_use
from xpr.sharding.layouts import Format, Layout, concrete_sharding
from xpr.sharding.named import explicit_sharding
from xpr.transforms.signature import argument_names, argument_roles, name_of, source_of


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist; accepted by `eval_shape`, `lower`, `trace`.

    `sharding` says how it is spread over devices; a `PartitionSpec` means the mesh in use. Raises
    TypeError for a spec without a mesh, ValueError for what is no sharding or needs more axes.

    >>> import numpy as np
    >>> ShapeDtypeStruct((2, 3), np.float32)
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    def __init__(
        self, shape: Sequence[Any], dtype: Any, *, sharding: Any = None, weak_type: bool = False
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified")
        # Symbolic dimensions are for xpr.export; nothing else takes them.
        self.shape: tuple[Any, ...] = tuple(
            d if isinstance(d, SymbolicDim) else int(d) for d in shape
        )
        self.dtype = dtypes.canonicalize(dtype, allow_float0=True)
        self.sharding = _checked_sharding(sharding, self.shape)
        self.weak_type = weak_type

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of `x`: an array, a number, or another type; with the sharding of one placed.

        Raises TypeError for what is none of them.

        >>> import numpy as np
        >>> ShapeDtypeStruct.like(np.zeros((2, 3), "int32"))
        ShapeDtypeStruct(shape=(2, 3), dtype=int32)
        """
        aval = abstractify(x)
        # Where an array lies that was not put there says nothing about others of its type.
        extended = isinstance(x, ExtendedArray)
        placed = x.committed if extended else getattr(x, "_committed", True)
        return cls(
            aval.shape,
            aval.dtype,
            sharding=getattr(x, "sharding", aval.sharding) if placed else None,
            weak_type=aval.weak_type,
        )

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """A copy with some of shape, dtype, sharding and weak_type replaced.

        >>> ShapeDtypeStruct((2, 3), "float32").update(shape=(4,))
        ShapeDtypeStruct(shape=(4,), dtype=float32)
        """
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self.sharding,
            "weak_type": self.weak_type,
        }
        return ShapeDtypeStruct(**(fields | changes))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def format(self) -> Format:
        """The layout, which is row-major, and the sharding; without a sharding neither is known."""
        if self.sharding is None:
            return Format(None, None)
        return Format(Layout(tuple(range(self.ndim))), self.sharding)

    @property
    def is_ref(self) -> bool:
        """Whether it is the type of a reference: never."""
        return False

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def _fields(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.weak_type, self.sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        placed = f", sharding={self.sharding}" if self.sharding is not None else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{placed}{weak})"


def _checked_sharding(sharding: Any, shape: tuple[Any, ...]) -> Sharding | None:
    sharding = concrete_sharding(sharding, shape, "a `ShapeDtypeStruct`")
    if isinstance(sharding, PartitionSpec):
        found = over_mesh_in_use(sharding)
        if found is None:
            raise TypeError(
                "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be "
                "empty. Please use `xpr.set_mesh` to set the mesh context."
            )
        sharding = found
    if sharding is None:
        return None
    if not isinstance(sharding, Sharding):
        raise ValueError(
            "sharding should be an instance of `xpr.sharding.Sharding` or "
            f"`xpr.sharding.PartitionSpec`. Got {shown(sharding)} of type {type(sharding)}."
        )
    sharding.check_compatible_aval(shape)
    return sharding


def abstractify(x: Any) -> ShapedArray:
    """The aval of a value, or of anything with a shape and a dtype."""
    if isinstance(x, ShapeDtypeStruct):
        sharding = explicit_sharding(x.sharding, x.ndim)
        return ShapedArray(x.shape, x.dtype, x.weak_type, sharding)
    if isinstance(x, ShapedArray):
        return x
    if not is_valid_value(x) and hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapedArray(
            tuple(x.shape), dtypes.canonicalize(x.dtype), getattr(x, "weak_type", False)
        )
    return get_aval(x)


def argument_aval(
    fun: Callable[..., Any],
    leaves: Sequence[Any],
    index: int,
    in_tree: Any,
    statics: dict[int, Any],
    traced_for: str,
) -> ShapedArray:
    """The aval of one leaf of a function's arguments; TypeError names the argument otherwise."""
    leaf = leaves[index]
    try:
        return get_aval(leaf) if is_valid_value(leaf) else abstractify(leaf)
    except TypeError as error:
        info = debug_info(fun, in_tree, statics, traced_for)
        raise TypeError(
            f"Error interpreting argument to {name_of(fun)} as an abstract array. The problematic "
            f"value is of type {type(leaf)} and was passed to the function at path "
            f"{info.arg_names[index]}: {error}\n"
            "This typically means that a jit-wrapped function was called with a non-array "
            "argument, and this argument was not marked as static using the static_argnums or "
            "static_argnames parameters of jit."
        ) from None


def argument_avals(
    fun: Callable[..., Any],
    leaves: Sequence[Any],
    in_tree: Any,
    statics: dict[int, Any],
    traced_for: str,
) -> list[ShapedArray]:
    """The avals of all leaves of a function's arguments."""
    return [argument_aval(fun, leaves, i, in_tree, statics, traced_for) for i in range(len(leaves))]


def check_callable(
    fun: Any, transform: str, says: str = "Expected a callable value, got {}"
) -> None:
    """Raises TypeError unless `fun` can be called; `says` are the first words."""
    if not callable(fun):
        shown_first = f"{fun}" if isinstance(fun, str) else shown(fun)
        text = says.format(shown_first)
        raise TypeError(f"{text} ({transform}, which was given {shown(fun)} of type {type(fun)})")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {fun} ({transform})")


def check_function(fun: Any, transform: str) -> None:
    """`check_callable`, and TypeError for what a class body holds: decorators in the wrong order.

    What JAX makes a transformation of. Rules of functions may be such objects.
    """
    check_callable(fun, transform)
    if isinstance(fun, staticmethod):
        raise TypeError(
            f"staticmethod arguments are not supported, got {fun} ({transform}): put staticmethod "
            "outside"
        )


FIRST_ARGUMENT = "the first argument must be callable"
"""What JAX says of what is no function where it makes a `functools.partial` of it."""


class TracedProgram:
    """A function traced at certain types: its jaxpr and the tree of its results."""

    __slots__ = (
        "_discharged",
        "_hoisted",
        "_is_physical",
        "_lowered",
        "_needs_mesh",
        "_on_arrays",
        "_physical",
        "closed",
        "in_tree",
        "out_tree",
    )

    def __init__(self, closed: ClosedJaxpr, in_tree: Any, out_tree: Any) -> None:
        self.closed = closed
        self.in_tree = in_tree
        self.out_tree = out_tree
        self._hoisted: tuple[ClosedJaxpr, list[Any]] | None = None
        self._needs_mesh: bool | None = None
        self._physical: TracedProgram | None = None  # None too where it is this one, no cycle
        self._is_physical = False
        self._lowered: Any = None
        self._discharged: Discharged | None = None
        self._on_arrays: TracedProgram | None = None

    @property
    def physical(self) -> TracedProgram:
        """The program without high types and extended dtypes, which can be run; perhaps itself.

        Raises NotImplementedError if arguments or results are of high types.
        """
        if self._is_physical:
            return self
        if self._physical is None:
            closed = self.closed
            if self.lowered is not None:
                closed = self.lowered.alone()
            closed = physical_program(closed)
            if closed is self.closed:
                self._is_physical = True
                return self
            self._physical = TracedProgram(closed, self.in_tree, self.out_tree)
            self._physical._is_physical = True
        return self._physical

    def forms(self) -> list[TracedProgram]:
        """The program and what was made of it so far: its forms on arrays and on numbers."""
        made = [self._physical, self._on_arrays]
        made += [None if self._on_arrays is None else self._on_arrays._physical]
        return [self, *(p for p in made if p is not None)]

    @property
    def lowered(self) -> Any:
        """The program without high types, a `Lowered`; None if it has none."""
        if self._lowered is None:
            self._lowered = False
            if Trace.any_high:
                from xpr.core.high import has_high  # noqa: PLC0415  only for high types
                from xpr.interpreters.high import lowered  # noqa: PLC0415

                if has_high(self.closed.jaxpr):
                    self._lowered = lowered(self.closed)
        return self._lowered or None

    @property
    def takes_high(self) -> bool:
        """Whether arguments or results are of high types, or what the program closes over."""
        return self.lowered is not None and not self.lowered.is_plain

    @property
    def on_arrays(self) -> TracedProgram:
        """The program on the arrays that high arguments and results are made of; perhaps itself.

        If it takes references, that is the one on their values, which also gives the new ones.
        """
        if not self.takes_high and not self.takes_references:
            return self
        if self._on_arrays is None:
            closed = self.discharged.closed if self.takes_references else self.lowered.closed
            in_tree = tree_util.tree_structure((tuple(closed.in_avals), {}))
            out_tree = tree_util.tree_structure(list(closed.out_avals))
            self._on_arrays = TracedProgram(closed, in_tree, out_tree)
        return self._on_arrays

    @property
    def discharged(self) -> Discharged:
        """The program on the values of references, of those first that it closes over."""
        found = self._discharged
        if found is None:
            from xpr.interpreters.references import discharged  # noqa: PLC0415  they are rare

            found = self._discharged = discharged(self.hoisted[0])
        return found

    @property
    def takes_references(self) -> bool:
        """Whether there are references among its arguments or what it closes over."""
        avals = (*self.closed.in_avals, *(v.aval for v in self.closed.jaxpr.constvars))
        return any(isinstance(a, AbstractRef) for a in avals)

    @property
    def takes_elements(self) -> bool:
        """Whether arguments or results have extended dtypes."""
        return any(map(is_extended_aval, (*self.closed.in_avals, *self.closed.out_avals)))

    def needs_mesh(self, look: Callable[[ClosedJaxpr], bool]) -> bool:
        """What `look`, which searches the program for meshes, finds; it is asked once."""
        if self._needs_mesh is None:
            self._needs_mesh = look(self.closed)
        return self._needs_mesh

    @property
    def hoisted(self) -> tuple[ClosedJaxpr, list[Any]]:
        """The program with its constants as inputs in front, always the same one; the constants."""
        if self._hoisted is None:
            self._hoisted = hoist_consts(self.closed)
        return self._hoisted


def trace_function(
    fun: Callable[..., Any],
    in_tree: Any,
    in_avals: Sequence[ShapedArray],
    *,
    static_args: dict[int, Any] | None = None,
    static_kwargs: dict[str, Any] | None = None,
    traced_for: str,
) -> TracedProgram:
    """Traces `fun` on avals of its flattened dynamic arguments.

    `in_tree` is the tree of (args, kwargs) without the static arguments, which are put back at
    the positions and under the names given.
    """
    statics = static_args or {}
    named = static_kwargs or {}
    out_trees: list[Any] = []

    def flat(*leaves: Any) -> Sequence[Any]:
        args, kwargs = tree_util.tree_unflatten(in_tree, leaves)
        if statics:
            args = _interleave(list(args), statics)
        out = fun(*args, **kwargs, **named)
        out_leaves, out_tree = tree_util.tree_flatten(out)
        out_trees.append(out_tree)
        for i, leaf in enumerate(out_leaves):
            if not is_valid_value(leaf):
                raise _invalid_output(fun, out, i, leaf, traced_for)
        return out_leaves

    begin = time.perf_counter()
    with span("trace", name_of(fun), traced_for=traced_for):
        closed = trace_to_jaxpr(flat, in_avals, debug_info(fun, in_tree, statics, traced_for))
    duration = time.perf_counter() - begin
    log_step("Finished tracing %s for %s in %.6f s", name_of(fun), traced_for, duration)
    return TracedProgram(closed, in_tree, out_trees[-1])


def _interleave(dynamic: list[Any], statics: dict[int, Any]) -> list[Any]:
    """The whole argument list: static values at their positions, the others in order between."""
    out: list[Any] = []
    rest = iter(dynamic)
    for i in range(len(dynamic) + len(statics)):
        out.append(statics[i] if i in statics else next(rest))
    return out


def _invalid_output(
    fun: Callable[..., Any], out: Any, index: int, leaf: Any, traced_for: str
) -> TypeError:
    path, _ = tree_util.tree_flatten_with_path(out)[0][index]
    where = tree_util.keystr(path)
    place = f" at output component {where}" if where else ""
    return TypeError(
        f"function {name_of(fun)} at {source_of(fun)} traced for {traced_for} returned a value of "
        f"type {type(leaf)}{place}, which is not a valid JAX type: {shown(leaf)}"
    )


def debug_info(
    fun: Callable[..., Any], in_tree: Any, statics: dict[int, Any], traced_for: str
) -> DebugInfo:
    """Names for messages; worked out only while tracing."""
    dummy = tree_util.tree_unflatten(in_tree, [0] * in_tree.num_leaves)
    paths = [p for p, _ in tree_util.tree_flatten_with_path(dummy)[0]]
    count = len(dummy[0]) + len(statics)
    positions = [i for i in range(count) if i not in statics]
    return DebugInfo(
        func_name=name_of(fun),
        func_src=source_of(fun),
        traced_for=traced_for,
        arg_names=argument_names(fun, paths, tree_util.keystr, positions),
    )


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Iterable[int] = (),
    axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the jaxpr of `fun` at the types of its arguments.

    With `return_shape` it gives a pair: the jaxpr, and the result's tree of ShapeDtypeStructs.

    >>> import xpr
    >>> xpr.make_jaxpr(lambda x: x * 2)(1.0)
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    """
    check_callable(fun, "make_jaxpr", FIRST_ARGUMENT)
    if axis_env:
        raise NotImplementedError("make_jaxpr: axis_env is not supported; name axes with vmap")
    roles = argument_roles(fun, static_argnums, None, None, None)

    @api_boundary
    @wraps(fun)
    def jaxpr_of(*args: Any, **kwargs: Any) -> Any:
        statics = {i: args[i] for i in roles.static_argnums if i < len(args)}
        dynamic = tuple(a for i, a in enumerate(args) if i not in statics)
        leaves, in_tree = tree_util.tree_flatten((dynamic, kwargs))
        program = trace_function(
            fun,
            in_tree,
            argument_avals(fun, leaves, in_tree, statics, "make_jaxpr"),
            static_args=statics,
            traced_for="make_jaxpr",
        )
        if return_shape:
            return program.closed, _structs(program)
        return program.closed

    for attribute in ("__name__", "__qualname__"):
        name = getattr(fun, attribute, name_of(fun))
        setattr(jaxpr_of, attribute, f"make_jaxpr({name})")
    return jaxpr_of


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of `fun(*args, **kwargs)` without computing it.

    Arguments may be arrays or anything with a shape and a dtype; the result has the tree of the
    function's result with ShapeDtypeStructs as leaves. The function may return some itself.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.eval_shape(lambda x: x @ x.T, xpr.ShapeDtypeStruct((2, 3), jnp.float32))
    ShapeDtypeStruct(shape=(2, 2), dtype=float32)
    """
    if isinstance(fun, Hashable):
        check_function(fun, "eval_shape")
    check_callable(fun, "eval_shape", FIRST_ARGUMENT)
    leaves, in_tree = tree_util.tree_flatten((args, kwargs))
    given: dict[int, ShapeDtypeStruct] = {}

    @wraps(fun)
    def values_only(*args: Any, **kwargs: Any) -> Any:
        results, tree = tree_util.tree_flatten(fun(*args, **kwargs))
        given.update((i, x) for i, x in enumerate(results) if isinstance(x, ShapeDtypeStruct))
        values = [0 if i in given else x for i, x in enumerate(results)]
        return tree_util.tree_unflatten(tree, values)

    avals = argument_avals(fun, leaves, in_tree, {}, "eval_shape")
    program = trace_function(values_only, in_tree, avals, traced_for="eval_shape")
    result = _structs(program, given)
    asked = getattr(fun, "_with_asked_shardings", None)  # of a jitted function
    return result if asked is None else asked(result)


def _structs(program: TracedProgram, given: Mapping[int, ShapeDtypeStruct] | None = None) -> Any:
    leaves = [
        a
        if a.is_high
        else ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding, weak_type=a.weak_type)
        for a in program.closed.out_avals
    ]
    for i, struct in (given or {}).items():
        leaves[i] = struct
    return tree_util.tree_unflatten(program.out_tree, leaves)
