"""`jvp`, `linearize`, `vjp`, `grad`: values, structures, composition, and what bad input gets."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.dtypes import float0
from xpr.core.errors import UnexpectedTracerError


def close(found, expected, rtol=1e-5):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol, atol=1e-6)


# ---- values and structures


def test_grad_of_a_product() -> None:
    close(xpr.grad(lambda x, y: x * jnp.sin(y))(2.0, 0.5), np.sin(0.5))
    both = xpr.grad(lambda x, y: x * jnp.sin(y), argnums=(0, 1))(2.0, 0.5)
    assert isinstance(both, tuple)
    close(both[1], 2 * np.cos(0.5))
    close(xpr.grad(lambda x, y: x * jnp.sin(y), argnums=-1)(2.0, 0.5), 2 * np.cos(0.5))
    (only,) = xpr.grad(lambda x: x * x, argnums=[0])(3.0)
    close(only, 6.0)


def test_grad_of_a_tree_has_its_structure() -> None:
    params = {"w": jnp.array([[1.0, 2.0], [3.0, 4.0]]), "b": (jnp.ones(2), None)}
    x = jnp.array([0.5, -1.0])
    found = xpr.grad(lambda p: jnp.sum((x @ p["w"] + p["b"][0]) ** 2))(params)
    residual = np.array([0.5, -1.0]) @ np.array([[1.0, 2.0], [3.0, 4.0]]) + 1
    close(found["w"], 2 * np.outer([0.5, -1.0], residual))
    close(found["b"][0], 2 * residual)
    assert found["b"][1] is None


def test_value_and_grad_with_aux_and_keywords() -> None:
    def f(x, *, scale):
        return scale * x**2, {"x": x, "note": 7}

    (value, aux), gradient = xpr.value_and_grad(f, has_aux=True)(3.0, scale=2.0)
    close(value, 18.0)
    close(gradient, 12.0)
    close(aux["x"], 3.0)
    assert aux["note"] == 7
    gradient, aux = xpr.grad(f, has_aux=True)(3.0, scale=2.0)
    close(gradient, 12.0)
    close(aux["x"], 3.0)


def test_jvp_and_linearize_and_vjp_agree() -> None:
    def f(x, y):
        return {"a": jnp.sin(x) * y, "b": jnp.sum(x)}

    x, y = jnp.array([0.1, 0.2]), jnp.array(3.0)
    dx, dy = jnp.array([1.0, -2.0]), jnp.array(0.5)
    out, moved = xpr.jvp(f, (x, y), (dx, dy))
    close(out["a"], np.sin([0.1, 0.2]) * 3)
    expected = np.cos([0.1, 0.2]) * 3 * np.array([1, -2]) + np.sin([0.1, 0.2]) * 0.5
    close(moved["a"], expected)
    close(moved["b"], -1.0)
    out, derivative = xpr.linearize(f, x, y)
    close(derivative(dx, dy)["a"], expected)
    out, pull = xpr.vjp(f, x, y)
    ct_x, ct_y = pull({"a": jnp.array([1.0, 1.0]), "b": jnp.array(2.0)})
    close(ct_x, np.cos([0.1, 0.2]) * 3 + 2)
    close(ct_y, np.sin([0.1, 0.2]).sum())
    out, pull, aux = xpr.vjp(lambda x: (x * 2, "aux"), 1.0, has_aux=True)
    assert aux == "aux"
    close(pull(1.0)[0], 2.0)


def test_linear_transpose() -> None:
    matrix = jnp.arange(6.0).reshape(2, 3)
    pull = xpr.linear_transpose(lambda x: matrix @ x, xpr.ShapeDtypeStruct((3,), jnp.float32))
    close(pull(jnp.array([1.0, 2.0]))[0], np.arange(6.0).reshape(2, 3).T @ [1.0, 2.0])
    with pytest.raises(NotImplementedError, match=r"Transpose rule .* for 'sin' not implemented"):
        xpr.linear_transpose(jnp.sin, 1.0)(1.0)


def test_integer_inputs_and_outputs() -> None:
    _, pull = xpr.vjp(lambda x, n: x * n, 2.0, 3)
    ct_x, ct_n = pull(1.0)
    close(ct_x, 3.0)
    assert ct_n.dtype == float0
    assert ct_n.shape == ()
    found = xpr.grad(lambda n, x: x * n, allow_int=True)(3, 2.0)
    assert found.dtype == float0
    _, moved = xpr.jvp(lambda x, n: (x * n, n + 1), (2.0, 3), (1.0, np.zeros((), float0)))
    close(moved[0], 3.0)
    assert moved[1].dtype == float0


def test_integers_under_vmap_and_in_jacobians() -> None:
    def f(n):
        return n * 2.0

    each = xpr.vmap(xpr.grad(f, allow_int=True))(jnp.arange(3))
    assert (each.dtype, each.shape) == (float0, (3,))
    for found, shape in (
        (xpr.jacrev(f, allow_int=True)(3), ()),
        (xpr.jacrev(f, allow_int=True)(jnp.arange(3)), (3, 3)),
        (xpr.jacfwd(jnp.argmax)(jnp.ones(3)), (3,)),
    ):
        assert (found.dtype, found.shape) == (float0, shape)


def test_tangents_of_constant_results_are_arrays() -> None:
    for found in (
        xpr.jvp(lambda x: 1.0, (2.0,), (1.0,))[1],
        xpr.linearize(lambda x: 1.0, 2.0)[1](1.0),
        xpr.linearize(lambda x: jnp.float32(1.0), 2.0)[1](1.0),
    ):
        assert isinstance(found, xpr.Array)
        assert float(found) == 0.0


def test_complex_conventions() -> None:
    """Holomorphic derivatives; for real results the gradient is df/dx - i df/dy, as in JAX."""
    z = 1.0 + 2.0j
    close(xpr.grad(lambda z: z * z, holomorphic=True)(z), 2 * z)
    close(xpr.grad(lambda z: jnp.real(z * jnp.conj(z)))(z), 2 * np.conj(z))
    with pytest.raises(TypeError, match="real-valued outputs"):
        xpr.grad(lambda z: z * z)(z)
    with pytest.raises(TypeError, match="inputs with complex dtype"):
        xpr.grad(lambda z: z * z, holomorphic=True)(1.0)


def test_weak_types_are_kept() -> None:
    assert xpr.grad(lambda x: x**2 * 3.0)(2.0).weak_type
    assert not xpr.grad(lambda x: x**2 * 3.0)(jnp.float32(2.0)).weak_type
    assert xpr.grad(lambda x: x**2 * 3.0)(jnp.bfloat16(2.0)).dtype == jnp.bfloat16


def test_python_control_flow_on_values() -> None:
    def f(x):
        return x**2 if x > 1 else -x

    close(xpr.grad(f)(3.0), 6.0)
    close(xpr.grad(f)(0.5), -1.0)
    close(xpr.grad(lambda x: x * int(x) + float(x) * x)(2.0), 4.0)


def test_masked_nan_branches() -> None:
    """`where` keeps a NaN out of the value, and the two-where idiom out of the gradient."""

    def f(x):
        safe = jnp.where(x > 0, x, 1.0)
        return jnp.where(x > 0, jnp.log(safe), 0.0)

    assert float(xpr.grad(f)(-1.0)) == 0.0
    assert np.isnan(float(xpr.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(-1.0)))


# ---- composition


def test_higher_orders() -> None:
    f = jnp.sin
    for n in range(5):
        close(f(0.7), np.sin(0.7 + n * np.pi / 2), rtol=1e-4)
        f = xpr.grad(f)
    close(xpr.jvp(xpr.grad(lambda x: x**4), (2.0,), (1.0,))[1], 48.0)
    close(xpr.grad(lambda x: xpr.jvp(lambda y: y**4, (x,), (1.0,))[1])(2.0), 48.0)


def test_hessian_vector_product_by_composition() -> None:
    def f(x):
        return jnp.sum(x**3) * x[0]

    x, v = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 0.0, -1.0])
    full = np.asarray(xpr.hessian(f)(x)) @ np.asarray(v)
    close(xpr.jvp(xpr.grad(f), (x,), (v,))[1], full)
    close(xpr.grad(lambda x: jnp.vdot(xpr.grad(f)(x), v))(x), full)


def test_grad_and_vmap_and_jit_in_any_order() -> None:
    def f(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    rng = np.random.default_rng(0)
    w, xs = rng.standard_normal((3, 2)).astype("f4"), rng.standard_normal((5, 3)).astype("f4")
    t = np.tanh(xs @ w)
    each = np.einsum("bi,bj->bij", xs, 2 * t * (1 - t**2))
    per_example = xpr.vmap(xpr.grad(f), in_axes=(None, 0))
    close(per_example(w, xs), each)
    close(xpr.jit(per_example)(w, xs), each)
    close(xpr.vmap(xpr.jit(xpr.grad(f)), in_axes=(None, 0))(w, xs), each)

    def total(w):
        return jnp.sum(xpr.vmap(f, in_axes=(None, 0))(w, xs))

    for g in (xpr.grad(total), xpr.jit(xpr.grad(total)), xpr.grad(xpr.jit(total))):
        close(g(w), each.sum(0))
    close(xpr.jit(xpr.grad(xpr.jit(xpr.jit(total))))(w), each.sum(0))


def test_grad_of_grad_of_jit() -> None:
    f = xpr.jit(lambda x: jnp.sin(x) * x**2)
    second = xpr.grad(xpr.grad(f))(0.5)
    x = 0.5
    close(second, 2 * np.sin(x) + 4 * x * np.cos(x) - x**2 * np.sin(x))


def test_thirty_levels_of_nesting() -> None:
    def f(x):
        return x * 2.0

    for _ in range(30):
        f = xpr.vmap(f)
    assert np.asarray(f(jnp.ones((1,) * 30))).item() == 2.0

    def g(x):
        return jnp.sin(x)

    for level in range(30):
        g = xpr.jit(g) if level % 2 else xpr.checkpoint(g)
    close(xpr.grad(g)(0.3), np.cos(0.3))

    def h(x):
        return 3.0 * x

    for _ in range(30):
        h = (lambda inner: lambda x: xpr.jvp(inner, (x,), (1.0,))[1] * x)(h)
    close(h(1.0), 3.0)


def test_closures_over_other_levels() -> None:
    def f(x):
        return xpr.grad(lambda y: x * y * y)(x)

    close(f(3.0), 18.0)
    close(xpr.grad(f)(3.0), 12.0)
    close(xpr.jit(xpr.grad(f))(3.0), 12.0)
    close(xpr.vmap(xpr.grad(f))(jnp.array([1.0, 3.0])), [4.0, 12.0])


def test_perturbations_are_not_confused() -> None:
    """Siskind and Pearlmutter's example: d/dx (x d/dy (x + y)) = 1."""
    close(xpr.grad(lambda x: x * xpr.grad(lambda y: x + y)(2.0))(1.0), 1.0)
    f = lambda x: x * xpr.jvp(lambda y: x + y, (2.0,), (1.0,))[1]  # noqa: E731
    close(xpr.jvp(f, (1.0,), (1.0,))[1], 1.0)


# ---- the program of a gradient


def _equations(fun, *args):
    return [e.primitive.name for e in xpr.make_jaxpr(fun)(*args).eqns]


def test_no_unused_equations_and_no_products_with_zero() -> None:
    assert _equations(xpr.grad(jnp.sin), 1.0) == ["cos", "mul"]
    assert _equations(xpr.grad(lambda x, y: x * y), 1.0, 2.0) == ["mul"]
    # y is not differentiated: nothing is computed for it.
    assert _equations(xpr.grad(lambda x, y: jnp.exp(y) * x), 1.0, 2.0) == ["exp", "mul"]
    # What does not depend on x has no tangent at all.
    assert "cos" not in _equations(xpr.grad(lambda x, y: x + jnp.sin(y)), 1.0, 2.0)


GOLDEN = {
    "sin": (
        jnp.sin,
        (1.0,),
        "{ lambda ; a:f32[]. let b:f32[] = cos a; c:f32[] = mul 1.0:f32[] b in (c,) }",
    ),
    "sum of squares": (
        lambda x: jnp.sum(x * x),
        (np.ones(3, "f4"),),
        """{ lambda ; a:f32[3]. let
    b:f32[3] = broadcast_in_dim 1.0:f32[]
    c:f32[3] = mul a b
    d:f32[3] = mul b a
    e:f32[3] = add_any c d
  in (e,) }""",
    ),
    "linear regression": (
        lambda w: jnp.sum((w @ np.ones((3, 2), "f4")) * 2.0),
        (np.ones((4, 3), "f4"),),
        """{ lambda a:f32[3,2]; b:f32[4,3]. let
    c:f32[4,2] = broadcast_in_dim 1.0:f32[]
    d:f32[4,2] = mul c 2.0:f32[]
    e:f32[4,3] = dot_general[
      dimension_numbers=(([1], [1]), ([], []))
      preferred_element_type=float32
    ] d a
  in (e,) }""",
    ),
    "jit": (
        xpr.jit(lambda x: jnp.sum(jnp.sin(x) * x)),
        (np.ones(3, "f4"),),
        """{ lambda ; a:f32[3]. let
    b:f32[3] c:f32[3] = jit[
      name=<lambda>
      jaxpr={ lambda ; a:f32[3]. let
          c:f32[3] = sin a
          b:f32[3] = cos a
        in (b, c) }
    ] a
    d:f32[3] = jit[
      name=<lambda>
      jaxpr={ lambda ; b:f32[3] a:f32[3] c:f32[3] e:f32[]. let
          f:f32[3] = broadcast_in_dim e
          g:f32[3] = mul c f
          h:f32[3] = mul f a
          i:f32[3] = mul h b
          d:f32[3] = add_any g i
        in (d,) }
    ] b a c 1.0:f32[]
  in (d,) }""",
    ),
    "checkpoint": (
        xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x))),
        (1.0,),
        """{ lambda ; a:f32[]. let
    b:f32[] = remat2[
      differentiated=True
      jaxpr={ lambda ; c:f32[] d:f32[]. let
          e:f32[] = sin c
          f:f32[] = cos c
          g:f32[] = cos e
          h:f32[] = mul d g
          i:f32[] = mul h f
        in (i,) }
      policy=None
      prevent_cse=True
    ] a 1.0:f32[]
  in (b,) }""",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_jaxprs_of_gradients(name: str) -> None:
    f, args, text = GOLDEN[name]
    jaxpr = xpr.make_jaxpr(xpr.grad(f))(*args)
    assert str(jaxpr) == text


# ---- bad input


def test_errors_of_grad() -> None:
    with pytest.raises(TypeError, match=r"scalar-output functions. Output had shape: \(3,\)"):
        xpr.grad(lambda x: x)(jnp.ones(3))
    with pytest.raises(TypeError, match=r"scalar-output functions. Output was"):
        xpr.grad(lambda x: (x, x))(1.0)
    with pytest.raises(TypeError, match=r"inputs .* but got int32"):
        xpr.grad(lambda x: x * 2)(3)
    with pytest.raises(TypeError, match=r"real-valued outputs .* but got int32"):
        xpr.grad(lambda x: 1)(1.0)
    with pytest.raises(TypeError, match=r"argnums=2 requires at least 3 .* got only 1"):
        xpr.grad(lambda x: x, argnums=2)(1.0)
    with pytest.raises(TypeError, match="argnums must be"):
        xpr.grad(lambda x: x, argnums="x")
    with pytest.raises(TypeError, match="not a valid JAX type"):
        xpr.grad(lambda x: 1.0)("text")
    with pytest.raises(TypeError, match="two-element tuple"):
        xpr.grad(lambda x: x, has_aux=True)(1.0)
    with pytest.raises(TypeError, match="Expected a callable value"):
        xpr.grad(3)


def test_errors_of_jvp_and_vjp() -> None:
    with pytest.raises(TypeError, match="must be tuples or lists"):
        xpr.jvp(jnp.sin, 1.0, 1.0)
    with pytest.raises(TypeError, match="same tree structure"):
        xpr.jvp(jnp.sin, (1.0,), (1.0, 2.0))
    with pytest.raises(TypeError, match=r"primal dtype float32 .* got tangent dtype int32"):
        xpr.jvp(jnp.sin, (1.0,), (1,))
    with pytest.raises(ValueError, match=r"primal shape \(\) and tangent shape as \(2,\)"):
        xpr.jvp(jnp.sin, (1.0,), (jnp.ones(2),))
    _, pull = xpr.vjp(jnp.sin, 1.0)
    with pytest.raises(ValueError, match="unexpected tree structure"):
        pull((1.0, 2.0))
    with pytest.raises(ValueError, match=r"got float32\[2\], but expected float32\[\]"):
        pull(jnp.ones(2))
    _, derivative = xpr.linearize(jnp.sin, 1.0)
    with pytest.raises(ValueError, match="inconsistent with the original primal"):
        derivative(jnp.ones(2))
    transposed = xpr.linear_transpose(lambda x: 2 * x, 1.0)
    with pytest.raises(TypeError, match="cotangent tree does not match function output"):
        transposed((1.0, 2.0))
    with pytest.raises(TypeError, match=r"expected ~?float32\[\] but got float32\[2\]"):
        transposed(jnp.ones(2))


def test_what_cannot_be_differentiated_names_the_line() -> None:
    def f(x):
        return jnp.nextafter(x, 2.0)

    with pytest.raises(NotImplementedError, match="'nextafter' not implemented") as caught:
        xpr.grad(f)(1.0)
    assert "test_derivatives.py" in "".join(caught.value.__notes__)


def test_a_leaked_tracer_is_reported() -> None:
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return x

    xpr.grad(f)(1.0)
    with pytest.raises(UnexpectedTracerError, match="escape"):
        jnp.sin(kept[0])


# ---- Jacobians


def test_jacobians() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((3, 2)).astype("f4")
    x = rng.standard_normal(2).astype("f4")

    def f(x):
        return jnp.tanh(a @ x)

    expected = (1 - np.tanh(a @ x) ** 2)[:, None] * a
    for jacobian in (xpr.jacfwd, xpr.jacrev, xpr.jacobian):
        close(jacobian(f)(x), expected)
        close(xpr.jit(jacobian(f))(x), expected)
    close(xpr.jacfwd(xpr.jacrev(lambda x: jnp.sum(x**3)))(x), np.diag(6 * x))
    close(xpr.jacrev(xpr.jacfwd(lambda x: jnp.sum(x**3)))(x), np.diag(6 * x))


def test_jacobians_of_trees() -> None:
    def f(p, y):
        return {"u": p["a"] * y, "v": jnp.sum(p["b"])}

    p = {"a": jnp.array(2.0), "b": jnp.ones((2, 2))}
    for jacobian in (xpr.jacfwd, xpr.jacrev):
        found = jacobian(f, argnums=(0, 1))(p, jnp.array([3.0, 4.0]))
        close(found["u"][0]["a"], [3.0, 4.0])
        close(found["u"][0]["b"], np.zeros((2, 2, 2)))
        close(found["u"][1], 2 * np.eye(2))
        close(found["v"][0]["b"], np.ones((2, 2)))
    value, aux = xpr.jacrev(lambda x: (x**2, x), has_aux=True)(jnp.array([1.0, 2.0]))
    close(value, np.diag([2.0, 4.0]))
    close(aux, [1.0, 2.0])
    value, aux = xpr.jacfwd(lambda x: (x**2, x), has_aux=True)(jnp.array([1.0, 2.0]))
    close(value, np.diag([2.0, 4.0]))
    close(aux, [1.0, 2.0])


def test_errors_of_jacobians() -> None:
    with pytest.raises(TypeError, match="jacfwd requires real-valued inputs"):
        xpr.jacfwd(lambda x: x)(1j)
    with pytest.raises(TypeError, match="jacrev requires real-valued outputs"):
        xpr.jacrev(lambda x: x * 1j)(1.0)
    close(xpr.jacfwd(lambda z: z * z, holomorphic=True)(1j), 2j)


# ---- derivatives as values


def test_pullbacks_leave_and_enter_compiled_functions() -> None:
    value, pull = xpr.jit(lambda x: xpr.vjp(lambda y: jnp.sin(y) * y, x))(0.5)
    close(value, np.sin(0.5) * 0.5)
    slope = np.cos(0.5) * 0.5 + np.sin(0.5)
    close(pull(2.0)[0], 2 * slope)
    close(xpr.jit(lambda f, ct: f(ct)[0])(pull, 3.0), 3 * slope)
    assert all(x.shape == () for x in xpr.tree.leaves(pull))
    _, push = xpr.jit(lambda x: xpr.linearize(jnp.sin, x))(0.5)
    close(push(2.0), 2 * np.cos(0.5))


def test_tangents_of_integers_leave_compiled_functions() -> None:
    found = xpr.jit(xpr.grad(lambda n: n * 2.0, allow_int=True))(3)
    assert found.dtype == float0
    _, pull = xpr.vjp(lambda x, n: x * n, 2.0, 3)
    ct_x, ct_n = xpr.jit(pull)(1.0)
    close(ct_x, 3.0)
    assert ct_n.dtype == float0
    assert ct_n.shape == ()


def test_the_halves_of_reverse_mode() -> None:
    for jitted in (True, False):
        fwd, bwd = xpr.fwd_and_bwd(lambda x, y: jnp.sin(x) * y, argnums=0, jitted=jitted)
        value, pull = fwd(0.5, 2.0)
        close(value, np.sin(0.5) * 2)
        close(bwd(pull, 3.0), 3 * 2 * np.cos(0.5))
