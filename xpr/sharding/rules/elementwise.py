"""Arithmetic element by element: every axis passes through."""

from __future__ import annotations

from xpr.sharding.rules._forms import elementwise, register_all

register_all(
    (
        "add",
        "sub",
        "mul",
        "add_any",
        "div",
        "rem",
        "max",
        "min",
        "neg",
        "sign",
        "abs",
        "real",
        "imag",
        "conj",
        "complex",
        "floor",
        "ceil",
        "round",
        "nextafter",
    ),
    elementwise,
)
