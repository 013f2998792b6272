"""`jax.experimental.hijax`: types and primitives above those of arrays.

A high type has values of any Python class, which may be mutable, and its primitives say by
`to_lojax` what they do with arrays. Here they act on values outside of traced functions. High
values are no arguments of `jit`, `grad` and the like, and high primitives are not traced: both
raise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from xpr.compat import high_types
from xpr.compat.modules.core import AbstractValue as AbstractValue
from xpr.compat.primitives import ClientPrimitive
from xpr.core.aval import ShapedArray as ShapedArray
from xpr.core.context import context
from xpr.core.references import AbstractRef as AbstractRef
from xpr.interpreters.transpose import is_linear as is_undefined_primal
from xpr.interpreters.zeros import Zero as Zero
from xpr.interpreters.zeros import instantiate as instantiate_zeros

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]


@dataclasses.dataclass(frozen=True)
class AvalQDD:
    """A type, and what it is at one point of a program."""

    aval: Any
    qdd: Any


class MutableQDD:
    """What the type of a mutable value was at first, and is now."""

    def __init__(self, initial: Any) -> None:
        self.init_val = initial
        self.cur_val = initial

    def update(self, value: Any) -> None:
        """Changes what it is now."""
        self.cur_val = value


@dataclasses.dataclass(frozen=True)
class AvalMutableQDD:
    """A type, and what it is, which changes in the course of a program."""

    aval: Any
    mutable_qdd: MutableQDD


@dataclasses.dataclass(frozen=True)
class aval_property:
    """A property that traced values of a type have."""

    fget: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class aval_method:
    """A method that traced values of a type have."""

    fun: Callable[..., Any]


class EffectTypes:
    """A set of classes of effects. xpr's loops and branches take all effects."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Adds a class."""
        self._types.add(effect_type)

    def contains(self, effect: Any) -> bool:
        """Whether an effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))


control_flow_allowed_effects = EffectTypes()


class _High:
    """What is common to high types: each must say what its values are in terms of arrays."""

    is_high = True
    has_qdd = False

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} must define {method}")

    def to_tangent_aval(self) -> Any:
        """The type of tangents."""
        raise self._missing("to_tangent_aval")

    def to_ct_aval(self) -> Any:
        """The type of cotangents: that of tangents, unless a class says otherwise."""
        return self.to_tangent_aval()


class HiType(_High):
    """A type whose values do not change."""

    def lo_ty(self) -> list[ShapedArray]:
        """The types of the arrays that a value is made of."""
        raise self._missing("lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that a value is made of."""
        raise self._missing("lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that is made of arrays."""
        raise self._missing("raise_val")


class MutableHiType(_High):
    """A type whose values change, and perhaps the types of the arrays that they are made of."""

    has_qdd = True

    def lo_ty_qdd(self, state: Any, /) -> list[ShapedArray]:
        """The types of the arrays that a value is made of in a state."""
        raise self._missing("lo_ty_qdd")

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        """A new value that is made of arrays."""
        raise self._missing("new_from_loval")

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        """The arrays that a value is made of."""
        raise self._missing("read_loval")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        """Changes a value to one that is made of other arrays."""
        raise self._missing("update_from_loval")


class HiPrimitive(ClientPrimitive):
    """A primitive on high values: a subclass defines `to_lojax(*values, **params)`."""

    multiple_results = False

    def __init__(self, name: str) -> None:
        super().__init__(name, type(self).multiple_results)

    def to_lojax(self, *values: Any, **params: Any) -> Any:
        """What the primitive does with values."""
        raise NotImplementedError(f"{self.name} must define to_lojax")

    def bind(self, *args: Any, **params: Any) -> Any:
        """The result on values; NotImplementedError in a function that is being traced."""
        if context.trace is not context.eager:
            raise NotImplementedError(
                f"{self.name} is a primitive on high values, which xpr does not trace: use it "
                "outside of jit, grad, vmap and loops"
            )
        return getattr(self, "impl", self.to_lojax)(*args, **params)


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Tells the type of values of a class: `jax.typeof` asks `typeof_fn`."""
    high_types.rules[val_cls] = typeof_fn
