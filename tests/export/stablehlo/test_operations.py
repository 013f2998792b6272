"""Operations that no test program has, against NumPy: text, regions, sizes, quantized types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.jaxpr import eval_closed
from xpr.export import StableHLOError, from_stablehlo
from xpr.export.stablehlo.rules import all_rules

F = np.float32


def _run(text: str, *args: Any) -> Any:
    """The results of a program, by the reference rules."""
    exported = from_stablehlo(text)
    avals = [xpr.typeof(jnp.asarray(a)) for a in args]
    sizes = exported.program.sizes(exported.input_names(), avals)
    found = [np.asarray(x) for x in eval_closed(exported.program.at(sizes), args)]
    return found[0] if len(found) == 1 else found


def _body(text: str, types: str, result: str) -> str:
    return f"func.func @main({types}) -> {result} {{\n{text}\n}}"


def test_any_comparator_sorts_stably() -> None:
    """By the absolute value, descending, then by the second operand: no order of keys alone."""
    x = np.array([3, -3, 1, -5, 5, 0], np.int32)
    y = np.arange(6, dtype=np.int32)
    text = _body(
        """
  %r:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
      %p = stablehlo.abs %a : tensor<i32>
      %q = stablehlo.abs %b : tensor<i32>
      %g = stablehlo.compare GT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %n = stablehlo.not %g : tensor<i1>
      %m = stablehlo.not %n : tensor<i1>
      stablehlo.return %m : tensor<i1>
  }) : (tensor<6xi32>, tensor<6xi32>) -> (tensor<6xi32>, tensor<6xi32>)
  return %r#0, %r#1 : tensor<6xi32>, tensor<6xi32>""",
        "%x: tensor<6xi32>, %y: tensor<6xi32>",
        "(tensor<6xi32>, tensor<6xi32>)",
    )
    keys, places = _run(text, x, y)
    order = np.argsort(-np.abs(x), kind="stable")
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(keys, x[order])


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("kind", ["FLOAT", "TOTALORDER"])
def test_sorts_of_floats(direction: str, kind: str) -> None:
    values = [2.0, -1.0, 0.5, -7.0]
    if kind == "TOTALORDER":
        values += [-0.0, 0.0, np.inf, np.nan, -np.inf]
    x = np.array(values, F)
    text = _body(
        f"""
  %r = "stablehlo.sort"(%x) <{{dimension = 0 : i64}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %p = stablehlo.compare {direction}, %a, %b, {kind} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
  }}) : (tensor<{len(x)}xf32>) -> tensor<{len(x)}xf32>
  return %r : tensor<{len(x)}xf32>""",
        f"%x: tensor<{len(x)}xf32>",
        f"tensor<{len(x)}xf32>",
    )
    bits = x.view(np.int32)
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    order = np.argsort(keys, kind="stable")
    expected = x[order if direction == "LT" else order[::-1]]
    assert _run(text, x).tobytes() == expected.tobytes()


_SCATTER = """
  %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
{body}
  }}) : (tensor<4xf32>, tensor<5x1xi32>, tensor<5xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>"""


@pytest.mark.parametrize(
    ("body", "combine"),
    [
        ("%c = stablehlo.subtract %b, %a : tensor<f32>", lambda a, b: b - a),
        ("%d = stablehlo.multiply %a, %b : tensor<f32>\n%c = stablehlo.tanh %d : tensor<f32>",
         lambda a, b: np.tanh(a * b)),
        ("%c = stablehlo.negate %a : tensor<f32>", lambda a, b: -a),
        ("%c = stablehlo.add %b, %a : tensor<f32>", lambda a, b: a + b),
    ],
    ids=["reversed", "two", "ignored", "named"],
)  # fmt: skip
def test_scatters_with_any_body(body: str, combine: Any) -> None:
    """Updates that meet are applied in turn; those outside are dropped."""
    x, u = np.array([1, 2, 3, 4], F), np.array([5, 6, 7, 8, 9], F)
    i = np.array([[2], [0], [2], [4], [-1]], np.int32)
    text = _SCATTER.format(body=f"{body}\nstablehlo.return %c : tensor<f32>")
    types = "%x: tensor<4xf32>, %i: tensor<5x1xi32>, %u: tensor<5xf32>"
    expected = x.copy()
    for place, update in zip(i[:, 0], u, strict=True):
        if 0 <= place < 4:
            expected[place] = combine(expected[place], update)
    np.testing.assert_allclose(_run(_body(text, types, "tensor<4xf32>"), x, i, u), expected, 1e-6)


def test_select_and_scatter_with_any_bodies() -> None:
    """The least in magnitude of each window takes the greater of what is there and the source."""
    x = np.array([[4, -1, 3], [2, 5, -6]], F)
    source = np.array([[10, -20]], F)
    text = _body(
        """
  %z = stablehlo.constant dense<-5.0> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 2, 2>,
      window_strides = array<i64: 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %p = stablehlo.abs %a : tensor<f32>
      %q = stablehlo.abs %b : tensor<f32>
      %c = stablehlo.compare LE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<1x2xf32>, tensor<f32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>""",
        "%x: tensor<2x3xf32>, %s: tensor<1x2xf32>",
        "tensor<2x3xf32>",
    )
    expected = np.full((2, 3), -5, F)
    expected[0, 1] = 10  # both windows select it, and 10 is greater than -20
    np.testing.assert_array_equal(_run(text, x, source), expected)


def test_branches_outside_take_the_last_one() -> None:
    text = _body(
        """
  %r = "stablehlo.case"(%i) ({
      %c = stablehlo.constant dense<10> : tensor<i32>
      stablehlo.return %c : tensor<i32>
  }, {
      %c = stablehlo.add %i, %i : tensor<i32>
      stablehlo.return %c : tensor<i32>
  }, {
      %c = stablehlo.constant dense<30> : tensor<i32>
      stablehlo.return %c : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>""",
        "%i: tensor<i32>",
        "tensor<i32>",
    )
    for index, expected in ((0, 10), (1, 2), (2, 30), (3, 30), (-1, 30)):
        assert _run(text, np.int32(index)) == expected


def test_tokens_and_tuples() -> None:
    text = _body(
        """
  %t = stablehlo.create_token : !stablehlo.token
  %u = stablehlo.after_all %t, %t : !stablehlo.token
  %p = stablehlo.tuple %x, %x : tuple<tensor<2xf32>, tensor<2xf32>>
  %q = stablehlo.get_tuple_element %p[1] : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %w:2 = stablehlo.while(%a = %q, %b = %u) : tensor<2xf32>, !stablehlo.token cond {
    %s = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [0]
      : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    %h = stablehlo.constant dense<100.0> : tensor<f32>
    %c = stablehlo.compare LT, %m, %h : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.add %a, %a : tensor<2xf32>
    stablehlo.return %d, %b : tensor<2xf32>, !stablehlo.token
  }
  return %w#0 : tensor<2xf32>""",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
    )
    np.testing.assert_array_equal(_run(text, np.array([1, 2], F)), [64, 128])


def test_counted_loops_have_reverse_derivatives() -> None:
    text = _body(
        """
  %z = stablehlo.constant dense<0> : tensor<i32>
  %w:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, tensor<f32> cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %o = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %o : tensor<i32>
    %d = stablehlo.multiply %a, %a : tensor<f32>
    stablehlo.return %j, %d : tensor<i32>, tensor<f32>
  }
  return %w#1 : tensor<f32>""",
        "%x: tensor<f32>",
        "tensor<f32>",
    )
    exported = from_stablehlo(text)
    np.testing.assert_allclose(exported.call(F(1.5)), 1.5**8, 1e-6)
    np.testing.assert_allclose(xpr.grad(exported.call)(F(1.5)), 8 * 1.5**7, 1e-5)


def test_open_sizes_are_those_of_the_arguments() -> None:
    text = _body(
        """
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %one = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %i = stablehlo.dynamic_iota %one, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %c = stablehlo.constant dense<3> : tensor<1xi32>
  %s = stablehlo.concatenate %one, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %b = stablehlo.dynamic_broadcast_in_dim %i, %s, dims = [0]
    : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  %r = stablehlo.multiply %b, %x : tensor<?x3xf32>
  return %r : tensor<?x3xf32>""",
        "%x: tensor<?x3xf32>",
        "tensor<?x3xf32>",
    )
    exported = from_stablehlo(text)
    for rows in (1, 2, 5):
        x = np.ones((rows, 3), F)
        np.testing.assert_array_equal(_run(text, x), x * np.arange(rows, dtype=F)[:, None])
    x = np.ones((4, 3), F)
    grads = xpr.grad(lambda x: exported.call(x).sum())(x)
    np.testing.assert_array_equal(grads, np.arange(4, dtype=F)[:, None] * x)
    with pytest.raises(ValueError, match="leaves sizes open without names"):
        exported.serialize()
    types = xpr.ShapeDtypeStruct(xpr.export.symbolic_shape("b, 3"), F)
    named = xpr.export.export(xpr.jit(exported.call))(types)
    again = xpr.export.deserialize(named.serialize())
    np.testing.assert_array_equal(again.call(x), grads)


def test_quantized_types_by_their_arithmetic() -> None:
    """Real values are sums of dequantized ones, rounded to even and clamped."""
    kind = "!quant.uniform<i8:f32, 0.5:-3>"
    text = _body(
        f"""
  %a = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x{kind}>
  %b = stablehlo.add %a, %a : tensor<4x{kind}>
  %r = stablehlo.uniform_dequantize %b : (tensor<4x{kind}>) -> tensor<4xf32>
  return %r : tensor<4xf32>""",
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
    )
    x = np.array([1.0, 0.74, -3.0, 60.0], F)
    stored = np.clip(np.rint(x / 0.5) - 3, -128, 127)
    real = (stored + 3) * 0.5
    again = np.clip(np.rint(2 * real / 0.5) - 3, -128, 127)
    np.testing.assert_array_equal(_run(text, x), (again + 3) * 0.5)


def test_quantized_products_along_an_axis() -> None:
    kind = "!quant.uniform<i8:f32:0, {0.5:1, 0.25:-2}>"
    text = _body(
        f"""
  %r = stablehlo.uniform_dequantize %q : (tensor<2x2x{kind}>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>""",
        f"%q: tensor<2x2x{kind}>",
        "tensor<2x2xf32>",
    )
    q = np.array([[4, -4], [6, 0]], np.int8)
    expected = (q.astype(F) - np.array([[1], [-2]], F)) * np.array([[0.5], [0.25]], F)
    np.testing.assert_array_equal(_run(text, q), expected)


def test_shape_assertions_are_checked() -> None:
    text = _body(
        """
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %c = stablehlo.constant dense<2> : tensor<i32>
  %m = stablehlo.remainder %n, %c : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %ok = stablehlo.compare EQ, %m, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%ok, %n) {has_side_effect = true,
      error_message = "the size {0} is odd"} : (tensor<i1>, tensor<i32>) -> ()
  return %x : tensor<?xf32>""",
        "%x: tensor<?xf32>",
        "tensor<?xf32>",
    )
    np.testing.assert_array_equal(_run(text, np.ones(4, F)), np.ones(4))
    with pytest.raises(StableHLOError, match="the size 3 is odd"):
        _run(text, np.ones(3, F))


def test_composites_fall_back_on_their_decomposition() -> None:
    text = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = stablehlo.composite "my.double" %x {decomposition = @double}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
func.func private @double(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = stablehlo.add %x, %x : tensor<2xf32>
  return %r : tensor<2xf32>
}"""
    np.testing.assert_array_equal(_run(text, np.array([1, 2], F)), [2, 4])


def test_entries_by_name() -> None:
    text = """
func.func @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
func.func @g(%x: tensor<f32>) -> tensor<f32> {
  %y = stablehlo.negate %x : tensor<f32>
  return %y : tensor<f32>
}"""
    assert from_stablehlo(text, entry="g").call(F(2)) == -2
    with pytest.raises(StableHLOError, match=r"no function main, it has .*'f', 'g'"):
        from_stablehlo(text)
    with pytest.raises(StableHLOError, match="no function 'h'"):
        from_stablehlo(text, entry="h")


def test_batch_normalization_against_its_formula() -> None:
    rng = np.random.default_rng(0)
    x, scale, offset = (rng.standard_normal(s).astype(F) for s in ((2, 3, 4), (3,), (3,)))
    text = _body(
        """
  %y, %m, %v = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 0.1 : f32,
      feature_index = 1 : i64}> : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %m, %v : tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>""",
        "%x: tensor<2x3x4xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>",
        "(tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)",
    )
    y, mean, variance = _run(text, x, scale, offset)
    np.testing.assert_allclose(mean, x.mean((0, 2)), 1e-5, 1e-6)
    np.testing.assert_allclose(variance, x.var((0, 2)), 1e-5)

    def wide(v: Any) -> Any:
        return v[None, :, None]

    normal = (x - wide(mean)) / np.sqrt(wide(variance) + 0.1)
    np.testing.assert_allclose(y, normal * wide(scale) + wide(offset), 1e-5, 1e-5)


_SHARDY = """
module @program attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["i"=2, "j"=2]>
  func.func public @main(%x: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"j"}, {}]>})
      -> (tensor<2x2xf32>, tensor<4x2xf32>) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"i"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"i"} (%a: tensor<2x2xf32>) {
      %1 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %2 = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
      sdy.return %1 : tensor<2x2xf32>
    } : (tensor<4x2xf32>) -> tensor<2x2xf32>
    %3 = sdy.sharding_constraint %x <@mesh, [{"i", "j"}, {}]> : tensor<4x2xf32>
    return %0, %3 : tensor<2x2xf32>, tensor<4x2xf32>
  }
}"""  # noqa: E501  as JAX writes it


def test_shardings_in_text() -> None:
    exported = from_stablehlo(_SHARDY)
    assert exported.nr_devices == 4
    assert exported.layout is not None
    assert exported.layout.inputs == (xpr.P("j", None),)
    x = np.arange(8, dtype=F).reshape(4, 2)
    with xpr.set_mesh(xpr.make_mesh((2, 2), ("i", "j"))):
        summed, same = exported.call(x)
    np.testing.assert_array_equal(summed, x[:2] + x[2:])
    np.testing.assert_array_equal(same, x)


def test_the_page_lists_what_has_a_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "stablehlo.md").read_text(encoding="utf-8")
    refused = {"infeed", "outfeed", "send", "recv"}
    rules = all_rules()
    for dialect in ("stablehlo", "chlo", "sdy"):
        names = {n.partition(".")[2] for n in rules if n.startswith(f"{dialect}.")} - refused
        row = next(line for line in page.splitlines() if line.startswith(f"| {dialect} |"))
        assert set(re.findall(r"`([^`]+)`", row)) == names
