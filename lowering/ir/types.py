"""MLIR spellings of dtypes and constants."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xpr.core import dtypes

_ELEMENT: dict[np.dtype[Any], str] = {
    np.dtype(np.bool_): "i1",
    dtypes.bfloat16: "bf16",
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "complex<f32>",
    np.dtype(np.complex128): "complex<f64>",
    np.dtype(ml_dtypes.float8_e3m4): "f8E3M4",
    np.dtype(ml_dtypes.float8_e4m3): "f8E4M3",
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): "f8E4M3B11FNUZ",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8E4M3FN",
    np.dtype(ml_dtypes.float8_e4m3fnuz): "f8E4M3FNUZ",
    np.dtype(ml_dtypes.float8_e5m2): "f8E5M2",
    np.dtype(ml_dtypes.float8_e5m2fnuz): "f8E5M2FNUZ",
    np.dtype(ml_dtypes.float8_e8m0fnu): "f8E8M0FNU",
    # One to a byte, see `passes/small_integers.py`.
    np.dtype(ml_dtypes.int4): "i8",
    np.dtype(ml_dtypes.uint4): "ui8",
    np.dtype(ml_dtypes.int2): "i8",
    np.dtype(ml_dtypes.uint2): "ui8",
}
_ELEMENT |= {np.dtype(f"int{b}"): f"i{b}" for b in (8, 16, 32, 64)}
_ELEMENT |= {np.dtype(f"uint{b}"): f"ui{b}" for b in (8, 16, 32, 64)}

# Where several dtypes have one name, NumPy's own, which come last, is what it stands for.
_DTYPES = {text: dtype for dtype, text in _ELEMENT.items()}
_tensor_types: dict[tuple[tuple[int, ...], np.dtype[Any]], str] = {}


def bits_of(dtype: np.dtype[Any]) -> int:
    """The width of an element to the compiler, to which a boolean is one bit."""
    return 1 if dtype == np.bool_ else 8 * dtype.itemsize


def element_type(dtype: np.dtype[Any]) -> str:
    """The MLIR element type of `dtype`; TypeError when MLIR has none."""
    try:
        return _ELEMENT[dtype]
    except KeyError:
        raise TypeError(f"dtype {dtype} cannot be used in compiled programs") from None


def element_dtype(text: str) -> np.dtype[Any] | None:
    """The dtype of an MLIR element type; None for types that no program of xpr has.

    >>> element_dtype("ui8"), element_dtype("complex<f32>"), element_dtype("index")
    (dtype('uint8'), dtype('complex64'), None)
    """
    return _DTYPES.get(text)


def tensor_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """`tensor<3x4xf32>` for shape (3, 4) and float32."""
    key = (shape, dtype)
    text = _tensor_types.get(key)
    if text is None:
        text = "tensor<" + "".join(f"{d}x" for d in shape) + element_type(dtype) + ">"
        _tensor_types[key] = text
    return text


def scalar_text(value: Any, dtype: np.dtype[Any]) -> str:
    """One element of a `dense<...>` attribute, exact to the bit."""
    if isinstance(value, np.generic):
        key = value.dtype, value.tobytes(), dtype
        text = _scalar_texts.get(key)
        if text is None:
            if len(_scalar_texts) >= _MAX_SCALAR_TEXTS:
                _scalar_texts.clear()
            text = _scalar_texts[key] = _scalar_text(value, dtype)
        return text
    return _scalar_text(value, dtype)


# To find the shortest digits of a float takes longer than all else that is done for a constant.
_scalar_texts: dict[tuple[np.dtype[Any], bytes, np.dtype[Any]], str] = {}
_MAX_SCALAR_TEXTS = 4096


def _scalar_text(value: Any, dtype: np.dtype[Any]) -> str:
    kind = dtypes.kind(dtype)
    if kind == "b":
        return "true" if value else "false"
    if kind in "iu":
        return str(int(value))
    if kind == "c":
        part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        z = dtype.type(value)
        return f"({scalar_text(z.real, part)}, {scalar_text(z.imag, part)})"
    exact = np.asarray(value, dtype)
    wide = float(exact.astype(np.float64))
    if not np.isfinite(wide) or dtype.itemsize < 4:
        bits = int(exact.view(np.dtype(f"u{dtype.itemsize}")))
        return f"0x{bits:0{2 * dtype.itemsize}X}"
    text = (
        repr(float(exact))
        if dtype.itemsize == 8
        else np.format_float_scientific(dtype.type(value), unique=True)
    )
    return text if "." in text else text.replace("e", ".0e") if "e" in text else text + ".0"


def dense_text(values: np.ndarray[Any, Any]) -> str:
    """The `dense<...>` attribute of an array: its bytes in hexadecimal, or a splat."""
    if values.size == 0:
        return "dense<>"
    if values.size == 1 or values.dtype.itemsize < 1:
        return f"dense<{scalar_text(values.reshape(-1)[0], values.dtype)}>"
    if values.dtype == np.bool_:
        return f"dense<{_nested(values)}>"
    if values.dtype in dtypes.SMALL_INT_TYPES:
        values = values.astype(np.int8)
    contiguous = np.ascontiguousarray(values)
    return f'dense<"0x{contiguous.tobytes().hex().upper()}">'


def _nested(values: np.ndarray[Any, Any]) -> str:
    if values.ndim == 0:
        return scalar_text(values[()], values.dtype)
    return "[" + ", ".join(_nested(v) for v in values) + "]"
