"""The exceptions of xpr, under JAX's names and with its meanings.

Each message says what was found, where the user's code stands, and what to write instead.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

EXPLAINED_IN = "docs/howto/errors"
"""The folder with a page for each exception: programs that raise it, and ones that do not."""

_Error = TypeVar("_Error", bound=BaseException)


def explained(error: _Error, page: str) -> _Error:
    """The error with a note that names its page."""
    error.add_note(f"Explained in {EXPLAINED_IN}/{page}.md")
    return error


class _Explained(Exception):
    """An exception that has a page there; its traceback says so."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        error = super().__new__(cls, *args, **kwargs)
        known = next(c for c in cls.__mro__ if c.__module__ == __name__)
        return explained(error, known.__name__)


class XprError(Exception):
    """Base of the errors that only xpr raises.

    >>> import xpr
    >>> issubclass(xpr.errors.CompileError, xpr.errors.XprError)
    True
    """


class JAXTypeError(TypeError):
    """A TypeError about traced values.

    >>> import xpr
    >>> issubclass(xpr.errors.TracerArrayConversionError, xpr.errors.JAXTypeError)
    True
    """


class JAXIndexError(IndexError):
    """An IndexError about traced values.

    >>> import xpr
    >>> issubclass(xpr.errors.NonConcreteBooleanIndexError, xpr.errors.JAXIndexError)
    True
    """


class TypePromotionError(_Explained, ValueError):
    """Dtypes that have no implicit promotion; convert one of them explicitly.

    >>> import xpr, xpr.numpy as jnp
    >>> try:
    ...     jnp.ones(2, "float8_e5m2") + jnp.ones(2, "float8_e4m3fn")
    ... except xpr.errors.TypePromotionError:
    ...     print("convert one of them")
    convert one of them
    """


class JaxprTypeError(_Explained, TypeError):
    """A jaxpr that breaks the typing rules (found by `check_jaxpr`).

    >>> import xpr
    >>> issubclass(xpr.errors.JaxprTypeError, TypeError)
    True
    """


class ConcretizationTypeError(_Explained, JAXTypeError):
    """A concrete value was needed where only a tracer was at hand.

    Typical causes: `float(x)` or a shape computed from `x` inside `jit`. Mark the argument static
    (`static_argnums`), or compute with `xpr.numpy` instead.

    >>> import xpr
    >>> try:
    ...     xpr.make_jaxpr(lambda x: float(x))(1.0)
    ... except xpr.errors.ConcretizationTypeError:
    ...     print("x has no value yet")
    x has no value yet
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """`if`, `while`, `and`, `or` or `bool()` on a traced array.

    Use `xpr.numpy.where`, `xpr.lax.cond` or `xpr.lax.while_loop`, or mark the argument static.

    >>> import xpr
    >>> try:
    ...     xpr.make_jaxpr(lambda x: 1 if x > 0 else 2)(1.0)
    ... except xpr.errors.TracerBoolConversionError:
    ...     print("use where, cond or while_loop")
    use where, cond or while_loop
    """


class TracerIntegerConversionError(_Explained, JAXTypeError):
    """A traced integer used as a Python integer: `range(x)`, a list index, a shape.

    >>> import xpr
    >>> try:
    ...     xpr.make_jaxpr(lambda n: len(range(n)))(3)
    ... except xpr.errors.TracerIntegerConversionError:
    ...     print("mark n static")
    mark n static
    """


class TracerArrayConversionError(_Explained, JAXTypeError):
    """A traced array handed to NumPy; call the function of `xpr.numpy` instead.

    >>> import numpy as np
    >>> import xpr
    >>> try:
    ...     xpr.make_jaxpr(lambda x: np.sin(x))(1.0)
    ... except xpr.errors.TracerArrayConversionError:
    ...     print("use xpr.numpy.sin")
    use xpr.numpy.sin
    """


class NonConcreteBooleanIndexError(_Explained, JAXIndexError):
    """A traced boolean mask as index: the result's shape would depend on values.

    Use `xpr.numpy.where(mask, x, fill)` or `xpr.numpy.nonzero(mask, size=n)`.

    >>> import xpr, xpr.numpy as jnp
    >>> try:
    ...     xpr.make_jaxpr(lambda x: x[x > 0])(jnp.ones(3))
    ... except xpr.errors.NonConcreteBooleanIndexError:
    ...     print("use where")
    use where
    """


class UnexpectedTracerError(_Explained, XprError):
    """A tracer outlived the transformation that made it (a leak through a side effect).

    >>> import xpr
    >>> kept = []
    >>> _ = xpr.make_jaxpr(lambda x: kept.append(x))(1.0)
    >>> try:
    ...     kept[0] + 1
    ... except xpr.errors.UnexpectedTracerError:
    ...     print("x has left its function")
    x has left its function
    """


class InconclusiveDimensionOperation(_Explained, XprError):
    """A question about symbolic dimensions whose answer depends on their values.

    >>> from xpr.export import symbolic_shape
    >>> a, b = symbolic_shape("a, b")
    >>> a + b > a, a == b
    (True, False)
    >>> a > b  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    xpr.core.errors.InconclusiveDimensionOperation: Symbolic dimension comparison 'a' > 'b' is ...
    """


class KeyReuseError(_Explained, XprError):
    """A random key was used twice.

    >>> import xpr
    >>> issubclass(xpr.errors.KeyReuseError, xpr.errors.XprError)
    True
    """


class ShardingTypeError(_Explained, XprError):
    """Types that carry shardings contradict each other, or do not say how a result is sharded.

    Reshard an operand with `xpr.sharding.reshard`, or say it with the `out_sharding` argument.

    >>> import xpr
    >>> issubclass(xpr.errors.ShardingTypeError, xpr.errors.XprError)
    True
    """


class JaxRuntimeError(_Explained, RuntimeError):
    """An error raised while a compiled program ran.

    >>> import xpr
    >>> issubclass(xpr.errors.JaxRuntimeError, RuntimeError)
    True
    """


class OutOfMemoryError(JaxRuntimeError, MemoryError):
    """A device has not the memory that an array or a program asks for.

    The message begins with RESOURCE_EXHAUSTED and the bytes asked for, and names the largest arrays
    of the program and of the process.

    >>> import xpr
    >>> issubclass(xpr.errors.OutOfMemoryError, xpr.errors.JaxRuntimeError)
    True
    """


class CompileError(_Explained, XprError, RuntimeError):
    """The compiler refused a program under every set of flags.

    `stablehlo_path` is the file in which the program was saved (None if it could not be),
    `diagnostics` the compiler's own words, and `source_location` the user's (file, line, column)
    if it is known.

    >>> import xpr
    >>> error = xpr.errors.CompileError(
    ...     "refused", stablehlo_path=None, diagnostics="", source_location=("model.py", 3, 5)
    ... )
    >>> error.source_location
    ('model.py', 3, 5)
    """

    def __init__(
        self,
        message: str,
        *,
        stablehlo_path: str | None,
        diagnostics: str,
        source_location: tuple[str, int, int] | None,
    ) -> None:
        super().__init__(message)
        self.stablehlo_path = stablehlo_path
        self.diagnostics = diagnostics
        self.source_location = source_location


def note_user_line(error: BaseException, where: str) -> None:
    """Adds `where` (the user's line) to `error` as a note, once."""
    if not getattr(error, "_xpr_noted", False):
        error.add_note(where)
        try:
            error._xpr_noted = True  # type: ignore[attr-defined]
        except AttributeError:  # exceptions with __slots__ take a note but no attribute
            return


def shown(value: Any, limit: int = 200) -> str:
    """`repr(value)`, shortened for use in a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
