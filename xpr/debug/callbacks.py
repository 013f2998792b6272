"""`debug.callback` and `debug.print`: looking at values wherever they are computed."""

from __future__ import annotations

import logging
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.callbacks import local_arrays
from xpr.core.effects import DEBUG, ORDERED_DEBUG
from xpr.core.errors import shown
from xpr.core.trace import is_valid_value, outside_programs
from xpr.primitives.callback import debug_callback_p
from xpr.transforms.signature import name_of

_log = logging.getLogger("xpr.debug")


@dataclass(frozen=True, eq=False)
class Observer:
    """A user's function of pytrees as one of the arrays among their leaves."""

    caller: str
    callback: Callable[..., Any]
    tree: Any
    leaves: tuple[Any, ...]
    """Each leaf that is no array as it is, None for the others."""

    places: tuple[int, ...]
    """Where the arrays are among the leaves."""

    def __call__(self, *operands: Any) -> list[Any]:
        with outside_programs():
            leaves = list(self.leaves)
            for i, x in zip(self.places, local_arrays(operands), strict=True):
                leaves[i] = x
            args, kwargs = tree_util.tree_unflatten(self.tree, leaves)
            self.callback(*args, **kwargs)
        return []

    def __str__(self) -> str:
        return f"{self.caller} of {name_of(self.callback)}"


def observe(
    caller: str,
    callback: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    ordered: bool,
    *,
    is_dynamic: Callable[[Any], bool] = is_valid_value,
) -> None:
    """Calls `callback` with the values of `args` and `kwargs` whenever the program comes here.

    Leaves that are not `is_dynamic` are passed as they are now.
    """
    leaves, tree = tree_util.tree_flatten((tuple(args), dict(kwargs)))
    places = tuple(i for i, x in enumerate(leaves) if is_dynamic(x))
    fixed = tuple(None if i in places else x for i, x in enumerate(leaves))
    debug_callback_p.bind(
        *(leaves[i] for i in places),
        callback=Observer(caller, callback, tree, fixed, places),
        effect=ORDERED_DEBUG if ordered else DEBUG,
    )


def _refuse_arguments(caller: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if args or kwargs:
        raise TypeError(
            f"{caller} received unexpected arguments in the two-call form, whose first call takes "
            f"options only: got {args=} {kwargs=}"
        )


def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Calls a Python function with the values of its arguments, whenever the program comes here.

    Derivatives and batches leave the call in place: `grad` calls it with the values of the function
    itself, `vmap` for each example. What is computed twice (`checkpoint`) is shown twice. The
    function's result is ignored; what it raises arrives at the caller. Arguments that are no arrays
    are passed as they are. Without a first argument the result is a function that takes the others,
    so that options do not mix with them: `debug.callback(ordered=True)(f, x)`.

    Calls happen in the order in which the program makes them. Raises NotImplementedError
    when exported, since such a program cannot call Python.

    >>> import xpr
    >>> def f(x):
    ...     xpr.debug.callback(lambda v: print("x is", v), x)
    ...     return x * x
    >>> xpr.jit(xpr.grad(f))(3.0)
    x is 3.0
    Array(6., dtype=float32, weak_type=True)
    """
    del partitioned  # values are on one device

    def call(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        if not callable(callback):
            raise TypeError(
                "first argument to jax.debug.callback must be callable, but got an object of type "
                f"{type(callback)}: {shown(callback)}"
            )
        observe("debug.callback", callback, args, kwargs, ordered)

    if callback is None:
        _refuse_arguments("debug_callback", args, kwargs)
        return call
    call(callback, *args, **kwargs)
    return None


class _FieldChecker(string.Formatter):
    """Finds out whether a format's fields and the arguments fit, without formatting any value."""

    def format_field(self, value: Any, format_spec: str) -> str:
        del value, format_spec
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        del conversion
        return value

    def check_unused_args(
        self, used_args: set[int | str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        extra = [shown(x) for i, x in enumerate(args) if i not in used_args]
        if extra:
            raise ValueError(
                f"Unused positional arguments to `jax.debug.print`: {', '.join(extra)}"
            )
        names = [name for name in kwargs if name not in used_args]
        if names:
            raise ValueError(
                f"Unused keyword arguments to `jax.debug.print`: {names}. The format is "
                "filled in when the program runs: pass a plain string, not an f-string."
            )


@dataclass(frozen=True)
class _Printer:
    """Fills a format in and prints it."""

    fmt: str
    options: tuple[tuple[str, Any], ...]
    """NumPy's print options at the place of the call."""

    to_log: bool

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**dict(self.options)):
            text = self.fmt.format(*args, **kwargs)
        if self.to_log:
            _log.info("%s", text)
        else:
            sys.stdout.write(text + "\n")

    @property
    def __name__(self) -> str:
        return repr(self.fmt)


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Prints `fmt.format(*args, **kwargs)` with the values of arrays, whenever the program is here.

    Works under `jit`, `grad` and `vmap`, in loops and branches, as `debug.callback` does. The
    format is a plain string, since an f-string would be filled in while the program is traced.
    Without a first argument the result is a function that takes the others.

    Raises IndexError or KeyError for a field without an argument, ValueError for an argument
    without a field (both unless `skip_format_check`).

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.jit
    ... def f(x):
    ...     y = jnp.sin(x)
    ...     xpr.debug.print("sin({x:.1f}) = {y:.3f}", x=x, y=y)
    ...     return y
    >>> _ = f(1.0)
    sin(1.0) = 0.841
    """
    del partitioned  # values are on one device

    def call(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fmt, str):
            raise TypeError(f"debug.print takes a format string, got {shown(fmt)} of {type(fmt)}")
        if not skip_format_check:
            _FieldChecker().vformat(fmt, args, kwargs)
        printer = _Printer(fmt, tuple(np.get_printoptions().items()), _use_logging)
        observe("debug.print", printer, args, kwargs, ordered)

    if fmt is None:
        _refuse_arguments("debug_print", args, kwargs)
        return call
    call(fmt, *args, **kwargs)
    return None


def debug_log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Writes what `debug.print` prints to the logger `xpr.debug`, at level INFO.

    Arguments and errors as for `debug.print`.

    >>> import logging, xpr
    >>> logger = logging.getLogger("xpr.debug")
    >>> records = []
    >>> logger.addFilter(lambda record: records.append(record.getMessage()))
    >>> logger.setLevel(logging.INFO)
    >>> xpr.jit(lambda x: xpr.debug.log("x is {}", x))(3)
    >>> records
    ['x is 3']
    >>> logger.filters.clear(); logger.setLevel(logging.NOTSET)
    """
    return debug_print(
        fmt,
        *args,
        ordered=ordered,
        partitioned=partitioned,
        skip_format_check=skip_format_check,
        _use_logging=True,
        **kwargs,
    )
