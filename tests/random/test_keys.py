"""Keys: what they are made from, how they print, index and compare, and where they can go."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import random as r
from xpr.core.config import override
from xpr.primitives.random import threefry2x32

# Random123's known answers for threefry2x32 with 20 rounds: counter, key, block.
_KNOWN = (
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
)


def _same(a: Any, b: Any) -> bool:
    return np.array_equal(r.key_data(a), r.key_data(b))


def test_known_answers_of_the_generator() -> None:
    counters, keys, blocks = (
        [np.array(column, np.uint32) for column in zip(*part, strict=True)]
        for part in zip(*_KNOWN, strict=True)
    )
    for function in (threefry2x32, xpr.jit(threefry2x32)):
        found = function(*keys, *counters)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(blocks))
    # Enough of them for the other path of the reference.
    many = [np.tile(x, 50) for x in (*keys, *counters)]
    np.testing.assert_array_equal(threefry2x32(*many), [np.tile(b, 50) for b in blocks])


def test_counters_beyond_32_bits() -> None:
    from tests.op_rows.random import threefry  # noqa: PLC0415  the rows' own oracle

    one = threefry2x32(np.uint32(5), np.uint32(6), np.uint32(3), np.uint32(2**32 - 1))
    assert [int(x) for x in one] == [*threefry((5, 6), (3, 2**32 - 1))]


def test_a_key_prints_as_jax_prints_it() -> None:
    key = r.key(7)
    assert repr(key) == str(key) == "Array((), dtype=key<fry>) overlaying:\n[0 7]"
    assert repr(r.split(r.key(0), 2)) == (
        "Array((2,), dtype=key<fry>) overlaying:\n"
        "[[1797259609 2579123966]\n [ 928981903 3453687069]]"
    )
    assert str(key.dtype) == repr(key.dtype) == "key<fry>"
    seen = []
    xpr.jit(lambda k: seen.append(repr(k)))(r.split(key, 3))
    assert seen == ["JitTracer(key<fry>[3])"]


def test_type_of_a_key() -> None:
    keys = r.split(r.key(0), (2, 3))
    assert (keys.shape, keys.ndim, keys.size, keys.itemsize, keys.nbytes) == ((2, 3), 2, 6, 8, 48)
    assert keys.dtype == r.key_dtype() == r.key(5).dtype
    assert hash(keys.dtype) == hash(r.key_dtype())
    assert xpr.numpy.issubdtype(keys.dtype, xpr.dtypes.prng_key)
    assert xpr.dtypes.issubdtype(keys.dtype, xpr.dtypes.extended)
    assert not xpr.numpy.issubdtype(keys.dtype, np.integer)
    assert not xpr.numpy.issubdtype(np.uint32, xpr.dtypes.prng_key)
    assert r.key_impl(keys) == r.key_impl(r.PRNGKey(0)) == "threefry2x32"


def test_parts_and_shapes_of_key_arrays() -> None:
    keys = r.split(r.key(0), (2, 3))
    data = np.asarray(r.key_data(keys))
    for index in (
        1,
        -1,
        (1, 2),
        (slice(None), 1),
        (..., 0),
        (np.array([0, 1]), np.array([2, 0])),
        None,
        (0, ...),
    ):
        found, wanted = keys[index], np.empty((2, 3))[index]
        assert found.shape == wanted.shape, index
    np.testing.assert_array_equal(r.key_data(keys[..., 1]), data[:, 1])
    np.testing.assert_array_equal(r.key_data(keys[keys == keys[0, 0]]), data[:1, 0])
    np.testing.assert_array_equal(r.key_data(keys.reshape(-1)), data.reshape(6, 2))
    np.testing.assert_array_equal(r.key_data(keys.T), data.swapaxes(0, 1))
    assert keys.reshape(3, 2).shape == keys.transpose(1, 0).shape == (3, 2)
    assert keys.reshape(1, 6, 1).squeeze().shape == keys.ravel().shape == (6,)
    assert keys.reshape(1, 6, 1).squeeze(-1).shape == (1, 6)
    assert len(keys) == len(list(keys)) == 2
    first, second = keys
    assert _same(second[1], keys[1, 1])
    assert not _same(first, second)
    assert _same(keys.copy(), keys)
    assert keys.block_until_ready() is keys


def test_keys_compare_element_by_element() -> None:
    keys = r.split(r.key(0), 3)
    np.testing.assert_array_equal(keys == keys[1], [False, True, False])
    np.testing.assert_array_equal(keys != keys[1], [True, False, True])
    with pytest.raises(TypeError, match="equal does not accept dtypes key<fry>, int32"):
        r.key(1) == 3  # noqa: B015


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (bool, "key array cannot be converted to boolean"),
        (np.asarray, "key_data"),
        (len, "unsized"),
        (iter, "0-d key array"),
        (hash, "unhashable"),
        (float, "float"),
        (lambda k: k + 1, "add does not accept dtypes key<fry>, int32"),
    ],
)
def test_a_key_is_no_number(use: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        use(r.key(0))


def test_too_many_indices_do_not_reach_the_words() -> None:
    with pytest.raises(IndexError, match="array is 0-dimensional, but 1 were"):
        r.key(0)[0]


def test_raw_and_typed_keys_are_the_same_keys() -> None:
    raw, typed = r.PRNGKey(3), r.key(3)
    assert _same(raw, typed)
    assert _same(r.wrap_key_data(raw), typed)
    assert isinstance(r.split(raw), xpr.Array)
    assert _same(r.split(raw), r.split(typed))
    assert _same(r.fold_in(raw, 5), r.fold_in(typed, 5))
    assert type(r.fold_in(typed, 5)) is type(typed)
    assert _same(r.clone(typed), typed)
    assert _same(r.clone(raw), raw)
    np.testing.assert_array_equal(r.normal(np.asarray(raw), (3,)), r.normal(typed, (3,)))


def test_seeds_of_every_kind() -> None:
    for seed in (5, np.int8(5), np.uint16(5), np.array(5), xpr.numpy.array(5), True + 4):
        assert _same(r.key(seed), r.key(5))
    assert _same(r.key(True), r.key(1))
    assert _same(xpr.jit(r.key)(5), r.key(5))
    seeds = np.arange(-2, 3)
    batched = xpr.vmap(r.key)(seeds)
    assert batched.shape == (5,)
    for i, seed in enumerate(seeds.tolist()):
        assert _same(batched[i], r.key(seed))


def test_keys_pass_through_transformations() -> None:
    key = r.key(1)
    keys = r.split(key, 4)
    assert _same(xpr.jit(lambda k: r.fold_in(k, 2))(key), r.fold_in(key, 2))
    mapped = xpr.vmap(lambda k, i: {"key": r.fold_in(k, i)})(keys, np.arange(4))["key"]
    assert mapped.shape == (4,)
    assert _same(mapped[3], r.fold_in(keys[3], 3))
    twice = xpr.vmap(xpr.vmap(lambda k: r.bits(k, (2,))))(keys.reshape(2, 2))
    np.testing.assert_array_equal(twice[1, 0], r.bits(keys[2], (2,)))
    columns = xpr.vmap(r.key_data, in_axes=1)(r.split(key, (2, 3)))
    assert columns.shape == (3, 2, 2)

    def step(carry: Any, k: Any) -> Any:
        carry, sub = r.split(carry)
        return carry, r.bits(sub) ^ r.bits(k)

    last, words = xpr.lax.scan(step, key, keys)
    assert last.shape == ()
    expected = key
    for i, k in enumerate(keys):
        expected, sub = r.split(expected)
        assert int(words[i]) == int(r.bits(sub)) ^ int(r.bits(k))
    assert _same(last, expected)
    counted = xpr.lax.fori_loop(0, 3, lambda i, k: r.fold_in(k, i), key)
    assert _same(counted, r.fold_in(r.fold_in(r.fold_in(key, 0), 1), 2))
    chosen = xpr.lax.cond(True, lambda k: k, lambda k: r.fold_in(k, 1), key)
    assert _same(chosen, key)


def test_many_keys_are_split_in_a_loop() -> None:
    # A table of more than 64 numbers in a loop in registers ends the compiler's process.
    code = """if True:
        import numpy as np, xpr
        split = lambda k: xpr.lax.fori_loop(0, 3, lambda i, k: xpr.random.split(k, 3)[1], k)
        keys = xpr.random.split(xpr.random.key(0), 20)
        found = xpr.jit(xpr.vmap(split))(keys)
        print(bool((found[7] == split(keys[7])).all()))
    """
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (out.returncode, out.stdout.strip()) == (0, "True"), out.stderr


def test_keys_in_trees() -> None:
    tree = {"a": r.key(1), "b": (r.split(r.key(2)), 3)}
    leaves, structure = xpr.tree.flatten(tree)
    assert [np.shape(x) for x in leaves] == [(), (2,), ()]
    again = xpr.tree.unflatten(structure, leaves)
    assert _same(again["b"][0], tree["b"][0])
    paths = [xpr.tree_util.keystr(path) for path, _ in xpr.tree_util.tree_leaves_with_path(tree)]
    assert paths == ["['a']", "['b'][0]", "['b'][1]"]


def test_gradients_pass_by_keys() -> None:
    def loss(w: Any, key: Any) -> Any:
        return (w * r.normal(key, (3,))).sum()

    key = r.key(4)
    np.testing.assert_array_equal(
        xpr.grad(loss)(xpr.numpy.ones(3), key), np.asarray(r.normal(key, (3,)))
    )


def test_the_jaxpr_says_what_is_drawn() -> None:
    text = str(xpr.make_jaxpr(lambda k: r.bits(r.fold_in(k, 1), (2, 3)))(r.key(0)))
    assert "random_fold_in" in text
    assert "random_bits[bit_width=32 shape=(2, 3)]" in text


def test_the_layout_of_bits_is_part_of_what_was_traced() -> None:
    bits = xpr.jit(lambda k: r.bits(k, (3,)))
    first = np.asarray(bits(r.key(0)))
    with override("threefry_partitionable", False):
        other = np.asarray(bits(r.key(0)))
        np.testing.assert_array_equal(other, np.asarray(r.bits(r.key(0), (3,))))
    np.testing.assert_array_equal(other, np.array([4146024105, 1351547692, 2718843009], "u4"))
    np.testing.assert_array_equal(bits(r.key(0)), first)
    assert (first != other).any()


def test_too_many_words_of_the_other_layout() -> None:
    with override("threefry_partitionable", False):
        with pytest.raises(NotImplementedError, match="at most 4294967295 can be drawn at once"):
            xpr.eval_shape(lambda k: r.bits(k, (1 << 33,), "uint32"), r.key(0))


def test_importing_xpr_does_not_load_it() -> None:
    code = "import sys, xpr; print('xpr.random' in sys.modules); print(xpr.random.key(0).shape)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "()"]
