"""A shader in SPIR-V, word by word, for want of a compiler of GLSL on the machines that test.

It is `docs/tutorials/multiply.comp`: y[i] = x0[i] * x1[i] in workgroups of 64. The numbers of
instructions, decorations and storage classes are those of the specification of SPIR-V.
"""

from __future__ import annotations

import struct
from itertools import count

_CAPABILITY, _MEMORY_MODEL, _ENTRY_POINT, _EXECUTION_MODE = 17, 14, 15, 16
_DECORATE, _MEMBER_DECORATE = 71, 72
_VOID, _BOOL, _INT, _FLOAT, _VECTOR, _RUNTIME_ARRAY, _STRUCT, _POINTER, _FUNCTION_TYPE = (
    *range(19, 24), 29, 30, 32, 33,
)  # fmt: skip
_CONSTANT, _FUNCTION, _FUNCTION_END, _VARIABLE, _LOAD, _STORE, _ACCESS, _LENGTH = (
    43, 54, 56, 59, 61, 62, 65, 68,
)  # fmt: skip
_MULTIPLY, _LESS, _MERGE, _LABEL, _BRANCH, _BRANCH_IF, _RETURN = 133, 176, 247, 248, 249, 250, 253
_INPUT, _UNIFORM = 1, 2


def _text(text: str) -> tuple[int, ...]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def multiply() -> bytes:
    """The module."""
    words: list[int] = []

    def op(code: int, *operands: int) -> None:
        words.extend([(len(operands) + 1) << 16 | code, *operands])

    numbers = count(1)
    main, void, function, f32, u32, vector, vector_pointer, where = (
        next(numbers) for _ in range(8)
    )
    array, block, block_pointer, x0, x1, y = (next(numbers) for _ in range(6))
    zero, f32_pointer, start, u32_pointer, place, i = (next(numbers) for _ in range(6))
    at, one, other, product, length, is_inside, boolean = (next(numbers) for _ in range(7))
    at_other, at_y, body, end = (next(numbers) for _ in range(4))
    op(_CAPABILITY, 1)  # Shader
    op(_MEMORY_MODEL, 0, 1)  # Logical, GLSL450
    op(_ENTRY_POINT, 5, main, *_text("main"), where)  # GLCompute
    op(_EXECUTION_MODE, main, 17, 64, 1, 1)  # LocalSize
    op(_DECORATE, where, 11, 28)  # BuiltIn GlobalInvocationId
    op(_DECORATE, array, 6, 4)  # ArrayStride
    op(_DECORATE, block, 3)  # BufferBlock
    op(_MEMBER_DECORATE, block, 0, 35, 0)  # Offset
    for binding, buffer in enumerate((x0, x1, y)):
        op(_DECORATE, buffer, 34, 0)  # DescriptorSet
        op(_DECORATE, buffer, 33, binding)  # Binding
    op(_VOID, void)
    op(_FUNCTION_TYPE, function, void)
    op(_FLOAT, f32, 32)
    op(_INT, u32, 32, 0)
    op(_VECTOR, vector, u32, 3)
    op(_POINTER, vector_pointer, _INPUT, vector)
    op(_VARIABLE, vector_pointer, where, _INPUT)
    op(_RUNTIME_ARRAY, array, f32)
    op(_STRUCT, block, array)
    op(_POINTER, block_pointer, _UNIFORM, block)
    for buffer in (x0, x1, y):
        op(_VARIABLE, block_pointer, buffer, _UNIFORM)
    op(_CONSTANT, u32, zero, 0)
    op(_POINTER, f32_pointer, _UNIFORM, f32)
    op(_POINTER, u32_pointer, _INPUT, u32)
    op(_BOOL, boolean)
    op(_FUNCTION, void, main, 0, function)
    op(_LABEL, start)
    op(_ACCESS, u32_pointer, place, where, zero)
    op(_LOAD, u32, i, place)
    op(_LENGTH, u32, length, y, 0)
    op(_LESS, boolean, is_inside, i, length)
    op(_MERGE, end, 0)
    op(_BRANCH_IF, is_inside, body, end)
    op(_LABEL, body)
    op(_ACCESS, f32_pointer, at, x0, zero, i)
    op(_LOAD, f32, one, at)
    op(_ACCESS, f32_pointer, at_other, x1, zero, i)
    op(_LOAD, f32, other, at_other)
    op(_MULTIPLY, f32, product, one, other)
    op(_ACCESS, f32_pointer, at_y, y, zero, i)
    op(_STORE, at_y, product)
    op(_BRANCH, end)
    op(_LABEL, end)
    op(_RETURN)
    op(_FUNCTION_END)
    header = (0x07230203, 0x00010300, 0, next(numbers), 0)
    return struct.pack(f"<{5 + len(words)}I", *header, *words)
