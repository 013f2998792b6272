"""Primitives that programs define themselves, by the calls of `jax.extend.core`.

JAX keeps the rules of primitives in tables by kind; xpr keeps them on the primitive. The tables
here are views of the latter, with rules in the form that JAX gives them:

    primitive_jvps[p](primals, tangents, **params)      -> result, tangent
    primitive_transposes[p](cotangent, *args, **params) -> cotangents
    primitive_batchers[p](args, dims, **params)         -> result, dimension
    fancy_primitive_batchers[p](axis, args, dims, **params)
    axis_primitive_batchers[p](size, name, None, args, dims, **params)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np

from xpr.core.effects import Effects
from xpr.core.primitive import Absent, Primitive, Rule, registry
from xpr.primitives import load_all

FAMILY = "extend"


class NotGiven(Absent):
    """A rule that the program has not given yet."""


class ClientPrimitive(Primitive):
    """A primitive without rules, which are given one by one.

    Its implementation (`def_impl`) runs outside `jit`, on arrays; programs that are compiled need a
    lowering (`jax.interpreters.mlir.register_lowering`).
    """

    __slots__ = ("__dict__", "__weakref__")

    call_primitive = False
    map_primitive = False

    def __init__(self, name: str, multiple_results: bool = False) -> None:
        super().__init__(name, FAMILY, multiple_results)
        self.eager = "inline"
        self.reference = self._refuse("Evaluation")
        self.abstract = self._refuse("Abstract evaluation", "")
        self.jvp = NotGiven("the program gives it no JVP rule")
        self.transpose = NotGiven("the program gives it no transpose rule")
        self.batch = NotGiven("the program gives it no batching rule")
        self.doc = "a primitive of the program's own"

    def _refuse(self, kind: str, what: str = " rule") -> Rule:
        def missing(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(f"{kind}{what} for '{self.name}' not implemented")

        return missing

    def def_impl(self, impl: Rule) -> Rule:
        """Gives the implementation `impl(*arrays, **params)`."""
        self.reference = impl
        return impl

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Gives the types of results: `rule(*avals, **params)` is an aval, or several."""
        self.abstract = rule
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Gives a rule for types and effects: `rule(*avals, **params)` is a pair of both."""
        found: dict[Any, Effects] = {}

        def abstract(*avals: Any, **params: Any) -> Any:
            out, effects = rule(*avals, **params)
            found["last"] = frozenset(effects)
            return out

        self.abstract = abstract
        self.effects = lambda params: found.get("last", frozenset())
        return rule

    def def_custom_bind(self, bind: Rule) -> Rule:
        """Replaces `bind`."""
        self.bind = bind
        return bind

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"the primitive {self.name} belongs to a program and cannot be pickled")


class RuleTable(MutableMapping[Primitive, Rule]):
    """All primitives that have a rule of one kind, and their rules in JAX's form."""

    def __init__(
        self, kind: str, wrap: Callable[[Rule], Rule], unwrap: Callable[[Rule], Rule]
    ) -> None:
        self._kind = kind
        self._wrap = wrap
        self._unwrap = unwrap
        # What the program gave, and what the primitive has of it: another table may replace that.
        self._given: dict[Primitive, tuple[Rule, Rule]] = {}

    def __getitem__(self, primitive: Primitive) -> Rule:
        rule = getattr(primitive, self._kind)
        if isinstance(rule, Absent):
            raise KeyError(primitive)
        given, kept = self._given.get(primitive, (None, None))
        return given if given is not None and kept is rule else self._unwrap(rule)

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        kept = self._wrap(rule)
        self._given[primitive] = rule, kept
        setattr(primitive, self._kind, kept)

    def __delitem__(self, primitive: Primitive) -> None:
        self[primitive]  # KeyError if there is none
        self._given.pop(primitive, None)
        setattr(primitive, self._kind, NotGiven(f"its {self._kind} rule was deleted"))

    def __iter__(self) -> Iterator[Primitive]:
        load_all()
        known = [p for p in registry.values() if not isinstance(getattr(p, self._kind), Absent)]
        return iter([*known, *(p for p in self._given if registry.get(p.name) is not p)])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _as_it_is(rule: Rule) -> Rule:
    return rule


def _without_axis(rule: Rule) -> Rule:
    """JAX's form of a batching rule, from ours; the size of the batch is read off an operand."""

    def batcher(args: Any, dims: Any, **params: Any) -> Any:
        from xpr.interpreters.batching import BatchAxis  # noqa: PLC0415  only for rules read back

        size = next(np.shape(x)[d] for x, d in zip(args, dims, strict=True) if d is not None)
        return rule(BatchAxis(size, None), args, dims, **params)

    return batcher


def _with_axis(rule: Rule) -> Rule:
    return lambda axis, args, dims, **params: rule(args, dims, **params)


def _with_size_and_name(rule: Rule) -> Rule:
    return lambda axis, args, dims, **params: rule(axis.size, axis.name, None, args, dims, **params)


def _without_size_and_name(rule: Rule) -> Rule:
    def batcher(size: int, name: Any, _: Any, args: Any, dims: Any, **params: Any) -> Any:
        from xpr.interpreters.batching import BatchAxis  # noqa: PLC0415  only for rules read back

        return rule(BatchAxis(size, name), args, dims, **params)

    return batcher


primitive_jvps = RuleTable("jvp", _as_it_is, _as_it_is)
primitive_transposes = RuleTable("transpose", _as_it_is, _as_it_is)
primitive_batchers = RuleTable("batch", _with_axis, _without_axis)
axis_primitive_batchers = RuleTable("batch", _with_size_and_name, _without_size_and_name)
fancy_primitive_batchers = RuleTable("batch", _as_it_is, _as_it_is)
