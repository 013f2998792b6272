"""`shard_map` as a program: its jaxpr, the types in its body, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr import numpy as jnp
from xpr.core.check import check_jaxpr
from xpr.core.jaxpr import dce_jaxpr
from xpr.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, get_abstract_mesh
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
A = jnp.arange(32.0).reshape(8, 4)


def over(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
    return xpr.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)


def body_of(f: Any, *args: Any) -> Any:
    """The jaxpr inside the first shard_map of a program."""
    closed = xpr.make_jaxpr(f)(*args)
    check_jaxpr(closed)
    return next(e for e in closed.eqns if e.primitive.name == "shard_map").params["jaxpr"].jaxpr


def names(jaxpr: Any) -> list[str]:
    return [e.primitive.name for e in jaxpr.eqns]


def test_the_jaxpr_reads_as_that_of_jax() -> None:
    f = over(lambda a, b: lax.psum(jnp.sin(a) + b, "x"), (P("x"), P()), P())
    assert str(xpr.make_jaxpr(f)(A, A[:2])) == (
        """{ lambda ; a:f32[8,4] b:f32[2,4]. let
    c:f32[2,4] = shard_map[
      check_vma=True
      in_specs=(P('x',), P())
      jaxpr={ lambda ; d:f32[2,4]{V:x} e:f32[2,4]. let
          f:f32[2,4]{V:x} = sin d
          g:f32[2,4]{V:x} = pvary[axes=('x',)] e
          h:f32[2,4]{V:x} = add f g
          i:f32[2,4] = psum_invariant[axes=('x',)] h
        in (i,) }
      mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
      newly_manual_axes=frozenset({'x', 'y'})
      out_specs=(P(),)
    ] a b
  in (c,) }"""
    )


def test_types_inside_the_body() -> None:
    seen: list[Any] = []

    def f(a: Any, b: Any) -> Any:
        seen.append((get_abstract_mesh(), xpr.typeof(a), xpr.typeof(b), lax.axis_size("x")))
        return a * 2 + b

    xpr.make_jaxpr(over(f, (P(("x", "y")), P(None, None)), P(("x", "y"))))(A, A[:1])
    mesh, a, b, size = seen.pop()
    assert str(a) == "float32[1,4]{V:(x,y)}"
    assert a.vma == a.mat.varying == {"x", "y"}
    assert b.vma == frozenset()
    assert (mesh.manual_axes, size) == (("x", "y"), 4)
    xpr.make_jaxpr(over(f, (P("x"), P()), P("x"), check_vma=False, axis_names={"x"}))(A, A[:1])
    xpr.make_jaxpr(over(f, (P("x"), P()), P("x")))(A, A[:1])
    unchecked, checked = seen
    assert str(unchecked[1]) == "float32[2,4]"
    assert unchecked[0].manual_axes == ("x",)
    assert str(checked[1]) == "float32[2,4]{V:x}"
    assert get_abstract_mesh().empty


def test_arguments_results_and_closures_of_any_structure() -> None:
    c = jnp.ones(4)

    def f(tree: Any, label: str, nothing: None) -> Any:
        assert label == "label"
        return {"a": tree["a"] + c, "b": (tree["b"][0], nothing)}

    mapped = over(
        f, ({"a": P("x"), "b": P(None, "y")}, None, None), {"a": P("x"), "b": P(None, "y")}
    )
    closed = xpr.make_jaxpr(lambda t: mapped(t, "label", None))({"a": A, "b": [A]})
    (eqn,) = closed.eqns
    # What the function closes over is an operand that all devices share.
    assert eqn.params["in_specs"] == (P(), P("x"), P(None, "y"))
    assert [str(v.aval) for v in eqn.outvars] == ["float32[8,4]", "float32[8,4]"]

    def outer(v: Any) -> Any:
        return over(lambda a: a * v, P("x"), P("x"))(A)

    closed = xpr.make_jaxpr(xpr.jit(outer))(2.0)
    (eqn,) = closed.eqns[0].params["jaxpr"].eqns
    assert eqn.params["in_specs"] == (P(), P("x"))
    assert xpr.make_jaxpr(over(lambda: lax.axis_index("x")[None], (), P("x")))().out_avals == [
        xpr.typeof(jnp.zeros(4, "int32"))
    ]


def test_the_mesh_in_use_a_decorator_and_nesting() -> None:
    found: list[Any] = []

    @xpr.shard_map(in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    def f(a: Any) -> Any:
        @xpr.shard_map(in_specs=P(None, "y"), out_specs=P(None, "y"))
        def g(b: Any) -> Any:
            found.append((get_abstract_mesh().manual_axes, str(xpr.typeof(b))))
            return b + lax.psum(b, "x")

        return g(a)

    with xpr.set_mesh(MESH):
        closed = xpr.make_jaxpr(f)(A)
    assert found == [(("x", "y"), "float32[2,2]{V:(x,y)}")]
    inner = closed.eqns[0].params["jaxpr"].eqns[0]
    assert inner.primitive.name == "shard_map"
    assert inner.params["manual_axes"] == {"y"}
    assert str(inner.outvars[0].aval) == "float32[2,4]{V:x}"
    assert str(closed.out_avals[0]) == "float32[8,4]"
    with pytest.raises(ValueError, match="context mesh cannot be empty"):
        f(A)


def test_explicit_meshes_say_how_arguments_are_cut() -> None:
    mesh = Mesh(MESH.devices, ("x", "y"), (AxisType.Explicit,) * 2)
    s = NamedSharding(mesh.abstract_mesh, P("x", "y"))
    a = xpr.ShapeDtypeStruct((8, 4), jnp.float32, sharding=s)
    seen: list[str] = []

    def f(b: Any) -> Any:
        seen.append(str(xpr.typeof(b)))
        return b

    closed = xpr.make_jaxpr(xpr.shard_map(f, mesh=mesh, out_specs=P("x", "y")))(a)
    assert closed.eqns[0].params["in_specs"] == (P("x", "y"),)
    assert str(closed.out_avals[0]) == "float32[8@x,4@y]"
    part = xpr.shard_map(f, mesh=mesh, out_specs=P("x"), axis_names={"x"})
    assert str(xpr.make_jaxpr(part)(a).out_avals[0]) == "float32[8@x,4@y]"
    assert seen == ["float32[2,2]{V:(x,y)}", "float32[2,4@y]{V:x}"]
    with pytest.raises(ValueError, match=r"P\('y',\) does not match the specs of the input"):
        xpr.make_jaxpr(xpr.shard_map(f, mesh=mesh, in_specs=P("y"), out_specs=P()))(a)
    with pytest.raises(TypeError, match="axes are not all Explicit"):
        xpr.shard_map(f, mesh=MESH, out_specs=P())(A)


# ---- along which axes values vary


@pytest.mark.parametrize(
    ("f", "vma"),
    [
        (lambda a: a * 2.0 + jnp.ones(4), {"x"}),
        (lambda a: lax.psum(a, "x"), set()),
        (lambda a: lax.psum(a, "y"), {"x"}),
        (lambda a: lax.pmax(a, ("x", "y")), set()),
        (lambda a: lax.pmean(a, "x"), set()),
        (lambda a: lax.all_gather(a, "x"), {"x"}),
        (lambda a: lax.all_gather(a, "x", to="invarying"), set()),
        (lambda a: lax.psum_scatter(a[0], "y", tiled=True), {"x", "y"}),
        (lambda a: lax.all_to_all(a, "y", 0, 0), {"x", "y"}),
        (lambda a: lax.ppermute(a, "x", [(0, 1)]), {"x"}),
        (lambda a: lax.axis_index("y"), {"y"}),
        (lambda a: lax.pcast(a, "y", to="varying"), {"x", "y"}),
        (lambda a: jnp.where(lax.axis_index("y") > 0, a, 0.0), {"x", "y"}),
        (lambda a: jnp.zeros(3), set()),
        (lambda a: xpr.jit(jnp.sin)(a), {"x"}),
        (lambda a: lax.scan(lambda c, r: (c + 1, c * r), 0.0, a)[0], set()),
        (lambda a: lax.scan(lambda c, r: (c + 1, c * r), 0.0, a)[1], {"x"}),
        (lambda a: lax.cond(lax.axis_index("y") > 0, jnp.sin, jnp.cos, a), {"x", "y"}),
        (lambda a: lax.while_loop(lambda v: v < a[0, 0], lambda v: v + 1, 0.0), {"x"}),
        (lambda a: lax.sort((a, jnp.zeros_like(a)))[1], {"x"}),
        (lambda a: xpr.checkpoint(jnp.sin)(a), {"x"}),
        (lambda a: xpr.vmap(lambda r: lax.psum(r, "i"), axis_name="i")(a), {"x"}),
        (lambda a: xpr.vmap(lambda r: lax.psum(r, ("i", "x")), axis_name="i")(a), set()),
        (lambda a: jnp.linalg.cholesky(a.T @ a), {"x"}),
    ],
)  # fmt: skip
def test_along_which_axes_results_vary(f: Any, vma: set[str]) -> None:
    found: list[Any] = []

    def body(a: Any) -> Any:
        found.append(xpr.typeof(f(a)).vma)
        return a

    xpr.make_jaxpr(over(body, P("x"), P("x")))(A)
    assert found == [vma]


def test_gradients_of_what_devices_share_are_summed_inside() -> None:
    """The transpose of what makes a value vary is the sum, wherever the gradient is taken."""

    def inside(a: Any) -> Any:
        return xpr.grad(lambda w: (w + a).sum())(jnp.ones(()))

    assert names(body_of(over(inside, P("x"), P()), A))[-1] == "psum_invariant"

    def outside(w: Any) -> Any:
        return over(lambda a, w: a * w, (P("x"), P()), P("x"))(A, w).sum()

    backward = xpr.make_jaxpr(xpr.grad(outside))(2.0)
    check_jaxpr(backward)
    (*_, last) = [e for e in backward.eqns if e.primitive.name == "shard_map"]
    assert "psum_invariant" in names(last.params["jaxpr"].jaxpr)
    assert last.params["out_specs"] == (P(),)


def test_residuals_are_cut_over_the_axes_along_which_they_vary() -> None:
    f = over(
        lambda a: jnp.sin(jnp.sum(a) + jnp.sum(lax.psum(jnp.sin(a), "x")))[None], P("x"), P("x")
    )
    closed = xpr.make_jaxpr(lambda a: xpr.vjp(f, a)[1](jnp.ones(4)))(A)
    check_jaxpr(closed)
    first, second = [e for e in closed.eqns if e.primitive.name == "shard_map"]
    assert P("x") in first.params["out_specs"]
    # A residual of rank 0 gets an axis to be cut along.
    assert all(v.aval.ndim == 1 or v.aval.shape == (8, 4) for v in first.outvars)
    assert second.params["out_specs"] == (P("x"),)
    g = over(lambda a: jnp.sin(jnp.sum(a))[None], P("x"), P("x"), check_vma=False)
    closed = xpr.make_jaxpr(xpr.grad(lambda a: g(a).sum()))(A)
    check_jaxpr(closed)
    assert closed.eqns[0].params["out_specs"] == (P(("x", "y")),)


def test_batches_and_unused_results() -> None:
    f = over(
        lambda a, b: (jnp.sin(a) + b, jnp.cos(b)),
        (P("x"), P(None, "y")),
        (P("x", "y"), P(None, "y")),
    )
    closed = xpr.make_jaxpr(xpr.vmap(f, in_axes=(0, 2)))(jnp.ones((3, 8, 2)), jnp.ones((2, 4, 3)))
    (eqn,) = [e for e in closed.eqns if e.primitive.name == "shard_map"]
    assert eqn.params["in_specs"] == (P(None, "x"), P(None, "y", None))
    # What nobody reads is not computed.
    one = xpr.make_jaxpr(lambda a, b: f(a, b)[1])(A[:, :2], A[:2])
    smaller, used = dce_jaxpr(one.jaxpr)
    assert used == [False, True]
    assert names(smaller.eqns[0].params["jaxpr"].jaxpr) == ["cos"]
    spmd = xpr.vmap(over(lambda a: jnp.sin(a), P("x"), P("x")), spmd_axis_name="y")
    (eqn,) = xpr.make_jaxpr(spmd)(jnp.ones((6, 8))).eqns
    assert eqn.params["in_specs"] == eqn.params["out_specs"] == (P("y", "x"),)
    assert str(eqn.params["jaxpr"].in_avals[0]) == "float32[3,2]{V:(x,y)}"


# ---- what is refused


def _psum_of_some(a: Any) -> Any:
    return lax.psum(a, ("x", "y"))


def _scan_that_starts_the_same(a: Any) -> Any:
    return lax.scan(lambda c, r: (c + r, r), jnp.zeros(4), a)[0]


@pytest.mark.parametrize(
    ("f", "args", "specs", "error", "text"),
    [
        (lambda a: a, (A,), (P("x"), P()), ValueError, "vary along {'x'}"),
        (lambda a: a, (A,), (P("x", None, "y"), P()), ValueError, "length 3.*rank 2"),
        (lambda a: a.sum(), (A,), (P("x"), P("x")), ValueError, "rank 0.*size 1, along"),
        (lambda a, b: a, (A, A[:6]), ((P("x"), P(("x", "y"))), P()), ValueError,
         r"args\[1\] of shape float32\[6,4\].*parameter 'b'.*in_specs\[1\].*axis 0 \(of size 6\).*"
         r"\('x', 'y'\) \(of total size 8\)"),
        (lambda a: a, (A,), (P("z"), P()), ValueError, "in_specs refers to 'z'"),
        (lambda a: a, (A,), (P("x"), P("z")), ValueError, "out_specs refers to 'z'"),
        (lambda a: a, (A,), (P("x", "x"), P()), ValueError, "more than once"),
        (lambda a: a, (A,), ((P(), P()), P()), ValueError, "different lengths of tuple.*in_specs"),
        (lambda a: (a, a), (A,), (P(), (P(),)), ValueError, "lengths of tuple.*out_specs"),
        (lambda a: a, (A,), (3, P()), TypeError, "in_specs is 3 of type int"),
        (lambda a: a, (A,), (P(), None), ValueError, "out_specs must be a tree prefix"),
        (_psum_of_some, (A,), (P("x"), P()), ValueError, r"along \['x'\] and not along \['y'\]"),
        (_scan_that_starts_the_same, (A,), (P("x"), P("x")), TypeError,
         r"manual axis types do not match.*pcast\(..., \('x',\), to='varying'\)"),
        (lambda a: lax.pcast(a, "x", to="varying"), (A,), (P("x"), P("x")), ValueError,
         "is varying along"),
        (lambda a: lax.psum(a, "x", axis_index_groups=[[0, 1], [2, 3]]), (A,), (P("x"), P("x")),
         NotImplementedError, "check_vma=False"),
        (lambda a: lax.all_gather(a, "x", axis_index_groups=[[0, 1], [2]]), (A,), (P("x"), P("x")),
         ValueError, "cover all indices exactly once"),
        (lambda a: lax.all_gather(a, "x", axis_index_groups=[[0, 1, 2], [3]]), (A,),
         (P("x"), P("x")), ValueError, "groups of one size"),
    ],
)  # fmt: skip
def test_what_is_refused(f: Any, args: Any, specs: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"(?s){text}"):
        xpr.make_jaxpr(over(f, *specs))(*args)


def test_bad_meshes_and_functions() -> None:
    with pytest.raises(TypeError, match="requires a callable"):
        over(3, P(), P())
    with pytest.raises(TypeError, match="but got 3 of type"):
        xpr.shard_map(jnp.sin, mesh=3, in_specs=P(), out_specs=P())(A)  # pyright: ignore
    with pytest.raises(ValueError, match="to be a subset of"):
        over(jnp.sin, P(), P(), axis_names={"z"})(A)
    with pytest.raises(TypeError, match="`frozenset` or `set`"):
        over(jnp.sin, P(), P(), axis_names=["x"])(A)
    other = Mesh(MESH.devices, ("x", "z"))
    with (
        xpr.set_mesh(MESH),
        pytest.raises(ValueError, match="should match the mesh passed to shard_map"),
    ):
        xpr.shard_map(jnp.sin, mesh=other, in_specs=P(), out_specs=P())(A)
    with pytest.raises(ValueError, match="non-empty mesh"):
        xpr.shard_map(jnp.sin, mesh=AbstractMesh((), ()), in_specs=P(), out_specs=P())(A)
    with pytest.raises(ValueError, match=r"reduced axes of the result.*f32\[8,4\]\{R:x\}"):
        xpr.make_jaxpr(over(lambda a: lax.pcast(a, "x", to="reduced"), P(), P()))(A)


def test_a_rule_that_does_not_sum_what_devices_share_is_refused() -> None:
    @xpr.custom_vjp
    def scaled(a: Any, w: Any) -> Any:
        return a * w

    def good(res: Any, ct: Any) -> Any:
        return ct * res[1], lax.psum((ct * res[0]).sum(), "x")

    def bad(res: Any, ct: Any) -> Any:
        return ct * res[1], (ct * res[0]).sum()

    def total(w: Any) -> Any:
        return over(lambda a, w: scaled(a, w), (P("x"), P()), P("x"))(A, w).sum()

    scaled.defvjp(lambda a, w: (a * w, (a, w)), good)
    assert xpr.make_jaxpr(xpr.grad(total))(2.0).out_avals[0].shape == ()
    scaled.defvjp(lambda a, w: (a * w, (a, w)), bad)
    with pytest.raises(ValueError, match=r"output\[1\].*manual axis types do not match"):
        xpr.make_jaxpr(xpr.grad(total))(2.0)
