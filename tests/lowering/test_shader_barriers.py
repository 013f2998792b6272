"""Barriers in shaders whose invocations read what others have written."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Sequence

import numpy as np
import pytest

from tests.lowering.vulkan_util import compile_on, run_on, vulkan_device
from xpr.core.errors import CompileError
from xpr.lowering.iree import post_passes, shader_barriers, shader_code
from xpr.lowering.iree.jobs import Job
from xpr.lowering.iree.shader_barriers import UnorderedShaderError, with_barriers
from xpr.lowering.iree.shader_code import Instruction

# An operand that is converted and then read by two access maps stays in shared memory.
_CONVERTED = """
    %w = stablehlo.convert %a0 : (tensor<4x3xi8>) -> tensor<4x3xi32>
    %m = stablehlo.broadcast_in_dim %w, dims = [0, 1] : (tensor<4x3xi32>) -> tensor<4x3x4xi32>
    %o = stablehlo.broadcast_in_dim %w, dims = [2, 1] : (tensor<4x3xi32>) -> tensor<4x3x4xi32>
    %d = stablehlo.subtract %m, %o : tensor<4x3x4xi32>
"""
_DIFFERENCES = f"{_CONVERTED}%d"
# The invocations that have nothing to do leave out the storing and the loading in one choice.
_SUMS = f"""{_CONVERTED}
    %z = stablehlo.constant dense<0> : tensor<i32>
    %q = stablehlo.multiply %d, %d : tensor<4x3x4xi32>
    %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [2]
      : (tensor<4x3x4xi32>, tensor<i32>) -> tensor<4x3xi32>
    %s
"""
_X = np.random.default_rng(0).integers(-50, 50, (4, 3)).astype(np.int8)
_WIDE = _X.astype(np.int32)
_APART = _WIDE[:, :, None] - _WIDE.T[None]
_PROGRAMS = [(_DIFFERENCES, _APART), (_SUMS, (_APART**2).sum(2, np.int32))]


def _instructions(words: Sequence[int]) -> list[Instruction]:
    return list(shader_code.instructions(words))


def _barriers(words: Sequence[int]) -> int:
    return sum(i.op == shader_code.BARRIER for i in _instructions(words))


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The modules as IREE gives them."""
    monkeypatch.setenv("XPR_CACHE", "0")
    monkeypatch.setattr(Job, "patches", lambda job: ())
    return [compile_on(vulkan_device(), body, [_X], wanted) for body, wanted in _PROGRAMS]


def test_shaders_lack_barriers(raw: list[bytes]) -> None:
    for module in raw:
        changed = with_barriers(module)
        assert changed != module, "this is mended: the guard can go"
        assert len(changed) == len(module)
        assert with_barriers(changed) == changed
        before, after = (dict(shader_barriers._shaders(m)) for m in (module, changed))
        assert [_barriers(words) for words in before.values()] == [0]
        assert [_barriers(words) for words in after.values()] == [1]
        assert zipfile.ZipFile(io.BytesIO(changed)).testzip() is None


def test_with_barriers_the_results_are_right() -> None:
    for body, wanted in _PROGRAMS:
        for _ in range(3):
            assert run_on(vulkan_device(), body, [_X], wanted).tolist() == wanted.tolist()


def test_a_shader_without_names_has_no_room(raw: list[bytes]) -> None:
    (words,) = dict(shader_barriers._shaders(raw[0])).values()
    bare = list(words[: shader_code.HEADER_WORDS])
    for i in _instructions(words):
        if i.op != shader_code.NAME:
            bare += words[i.at : i.at + 1 + len(i.words)]
    with pytest.raises(UnorderedShaderError):
        with_barriers(struct.pack(f"<II{len(bare)}I", 0, len(bare), *bare))


def test_what_is_no_shader_stays() -> None:
    magic = shader_barriers._MAGIC
    for other in (b"", b"not a module", magic, bytes(4) + magic, b"\x08\0\0\0" + magic + bytes(99)):
        assert with_barriers(other) == other


def test_a_program_that_cannot_be_ordered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: bytes) -> bytes:
        raise UnorderedShaderError

    monkeypatch.setenv("XPR_CACHE", "0")
    refuses = post_passes.Patch("barriers", 0, refuse)
    monkeypatch.setattr(Job, "patches", lambda job: (refuses,))
    with pytest.raises(CompileError, match="no barrier can be put between"):
        compile_on(vulkan_device(), _DIFFERENCES, [_X], _APART)


# ---- shaders written by hand

_UINT, _BOOL, _THREE, _ARRAY, _TO_WORD, _TO_ARRAY, _TO_THREE = range(1, 8)
_ZERO, _ONE, _SEVEN, _SHARED, _LOCAL, _VOID, _TYPE, _MAIN = range(8, 16)
_ID, _OWN, _OTHER, _HERE, _THERE, _COUNTER, _NEXT, _AGAIN, _FOUND = range(20, 29)
_ENTRY, _HEAD, _BODY, _END = range(30, 34)
_NAMES = 40


def _shader(body: Sequence[tuple[int, ...]]) -> list[int]:
    """A shader whose function loads the invocation's number and goes on with `body`."""
    code = [
        *((5, _NAMES + k, 0x61616161, 0x61616161, 0x61616161, 0x61616161, 0) for k in range(6)),
        (71, _LOCAL, 11, 27),
        (21, _UINT, 32, 0),
        (20, _BOOL),
        (23, _THREE, _UINT, 3),
        *((43, _UINT, name, value) for name, value in ((_ZERO, 0), (_ONE, 1), (_SEVEN, 7))),
        (28, _ARRAY, _UINT, _SEVEN),
        (32, _TO_WORD, 4, _UINT),
        (32, _TO_ARRAY, 4, _ARRAY),
        (32, _TO_THREE, 1, _THREE),
        (59, _TO_ARRAY, _SHARED, 4),
        (59, _TO_THREE, _LOCAL, 1),
        (19, _VOID),
        (33, _TYPE, _VOID),
        (54, _VOID, _MAIN, 0, _TYPE),
        (248, _ENTRY),
        (61, _THREE, _ID, _LOCAL),
        (81, _UINT, _OWN, _ID, 0),
        (130, _UINT, _OTHER, _SEVEN, _OWN),
        (65, _TO_WORD, _HERE, _SHARED, _OWN),
        (65, _TO_WORD, _THERE, _SHARED, _OTHER),
        *body,
        (253,),
        (56,),
    ]
    words = [w for op, *rest in code for w in (len(rest) + 1 << 16 | op, *rest)]
    return [0x07230203, 0x10000, 0, 50, 0, *words]


def _loop(rounds: int, *body: tuple[int, ...]) -> list[tuple[int, ...]]:
    """`body`, as often as the value `rounds` says."""
    return [
        (249, _HEAD),
        (248, _HEAD),
        (245, _UINT, _COUNTER, _ZERO, _ENTRY, _NEXT, _BODY),
        (177, _BOOL, _AGAIN, _COUNTER, rounds),
        (246, _END, _BODY, 0),
        (250, _AGAIN, _BODY, _END),
        (248, _BODY),
        *body,
        (128, _UINT, _NEXT, _COUNTER, _ONE),
        (249, _HEAD),
        (248, _END),
    ]


_WRITE, _READ, _READ_OWN = (62, _HERE, _ONE), (61, _UINT, _FOUND, _THERE), (61, _UINT, 29, _HERE)
_WAIT = (224, _ONE, _ONE, _ONE)


@pytest.mark.parametrize(
    ("body", "barriers"),
    [
        ([_WRITE, _READ], 1),
        ([_WRITE, _READ_OWN], 0),
        ([_WRITE, _WAIT, _READ], 1),
        ([_WRITE, *_loop(_SEVEN, _READ)], 1),
        ([_WRITE, *_loop(_OWN, _READ)], 1),
        (_loop(_SEVEN, _WRITE, _READ_OWN), 0),
        # In the next round they write what others may still read.
        (_loop(_SEVEN, _WRITE, _READ), 2),
        (_loop(_SEVEN, _WRITE, _WAIT, _READ), 2),
        (_loop(_SEVEN, _WRITE, _WAIT, _READ, _WAIT), 2),
        (_loop(_SEVEN, _READ, _WRITE), 2),
    ],
)
def test_barriers_stand_where_all_invocations_come(
    body: Sequence[tuple[int, ...]], barriers: int
) -> None:
    words = _shader(body)
    found = shader_barriers._ordered(words)
    assert len(found) == len(words)
    assert _barriers(found) == barriers
    assert shader_barriers._ordered(found) is found


def test_invocations_that_go_round_differently_often_cannot_wait() -> None:
    with pytest.raises(UnorderedShaderError):
        shader_barriers._ordered(_shader(_loop(_OWN, _WRITE, _READ)))
