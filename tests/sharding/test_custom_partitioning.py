"""`custom_partitioning`: what devices compute, by whose rules, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr import numpy as jnp
from xpr.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P
from xpr.sharding.rule import FactorRule
from xpr.sharding.user_rule import factor_rule, parsed

MESH = Mesh(np.array(xpr.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
LINE = Mesh(xpr.devices("cpu")[:8], ("x",))
A = np.random.default_rng(0).normal(size=(8, 8)).astype("f4")


def on(x: Any, *spec: Any, mesh: Mesh = MESH) -> Any:
    return xpr.device_put(x, NamedSharding(mesh, P(*spec)))


def shardings(tree: Any) -> Any:
    return xpr.tree.map(lambda s: s.sharding, tree)


def echo(function: Callable[..., Any], seen: list[Any] | None = None) -> Callable[..., Any]:
    """A partition function that takes shardings as they are, and notes them."""

    def partition(mesh: Any, arg_shapes: Any, result_shape: Any) -> Any:
        if seen is not None:
            seen.append([s.spec for s in xpr.tree.leaves(shardings((arg_shapes, result_shape)))])
        return mesh, function, shardings(result_shape), shardings(arg_shapes)

    return partition


def made(function: Callable[..., Any], rule: Any, seen: list[Any], **options: Any) -> Any:
    found = custom_partitioning(function)
    found.def_partition(echo(function, seen), sharding_rule=rule, **options)
    return found


# ---- the example of JAX's documentation


def _supported(sharding: Any, shape: Any) -> NamedSharding:
    """Sharded as before, but for the last axis."""
    rank = len(shape.shape)
    kept = min(len(sharding.spec), rank - 1)
    return NamedSharding(sharding.mesh, P(*sharding.spec[:kept], *[None] * (rank - kept)))


def _fft_partition(mesh: Any, arg_shapes: Any, result_shape: Any) -> Any:
    del result_shape
    own = _supported(arg_shapes[0].sharding, arg_shapes[0])
    return mesh, jnp.fft.fft, own, (own,)


def _fft_infer(mesh: Any, arg_shapes: Any, result_shape: Any) -> Any:
    del mesh, result_shape
    return _supported(arg_shapes[0].sharding, arg_shapes[0])


@pytest.mark.parametrize(
    "rule",
    ["...i -> ...i", SdyShardingRule(((BATCHING, "i"),), ((BATCHING, "i"),)), None],
    ids=["string", "object", "inferred"],
)
def test_a_batched_transform_moves_no_batches(rule: Any) -> None:
    @custom_partitioning
    def my_fft(x: Any) -> Any:
        return jnp.fft.fft(x)

    my_fft.def_partition(
        infer_sharding_from_operands=_fft_infer, partition=_fft_partition, sharding_rule=rule
    )
    place = NamedSharding(LINE, P("x"))
    mine = xpr.jit(my_fft, in_shardings=place, out_shardings=place)
    x = (A + 1j * A[::-1]).astype("c8")
    assert str(mine.lower(x).communication()) == "no communication"
    found = mine(x)
    np.testing.assert_allclose(found, np.fft.fft(x), rtol=1e-5, atol=1e-5)
    assert found.sharding == place
    # Of one axis nothing can be kept: it is gathered before, and cut afterwards.
    row = x[0]
    assert "all_gather" in str(mine.lower(row).communication())
    np.testing.assert_allclose(mine(row), np.fft.fft(row), rtol=1e-5, atol=1e-5)


# ---- propagation by the rule


def test_shardings_follow_the_rule_both_ways() -> None:
    seen: list[Any] = []

    def split(x: Any) -> Any:
        return x.reshape(-1, 2, x.shape[1])

    product = made(lambda a, b: a @ b, "i k, k j -> i j", seen, reduction_factors=("k",))
    double = made(lambda x: x * 2, "i j -> i j", seen)
    kept = made(lambda x: x * 3, "i j -> i j", seen, need_replication_factors=("j",))
    halves = made(split, "(i k) j -> i k j", seen)
    permuted = made(
        lambda x: x * 4, lambda *_: ("i j -> i j", {"permutation_factors": ("i",)}), seen
    )

    def f(x: Any, y: Any, z: Any) -> Any:
        return product(double(x), y), kept(y), halves(x), permuted(z)

    x, y, z = on(A, "x"), on(A, None, "y"), jnp.asarray(A)
    here = NamedSharding(MESH, P("x", "y"))
    out = xpr.jit(f, out_shardings=(None, None, None, here))(x, y, z)
    rows, columns = P("x", None), P(None, "y")
    assert seen == [
        [rows, rows],
        [rows, columns, P("x", "y")],
        [columns, columns],
        [rows, P("x", None, None)],
        [P("x", "y"), P("x", "y")],  # from the result that the caller wants
    ]
    np.testing.assert_allclose(out[0], A * 2 @ A, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out[1], A * 3)
    np.testing.assert_allclose(out[2], A.reshape(4, 2, 8))
    np.testing.assert_allclose(out[3], A * 4)
    assert [o.sharding.spec for o in out] == [P("x", "y"), columns, P("x"), P("x", "y")]


def test_what_users_want_of_results() -> None:
    wanted: list[Any] = []

    def propagate_user_sharding(mesh: Any, user_shape: Any) -> Any:
        wanted.append(user_shape.sharding.spec)
        return NamedSharding(mesh, P("y"))

    double = custom_partitioning(lambda x: x * 2)

    def partition(mesh: Any, arg_shapes: Any, result_shape: Any) -> Any:
        return mesh, double.fun, result_shape.sharding, (result_shape.sharding,)

    double.def_partition(partition, propagate_user_sharding=propagate_user_sharding)
    found = xpr.jit(double, out_shardings=NamedSharding(MESH, P(None, "x")))(on(A, "x"))
    assert wanted == [P(None, "x")]
    np.testing.assert_allclose(found, A * 2)


# ---- what devices compute


def test_collectives_over_the_axes_of_the_mesh() -> None:
    @custom_partitioning
    def norm(x: Any) -> Any:
        return (x * x).sum(1), x.max()

    def partition(mesh: Any, arg_shapes: Any, result_shape: Any) -> Any:
        def lower_fn(x: Any) -> Any:
            assert x.shape == (2, 4)
            ranks = lax.axis_index("x") * 2 + lax.axis_index("y")
            biggest = lax.pmax(x.max() + 0 * ranks, ("x", "y"))
            return lax.psum((x * x).sum(1), "y"), biggest

        rows = NamedSharding(mesh, P("x"))
        return mesh, lower_fn, (rows, NamedSharding(mesh, P())), (NamedSharding(mesh, P("x", "y")),)

    norm.def_partition(partition, sharding_rule="i j -> i, ", reduction_factors=("j",))
    # Arguments are moved to where the function wants them.
    for spec in (P("x", "y"), P("y", "x")):
        rows, biggest = xpr.jit(norm)(on(A, *spec))
        np.testing.assert_allclose(rows, (A * A).sum(1), rtol=1e-5)
        np.testing.assert_allclose(biggest, A.max())
        assert rows.sharding.spec == P(spec[0])
    # Outside of jit, and on one device, it computes what it says.
    np.testing.assert_allclose(norm(on(A, "x"))[0], (A * A).sum(1), rtol=1e-5)
    np.testing.assert_allclose(xpr.jit(norm)(A)[0], (A * A).sum(1), rtol=1e-5)


def test_trees_static_and_keyword_arguments() -> None:
    @lambda f: custom_partitioning(f, static_argnums=(1,))
    def scaled(tree: Any, factor: int, other: Any = 1.0) -> Any:
        return {"out": tree["a"] * factor + other}

    seen: list[Any] = []

    def partition(factor: int, mesh: Any, arg_shapes: Any, result_shape: Any) -> Any:
        seen.append((factor, [s.shape for s in xpr.tree.leaves(arg_shapes)]))
        place = result_shape["out"].sharding

        def lower_fn(tree: Any, other: Any) -> Any:
            return {"out": tree["a"] * factor + other}

        return mesh, lower_fn, {"out": place}, ({"a": place}, NamedSharding(mesh, P()))

    scaled.def_partition(partition, sharding_rule="i j, -> i j")
    x = on(A, "x", "y")
    found = xpr.jit(lambda x: (scaled({"a": x}, 3), scaled({"a": x}, other=2.0, factor=4)))(x)
    np.testing.assert_allclose(found[0]["out"], A * 3 + 1, rtol=1e-6)
    np.testing.assert_allclose(found[1]["out"], A * 4 + 2, rtol=1e-6)
    assert seen == [(3, [(8, 8), ()]), (4, [(8, 8), ()])]
    with pytest.raises(xpr.errors.UnexpectedTracerError, match=r"scaled in a position .* static"):
        xpr.jit(lambda x: scaled({"a": x}, x))(x)
    text = str(xpr.make_jaxpr(lambda x: scaled({"a": x}, 3))(x))
    assert "custom_partitioning[" in text
    assert "static_args=(3,)" in text


def test_inside_other_programs() -> None:
    seen: list[Any] = []
    double = made(lambda x: x * 2, "i j -> i j", seen)

    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (double(c), None), x, None, length=3)[0]

    whole = xpr.shard_map(double, mesh=MESH, in_specs=P("x", "y"), out_specs=P("x", "y"))
    some = xpr.shard_map(double, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})

    @xpr.custom_vjp
    def with_derivative(x: Any) -> Any:
        return double(x)

    with_derivative.defvjp(lambda x: (double(x), None), lambda _, ct: (double(ct),))

    def f(x: Any) -> Any:
        return loop(x), whole(x), some(x), xpr.grad(lambda y: (with_derivative(y) * y).sum())(x)

    found = xpr.jit(f)(on(A, "x", "y"))
    for have, want in zip(found, (A * 8, A * 2, A * 2, A * 4), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6)
    both = P("x", "y")
    # Along manual axes parts are what is there; shown is how they are sharded along the others.
    assert seen[0] == [both, both]
    assert [P(None, "y"), P(None, "y")] in seen
    assert len(seen) == 4


# ---- errors


def test_partition_functions_that_are_wrong() -> None:
    x = on(A, "x", "y")

    def run(partition: Any, **options: Any) -> Any:
        double = custom_partitioning(lambda x: x * 2)
        given: dict[str, Any] = {"sharding_rule": "i j -> i j"} | options
        double.def_partition(partition, **given)
        return xpr.jit(double)(x)

    def giving(*, function: Any = lambda x: x, out: Any = None, into: Any = None) -> Any:
        return lambda mesh, a, r: (mesh, function, out or r.sharding, (into or a[0].sharding,))

    with pytest.raises(ValueError, match=r"f32\[1,4\]\], the result .* want \[f32\[2,4\]\]"):
        run(giving(function=lambda x: x[:1]))
    with pytest.raises(ValueError, match=r"must return Sharding\. The partition .* gave 3"):
        run(giving(out=3))
    with pytest.raises(ValueError, match=r"must return Sharding.* infer_sharding_from_operands"):
        run(giving(), sharding_rule=None, infer_sharding_from_operands=lambda m, a, r: 3)
    with pytest.raises(ValueError, match=r"the mesh of the program, whose axes are .* got Named"):
        run(giving(into=NamedSharding(LINE, P("x"))))
    with pytest.raises(ValueError, match=r"a mesh whose axes are those of the program's, .* got"):
        run(lambda m, a, r: (LINE, jnp.abs, r.sharding, (a[0].sharding,)))
    with pytest.raises(TypeError, match=r"must return \(mesh, function, result shardings"):
        run(lambda *_: 3)
    with pytest.raises(TypeError, match="the function that partition returned gives"):
        run(giving(function=lambda x: (x, x)))
    with pytest.raises(ValueError, match="must produce either an SdyShardingRule object or an"):
        run(giving(), sharding_rule=lambda *_: 3)
    with pytest.raises(ValueError, match="has rank 3, but the operation 0th operand has rank 2"):
        run(giving(), sharding_rule="i j k -> i j")


def test_functions_that_are_wrong() -> None:
    double = custom_partitioning(lambda x: x * 2)
    with pytest.raises(AttributeError, match="No partition defined for custom_partitioning"):
        double(A)
    double.def_partition(echo(double.fun), sharding_rule="i -> i")
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'custom_partitioning'"):
        xpr.grad(lambda x: double(x).sum())(A[0])
    with pytest.raises(NotImplementedError, match="Batching rule for 'custom_partitioning'"):
        xpr.vmap(double)(A)
    with pytest.raises(ValueError, match=r"Unknown keyword arguments: {'i': 3}"):
        double.def_partition(echo(double.fun), i=3)

    def closing(x: Any) -> Any:
        inner = custom_partitioning(lambda y: y + x)
        inner.def_partition(echo(inner.fun), sharding_rule="i -> i")
        return inner(x)

    with pytest.raises(xpr.errors.UnexpectedTracerError, match="closes over a value that is being"):
        xpr.jit(closing)(A[0])
    keyword = custom_partitioning(lambda *, x: x)
    keyword.def_partition(echo(keyword.fun))
    with pytest.raises(TypeError, match="keyword arguments could not be resolved to positions"):
        keyword(x=A)


# ---- the notation


def test_rules_as_strings() -> None:
    assert str(parsed("...1 i, ... (j k) -> ...1 i", j=2, k=3)) == (
        "SdyShardingRule((('…1', 'i'), ('…0', ('j', 'k'))), (('…1', 'i'),), {'j': 2, 'k': 3})"
    )
    rule = parsed("->")
    assert (rule.operand_mappings, rule.result_mappings) == ((ArrayMapping(),), (ArrayMapping(),))
    named = parsed("i j k_1 -> i k_1", reduction_factors=("j",), permutation_factors=("i",))
    assert str(named).endswith("{} reduction_factors=('j',) permutation_factors=('i',))")


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        ("i j", {}, "There is no -> in rule: 'i j'"),
        ("i -> j -> k", {}, "There is no -> in rule"),
        ("i (j k -> k", {}, "Brackets are not balanced in rule"),
        ("i j) -> k", {}, "Brackets are not balanced"),
        ("(i) -> i", {}, "Brackets should contain at least two factors"),
        ("((i j) k) -> i", {}, "nested brackets are not allowed"),
        ("1i -> i", {}, "Factor names have to start with a letter, but got '1'"),
        ("i $ -> i", {}, r"Unknown character '\$'"),
        ("… i -> i", {}, "Unknown character '…'"),
        ("i .. -> i", {}, r"Character '\.' must be used inside ellipsis"),
        ("i ... -> i", {}, "Ellipsis can only be used at the beginning"),
        ("(... i) -> i", {}, "Ellipsis can only be used at the beginning"),
        ("(i j) -> i", {}, "Factor j is only used in compound factors; must specify"),
        ("i -> i", {"i": 3}, "Factor i represents a whole dimension"),
        ("i -> i", {"j": 3}, "Factor j is not used in the rule, but size"),
        ("i -> i", {"reduction_factors": ("j",)}, "Factor j in reduction_factors is not used"),
        ("i -> i", {"reduction_factors": ("i", "i")}, "contains duplicated factors"),
        ("i -> i", {"reduction_factors": "i"}, "reduction_factors must be a tuple of factors"),
        (
            "i -> i",
            {"reduction_factors": ("i",), "permutation_factors": ("i",)},
            "Factor i can only be in one of the",
        ),
    ],
)
def test_rules_that_are_not_well_formed(rule: str, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parsed(rule, **options)


def test_mappings_that_are_not_well_formed() -> None:
    with pytest.raises(TypeError, match="rule must be a str, but got <class 'int'>"):
        parsed(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="factor_sizes must be a dict of str to int"):
        parsed("(i j) -> i j", i=2.0)
    with pytest.raises(ValueError, match="should contain at least two factors"):
        CompoundFactor("i")
    with pytest.raises(ValueError, match="Each element of CompoundFactor must be a str"):
        CompoundFactor("i", 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="Ellipsis can't be used in a compound factor"):
        CompoundFactor("i", BATCHING)
    with pytest.raises(ValueError, match="Each element of ArrayMapping must be a str or Compound"):
        ArrayMapping(1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="Ellipsis can only be used at the beginning"):
        ArrayMapping("i", BATCHING)


def test_rules_for_shapes() -> None:
    rule = parsed("... i k, ... (k j) -> ... i (k j)", j=2)
    assert factor_rule(rule, [(5, 3, 4), (5, 8)], [(5, 3, 8)]) == FactorRule(
        (5, 3, 4, 2), (((0,), (1,), (2,)), ((0,), (2, 3))), (((0,), (1,), (2, 3)),)
    )
    # Of different sizes a factor has the smallest.
    assert factor_rule(parsed("i, i -> i"), [(4,), (8,)], [(8,)]).sizes == (4,)
    for text, operands, message in (
        ("i, j -> i", [(3,)], "Sharding rule has 2 operands, but the operation has 1 operands"),
        ("i -> i, j", [(3,)], "Sharding rule has 2 results, but the operation has 1 results"),
        ("... i, ... j -> ... i", [(3, 3), (3,)], "different number of leading dimensions 1 and 0"),
        ("... i, ... j -> i", [(3, 3), (4, 3)], "0_0 corresponds to two sizes: 3 and 4"),
        ("i -> i j", [(3,)], "0th result has rank 2, but the operation 0th result has rank 1"),
    ):
        with pytest.raises(ValueError, match=message):
            factor_rule(parsed(text), operands, [(3,)])
    with pytest.raises(ValueError, match="0th operand actual size 7 doesn't match the size 6"):
        factor_rule(parsed("(i j) -> i", j=2), [(7,)], [(3,)])
