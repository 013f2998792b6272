"""The classes of `jax.experimental.hijax`, from which programs derive high types and primitives.

A high type has values of any Python class, which may be mutable, and says what they are in terms of
arrays; the primitives on such values have rules like all others. Programs keep them until they run
(`xpr/core/high.py`).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from xpr.compat.primitives import ClientPrimitive
from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.high import (
    AvalMutableQDD,
    AvalQDD,
    HighAval,
    MutableQDD,
    aval_method,
    cur_qdd,
    look_for_high,
    register_high,
)


class HiPspec:
    """How a value of a high type is cut over devices: what a program defines."""


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


class _High(HighAval):
    """What is common to high types: each must say what its values are in terms of arrays."""

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

    def vspace_zero(self) -> Any:
        """The value that is zero, of a type of tangents."""
        raise self._missing("vspace_zero")

    def recorded_zero(self) -> Any:
        """`vspace_zero` as an operation: in a program, the arrays are made when it runs.

        A value that is made while a function is traced would hide traced arrays inside it.
        """
        return _zero_p.bind(aval=self)

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two values, of a type of tangents."""
        raise self._missing("vspace_add")

    def dec_rank(self, size: int | None, spec: Any) -> Any:
        """The type of one of `size` values that a value is mapped over as."""
        raise self._missing("dec_rank")

    def inc_rank(self, size: int | None, spec: Any) -> Any:
        """The type of `size` values of this type in one."""
        raise self._missing("inc_rank")

    def is_mapped_as(self, size: int, spec: Any) -> bool:
        """Whether a value is mapped over as `size` values, as far as its type can tell.

        A type that cannot be made one that is mapped over (no `inc_rank`) cannot.
        """
        part = self.dec_rank(size, spec)
        if not isinstance(part, HiType) or type(part).inc_rank is HiType.inc_rank:
            return True
        shapes = [a.shape for a in part.inc_rank(size, spec).lo_ty()]
        return shapes == [a.shape for a in self.lo_ty()]

    def leading_axis_spec(self) -> Any:
        """How a value is mapped over when a loop scans over it."""
        raise self._missing("leading_axis_spec")


class MutableHiType(_High):
    """A type whose values change, and perhaps the types of the arrays that they are made of."""

    has_qdd = True
    type_state = aval_method(cur_qdd)

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
    """A primitive on high values: a subclass defines its rules as methods.

    abstract_eval(*avals, **params)      -> type, effects (a list of types, multiple_results)
    to_lojax(*values, **params)          -> what it does, in terms of arrays
    jvp(primals, tangents, **params)     -> result, tangent
    transpose(cotangent, *args, **params) -> cotangents
    """

    multiple_results = False

    def __init__(self, name: str) -> None:
        look_for_high()
        super().__init__(name, type(self).multiple_results)
        # What a subclass defines comes before what says that there is no such rule.
        for rule in ("jvp", "transpose", "batch"):
            if hasattr(type(self), rule) and not isinstance(
                getattr(type(self), rule), types.MemberDescriptorType
            ):
                self.__dict__.pop(rule, None)
        self.abstract = self._types_of_results

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether it acts on high values."""
        return True

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """The types of results, and the effects."""
        raise NotImplementedError(f"{self.name} must define abstract_eval")

    def to_lojax(self, *values: Any, **params: Any) -> Any:
        """What the primitive does with values."""
        raise NotImplementedError(f"{self.name} must define to_lojax")

    def typed(self, *avals: Any, **params: Any) -> tuple[Any, Any]:
        """The types of results, and the effects."""
        return self.abstract_eval(*avals, **params)

    def _types_of_results(self, *avals: Any, **params: Any) -> Any:
        """The types alone, for those who check programs: no state is changed."""
        given = [
            AvalMutableQDD(a.aval, MutableQDD(a.qdd)) if isinstance(a, AvalQDD) else a
            for a in avals
        ]
        return self.typed(*given, **params)[0]

    def bind(self, *args: Any, **params: Any) -> Any:
        """The result: at once on values, recorded in a function that is being traced."""
        if context.trace.lowers:
            return getattr(self, "impl", self.to_lojax)(*args, **params)
        return super().bind(*args, **params)


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Tells the type of values of a class: `jax.typeof` asks `typeof_fn`."""
    register_high(val_cls, typeof_fn)


class _Zero(HiPrimitive):
    """The value of a type of tangents that is zero."""

    def abstract_eval(self, *, aval: Any) -> Any:
        return aval, set()

    def to_lojax(self, *, aval: Any) -> Any:
        return aval.vspace_zero()


_zero_p = _Zero("vspace_zero")
