"""Shapes with symbolic dimensions, what is required of these, and choices of them to try."""

from __future__ import annotations

import ast
import operator
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr import tree_util
from xpr.core.aval import ShapedArray
from xpr.core.polynomials import Monomial, evaluate, is_call, text_of, variables
from xpr.core.symbolic import Known, SymbolicDim, greater, lesser, simplified
from xpr.transforms.tracing import ShapeDtypeStruct, abstractify

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    ">=": lambda a, b: a >= b,
    "mod": lambda a, b: a % b == 0,
}
_CONSTRAINT = re.compile(r"(?P<left>[^<>=]+?)\s*(?P<relation>==|>=|<=|>|<)\s*(?P<right>[^<>=]+)\Z")
_MOD = re.compile(r"\s*mod\((?P<left>[^,]+),\s*(?P<by>\d+)\s*\)\s*\Z")
_MAX_NAMES = 3
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": greater,
    "min": lesser,
}


class Constraint(NamedTuple):
    """`left relation right`, as polynomials; `mod` says that `right` divides `left`."""

    left: dict[Monomial, int]
    relation: str
    right: dict[Monomial, int]
    text: str

    def data(self) -> dict[str, Any]:
        """The constraint as JSON."""
        return {
            "left": terms_data(self.left),
            "relation": self.relation,
            "right": terms_data(self.right),
            "text": self.text,
        }


def terms_data(terms: dict[Monomial, int]) -> list[Any]:
    """A polynomial as JSON: `[[factor, [name, ...]], ...]`."""
    return [[factor, list(monomial)] for monomial, factor in terms.items()]


def terms_of(data: Any) -> dict[Monomial, int]:
    """What `terms_data` wrote."""
    return {tuple(names): int(factor) for factor, names in data}


class SymbolicScope:
    """Names of symbolic dimensions that belong together, and what is required of their values.

    Constraints are texts such as `"b >= 8"`, `"a == 2*b"` or `"mod(b, 4) == 0"`. They are checked
    on the host when the exported function is called.

    >>> SymbolicScope(["b >= 8"])
    SymbolicScope(['b >= 8'])
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str):
            raise ValueError(
                f"the constraints of a scope are a sequence of texts, got {constraints_str!r}"
            )
        self.names: list[str] = []
        self.known: tuple[Known, ...] = ()
        self.constraints: list[Constraint] = [self._constraint(t) for t in constraints_str]
        # What they say of polynomials' signs, for comparisons of dimensions.
        self.known = tuple(
            Known(_minus(c.left, c.right), zero=c.relation == "==")
            for c in self.constraints
            if c.relation != "mod"
        )

    def __repr__(self) -> str:
        return f"SymbolicScope({[c.text for c in self.constraints]})"

    def _constraint(self, text: str) -> Constraint:
        match = _CONSTRAINT.match(text.strip())
        if match is None:
            raise ValueError(
                f"a constraint must be of the form 'a == b', 'a >= b', 'a <= b' or "
                f"'mod(a, 4) == 0', got {text!r}"
            )
        divided = _MOD.match(match["left"])
        if divided is not None and match["relation"] == "==" and match["right"].strip() == "0":
            left = self.terms(divided["left"])
            return Constraint(left, "mod", {(): int(divided["by"])}, text)
        left, right = self.terms(match["left"]), self.terms(match["right"])
        relation = match["relation"]
        if relation in ("<=", "<"):
            left, right, relation = right, left, {"<=": ">=", "<": ">"}[relation]
        if relation == "==" and _single(left) is None and _single(right) is not None:
            left, right = right, left
        if relation == ">":
            right, relation = dict(right), ">="
            right[()] = right.get((), 0) + 1
        return Constraint(left, relation, right, text)

    def terms(self, text: str) -> dict[Monomial, int]:
        """A polynomial from its text."""
        found = self.dimension(_parsed(text), text)
        return dict(found.terms) if isinstance(found, SymbolicDim) else {(): found}

    def name(self, name: str) -> SymbolicDim:
        """The symbolic dimension of that name."""
        if name not in self.names:
            self.names.append(name)
            self.names.sort()
        return SymbolicDim({(name,): 1}, self)

    def dimension(self, node: ast.expr, text: str) -> Any:
        """The size that an expression stands for."""
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return self.name(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.dimension(operand, text)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.dimension(left, text), self.dimension(right, text)
                if isinstance(op, ast.Add):
                    return a + b
                if isinstance(op, ast.Sub):
                    return a - b
                if isinstance(op, ast.Mult):
                    return a * b
                if isinstance(op, ast.Pow) and isinstance(b, int) and b >= 0:
                    return a**b
            case ast.Call(func=ast.Name(id=function), args=[left, right], keywords=[]) if (
                function in _FUNCTIONS
            ):
                a, b = self.dimension(left, text), self.dimension(right, text)
                return _FUNCTIONS[function](a, b)
            case _:
                pass
        raise ValueError(
            f"cannot read the size {ast.unparse(node)!r} in {text!r}: expected numbers and names, "
            "joined by +, - and *, powers with ^, and floordiv, mod, max and min of two of these"
        )

    def free_names(self) -> list[str]:
        """The names whose values no equation of the constraints gives."""
        given: set[str] = set()
        for c in self.constraints:
            name = _single(c.left)
            if c.relation == "==" and name is not None and not given & variables(c.right):
                given |= {name} - variables(c.right)
        return [n for n in self.names if n not in given]

    def holds(self, sizes: dict[str, int]) -> bool:
        """Whether these sizes satisfy the constraints."""
        return all(
            _RELATIONS[c.relation](evaluate(c.left, sizes), evaluate(c.right, sizes))
            for c in self.constraints
        )


def _minus(a: dict[Monomial, int], b: dict[Monomial, int]) -> dict[Monomial, int]:
    total = {m: a.get(m, 0) - b.get(m, 0) for m in {**a, **b}}
    return {m: c for m, c in total.items() if c}


def _single(terms: dict[Monomial, int]) -> str | None:
    """The name that a polynomial consists of, if it is one."""
    if len(terms) == 1:
        ((monomial, factor),) = terms.items()
        if factor == 1 and len(monomial) == 1 and not is_call(monomial[0]):
            return monomial[0]
    return None


def _parsed(text: str) -> ast.expr:
    try:
        # Python's own `^` binds less than `+`.
        return ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"cannot read the shape {text!r}: {error.msg}") from None


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """A shape from a text such as `"b, 28, 28"`, in which names are symbolic dimensions.

    Sizes are sums and products of numbers and names, and `floordiv(b, 2)`, `mod(b, 3)`,
    `max(a, b)` and `min(a, b)` of such. `_` takes a size from `like`, and `...` all
    that are not given. `constraints` says what is required of the sizes, see `SymbolicScope`; to
    use the same names in several shapes, give the `scope` of the first: `shape[0].scope`.

    Raises ValueError for a text that cannot be read.

    >>> symbolic_shape("2*b, 28")
    (2*b, 28)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("give the constraints to the scope, not beside it")
    known = None if like is None else tuple(like)
    if shape_spec is None:
        shape_spec = "..."
    text = shape_spec.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    if not text:
        return ()
    tree = _parsed(f"({text},)" if not text.endswith(",") else f"({text})")
    assert isinstance(tree, ast.Tuple)
    nodes = tree.elts
    found: list[Any] = []
    for i, node in enumerate(nodes):
        if isinstance(node, ast.Constant) and node.value is ...:
            if known is None or i != len(nodes) - 1:
                raise ValueError(
                    f"'...' in {shape_spec!r} must come last, and takes the sizes from `like`"
                )
            found += known[i:]
        elif isinstance(node, ast.Name) and node.id == "_":
            if known is None or i >= len(known) or known[i] is None:
                raise ValueError(f"'_' in {shape_spec!r} takes a size from `like`, got {like}")
            found.append(known[i])
        else:
            found.append(scope.dimension(node, shape_spec))
    if known is not None and len(known) != len(found):
        raise ValueError(f"{shape_spec!r} has another rank than `like`, which is {known}")
    return tuple(found)


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """ShapeDtypeStructs like `args` with shapes from texts, all of one scope.

    `shapes_specs` is a tree of texts (see `symbolic_shape`) that is a prefix of the tree `args`;
    None leaves a shape as it is.

    >>> import numpy as np
    >>> symbolic_args_specs((np.ones((2, 3)), np.ones(3)), ("b, ...", None))
    (ShapeDtypeStruct(shape=(b, 3), dtype=float32), ShapeDtypeStruct(shape=(3,), dtype=float32))
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("give the constraints to the scope, not beside it")
    leaves, tree = tree_util.tree_flatten(args)
    texts = tree_util.broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None)
    specs = []
    for leaf, text in zip(leaves, texts, strict=True):
        aval = abstractify(leaf)
        shape = symbolic_shape(text, scope=scope, like=aval.shape)
        specs.append(ShapeDtypeStruct(shape, aval.dtype, weak_type=aval.weak_type))
    return tree_util.tree_unflatten(tree, specs)


def is_symbolic_dim(p: Any) -> bool:
    """Whether `p` is a symbolic dimension.

    >>> is_symbolic_dim(symbolic_shape("b")[0]), is_symbolic_dim(3)
    (True, False)
    """
    return isinstance(p, SymbolicDim)


class SymbolicAval(NamedTuple):
    """The type of an array with symbolic dimensions."""

    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool = False

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def at(self, sizes: dict[str, int]) -> ShapedArray:
        """The type for these sizes."""
        shape = tuple(d.value(sizes) if isinstance(d, SymbolicDim) else d for d in self.shape)
        return ShapedArray(shape, self.dtype, self.weak_type)

    def __str__(self) -> str:
        weak = "~" if self.weak_type else ""
        return f"{weak}{self.dtype.name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.dtype.name}[{','.join(map(str, self.shape))}]{weak})"


def scope_of(avals: Sequence[Any], names: Sequence[str]) -> SymbolicScope | None:
    """The one scope of all symbolic dimensions; ValueError, naming two arguments, if there are
    two."""
    found: tuple[SymbolicScope, str] | None = None
    for aval, name in zip(avals, names, strict=True):
        for d in getattr(aval, "shape", ()):
            if isinstance(d, SymbolicDim):
                if found is None:
                    found = d.scope, name
                elif found[0] is not d.scope:
                    raise ValueError(
                        f"Invalid mixing of symbolic scopes: the shapes of {found[1]} and {name} "
                        "come from different calls of symbolic_shape; give the second one the "
                        "scope of the first"
                    )
    return None if found is None else found[0]


# ---- sizes to try

_TRIES = 20000


def sample_sizes(
    scope: SymbolicScope, count: int, greatest: int, least: int = 2
) -> list[dict[str, int]]:
    """Different choices of the symbolic dimensions that satisfy the constraints, small ones and
    large.

    Always the same ones for the same scope. Raises ValueError if there are not enough.
    """
    names = scope.names
    if len(names) > _MAX_NAMES:
        raise NotImplementedError(
            f"at most {_MAX_NAMES} symbolic dimensions are supported, got {', '.join(names)}"
        )
    rng = random.Random(20240229)
    found: list[dict[str, int]] = []
    for attempt in range(_TRIES):
        # Wider and wider, in case the constraints allow large sizes only.
        top = greatest * (1 + attempt // 2000) ** 2
        sizes = {n: rng.randint(least, top) for n in names}
        for c in scope.constraints:
            # A size that is said to equal something takes its value.
            name = _single(c.left)
            if c.relation == "==" and name is not None:
                sizes[name] = evaluate(c.right, sizes)
        distinct = len(set(sizes.values())) == len(sizes) or attempt > _TRIES // 2
        if min(sizes.values()) >= 1 and distinct and sizes not in found and scope.holds(sizes):
            found.append(sizes)
            if len(found) == count:
                return found
    raise ValueError(
        f"found only {len(found)} of {count} choices of {', '.join(names)} that satisfy "
        f"{[c.text for c in scope.constraints]}: use fewer symbolic dimensions, or require less"
    )


def sizes_in_a_row(
    scope: SymbolicScope, name: str, others: dict[str, int], least: int, count: int
) -> list[dict[str, int]]:
    """The first choices from `least` on that the constraints allow, of which one size is varied.

    Raises ValueError if there are not enough.
    """
    found: list[dict[str, int]] = []
    for value in range(least, least + 4 * count):
        sizes = others | {name: value}
        for c in scope.constraints:
            given = _single(c.left)
            if c.relation == "==" and given is not None and given != name:
                sizes[given] = evaluate(c.right, sizes)
        if min(sizes.values()) >= 1 and scope.holds(sizes):
            found.append(sizes)
            if len(found) == count:
                return found
    raise ValueError(f"found only {len(found)} of {count} choices of {name} in a row")


def ones(scope: SymbolicScope) -> list[dict[str, int]]:
    """The choices of sizes, of those that the constraints allow, in which some are one."""
    names, others = scope.names, sample_sizes(scope, 1, 9)[0]
    wished = [dict.fromkeys(names, 1)]
    if len(names) > 1:
        wished += [others | {n: 1} for n in names]
    return [sizes for sizes in wished if scope.holds(sizes)]


def dim_data(d: Any) -> Any:
    """A size as manifests have it: a number, or a text and a polynomial."""
    if isinstance(d, SymbolicDim):
        return {"text": text_of(d.terms), "terms": terms_data(d.terms)}
    return int(d)


def dim_of(data: Any, scope: SymbolicScope) -> Any:
    """What `dim_data` wrote."""
    return data if isinstance(data, int) else simplified(terms_of(data["terms"]), scope)
