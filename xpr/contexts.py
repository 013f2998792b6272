"""Settings for the length of a `with` block, in the current thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from xpr.core.compile_time_eval import ensure_compile_time_eval as ensure_compile_time_eval
from xpr.core.config import TRANSFER_WAYS, UserContext, override
from xpr.core.context import named
from xpr.core.wrapping import wraps
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import check_callable


def enable_x64(new_val: bool = True) -> AbstractContextManager[None]:
    """64-bit types are kept inside the block.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.enable_x64():
    ...     jnp.ones(1).dtype
    dtype('float64')
    """
    return override("enable_x64", new_val)


def default_device(new_val: Any) -> AbstractContextManager[None]:
    """Uncommitted work runs on this device (or on the first one of the platform named).

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.default_device(xpr.devices()[0]):
    ...     jnp.ones(2).device == xpr.devices()[0]
    True
    """
    return override("default_device", new_val)


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Jitted functions run operation by operation, so that prints and debuggers see values.

    >>> import xpr, xpr.numpy as jnp
    >>> f = xpr.jit(lambda x: 1 if x > 0 else -1)
    >>> with xpr.disable_jit():
    ...     f(jnp.float32(2))
    1
    """
    return override("disable_jit", disable)


def debug_nans(new_val: bool = True) -> AbstractContextManager[None]:
    """A NaN in a result raises FloatingPointError.

    >>> import xpr, xpr.numpy as jnp
    >>> try:
    ...     with xpr.debug_nans():
    ...         jnp.log(-1.0)
    ... except FloatingPointError as error:
    ...     print(error)
    invalid value (nan) encountered in log
    """
    return override("debug_nans", new_val)


def debug_infs(new_val: bool = True) -> AbstractContextManager[None]:
    """An infinity in a result raises FloatingPointError.

    >>> import xpr, xpr.numpy as jnp
    >>> try:
    ...     with xpr.debug_infs():
    ...         jnp.log(0.0)
    ... except FloatingPointError as error:
    ...     print(error)
    invalid value (inf) encountered in log
    """
    return override("debug_infs", new_val)


def log_compiles(new_val: bool = True) -> AbstractContextManager[None]:
    """Each compilation is logged as a warning of the logger `xpr.compile`.

    >>> import xpr
    >>> with xpr.log_compiles():
    ...     xpr.config.log_compiles
    True
    """
    return override("log_compiles", new_val)


def explain_cache_misses(new_val: bool = True) -> AbstractContextManager[None]:
    """A jitted function that is traced again warns with the cause.

    >>> import xpr
    >>> with xpr.explain_cache_misses():
    ...     xpr.jit(lambda x: x + 1)(1)
    Array(2, dtype=int32, weak_type=True)
    """
    return override("explain_recompile", new_val)


def enable_checks(new_val: bool = True) -> AbstractContextManager[None]:
    """Every jaxpr is checked after it was made.

    >>> import xpr
    >>> with xpr.enable_checks():
    ...     len(xpr.make_jaxpr(lambda x: x * 2 + 1)(1.0).eqns)
    2
    """
    return override("enable_checks", new_val)


def numpy_dtype_promotion(new_val: str) -> AbstractContextManager[None]:
    """Implicit dtype promotion in `xpr.numpy`: "standard" or "strict".

    >>> import xpr, xpr.numpy as jnp
    >>> try:
    ...     with xpr.numpy_dtype_promotion("strict"):
    ...         jnp.ones(2) + jnp.arange(2)
    ... except xpr.errors.TypePromotionError as error:
    ...     print(type(error).__name__)
    TypePromotionError
    """
    return override("numpy_dtype_promotion", new_val)


def numpy_rank_promotion(new_val: str) -> AbstractContextManager[None]:
    """Implicit rank promotion in `xpr.numpy`: "allow", "warn" or "raise".

    >>> import xpr
    >>> import xpr.numpy as jnp
    >>> try:
    ...     with xpr.numpy_rank_promotion("raise"):
    ...         jnp.ones((2, 2)) + jnp.ones(2)
    ... except ValueError as error:
    ...     print(type(error).__name__)
    ValueError
    """
    return override("numpy_rank_promotion", new_val)


def default_matmul_precision(new_val: str | None) -> AbstractContextManager[None]:
    """The precision of matrix products that name none.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.default_matmul_precision("highest"):
    ...     xpr.make_jaxpr(jnp.dot)(jnp.ones(2), jnp.ones(2)).eqns[0].params["precision"]
    (Precision.HIGHEST, Precision.HIGHEST)
    """
    return override("default_matmul_precision", new_val)


def check_tracer_leaks(new_val: bool = True) -> AbstractContextManager[None]:
    """A traced value that outlives the function it belongs to raises UnexpectedTracerError.

    After each trace the whole process is searched, which takes long.

    >>> import xpr
    >>> kept = []
    >>> try:
    ...     with xpr.check_tracer_leaks():
    ...         xpr.make_jaxpr(lambda x: kept.append(x))(1.0)
    ... except Exception as error:
    ...     print(type(error).__name__)
    UnexpectedTracerError
    """
    return override("check_tracer_leaks", new_val)


def checking_leaks() -> AbstractContextManager[None]:
    """As `check_tracer_leaks(True)`.

    >>> import xpr
    >>> with xpr.checking_leaks():
    ...     len(xpr.make_jaxpr(lambda x: x + 1)(1.0).eqns)
    1
    """
    return override("check_tracer_leaks", True)


def no_tracing(new_val: bool = True) -> AbstractContextManager[None]:
    """Calls of jitted functions that must be traced raise RuntimeError, naming the function.

    >>> import xpr
    >>> try:
    ...     with xpr.no_tracing():
    ...         xpr.jit(lambda x: x + 1)(1.0)
    ... except RuntimeError as error:
    ...     print(type(error).__name__)
    RuntimeError
    """
    return override("no_tracing", new_val)


def no_execution(new_val: bool = True) -> AbstractContextManager[None]:
    """Operations and programs that would run raise RuntimeError; tracing goes on.

    >>> import xpr
    >>> with xpr.no_execution():
    ...     xpr.eval_shape(xpr.numpy.sin, 1.0).dtype
    ...     xpr.jit(xpr.numpy.sin)(1.0)
    Traceback (most recent call last):
    RuntimeError: the program sin was to run, but 'no_execution' is set
    """
    return override("no_execution", new_val)


def allow_f16_reductions(new_val: bool = True) -> AbstractContextManager[None]:
    """Whether `lax.reduce_sum` takes float16 and bfloat16; if not, it raises ValueError.

    `numpy.sum` computes such sums in float32, and is not concerned.

    >>> import xpr, numpy as np
    >>> with xpr.allow_f16_reductions(False):
    ...     xpr.lax.reduce_sum(np.ones(3, np.float16), (0,))
    Traceback (most recent call last):
    ValueError: reduce_sum on operand float16[3] is not allowed when allow_f16_reductions is False
    """
    return override("allow_f16_reductions", new_val)


def make_user_context(default_value: Any = None) -> UserContext:
    """A context of the program's own: functions are traced anew for each of its values.

    What it returns has the current `value`, and is called with a hashable value for a `with`
    block. In it, a jitted function that reads the value is traced for that value.

    >>> import xpr
    >>> scale = xpr.make_user_context(1.0)
    >>> f = xpr.jit(lambda x: x * scale.value)
    >>> with scale(3.0):
    ...     print(f(2.0))
    6.0
    >>> print(f(2.0))
    2.0
    """
    return UserContext(default_value)


def default_prng_impl(new_val: str) -> AbstractContextManager[None]:
    """The random number generator of new keys; there is one, "threefry2x32".

    >>> import xpr
    >>> with xpr.default_prng_impl("threefry2x32"):
    ...     xpr.random.key_impl(xpr.random.key(0))
    'threefry2x32'
    """
    return override("default_prng_impl", new_val)


def threefry_partitionable(new_val: bool = True) -> AbstractContextManager[None]:
    """The layout of random bits of threefry2x32: False is JAX's older one.

    In the older one an element depends on the size of its array, so that the bits of a part of an
    array cannot be computed alone. Programs compiled in one of them stay in it.

    >>> import xpr
    >>> with xpr.threefry_partitionable(False):
    ...     xpr.random.bits(xpr.random.key(0), (2,))
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    return override("threefry_partitionable", new_val)


def enable_custom_prng(new_val: bool = True) -> AbstractContextManager[None]:
    """`xpr.random.PRNGKey` makes typed keys inside the block, as `xpr.random.key` does.

    >>> import xpr
    >>> with xpr.enable_custom_prng():
    ...     xpr.random.PRNGKey(0).dtype
    key<fry>
    """
    return override("enable_custom_prng", new_val)


def transfer_guard_host_to_device(new_val: str) -> AbstractContextManager[None]:
    """As `transfer_guard`, for values of the host that devices get.

    >>> import xpr
    >>> with xpr.transfer_guard_host_to_device("disallow"):
    ...     xpr.device_put(1.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return override("transfer_guard_host_to_device", new_val)


def transfer_guard_device_to_device(new_val: str) -> AbstractContextManager[None]:
    """As `transfer_guard`, for arrays that go from one device to another.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.transfer_guard_device_to_device("disallow"):
    ...     jnp.ones(2) + 1
    Array([2., 2.], dtype=float32)
    """
    return override("transfer_guard_device_to_device", new_val)


def transfer_guard_device_to_host(new_val: str) -> AbstractContextManager[None]:
    """As `transfer_guard`, for arrays that NumPy reads; the memory of CPU devices is the host's.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.transfer_guard_device_to_host("disallow"):
    ...     xpr.device_get(jnp.ones(2))
    array([1., 1.], dtype=float32)
    """
    return override("transfer_guard_device_to_host", new_val)


@contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """What to do about transfers inside the block.

    "allow" does nothing. "log" logs implicit ones (arguments of compiled programs that are no
    arrays, or are elsewhere; NumPy's reading of arrays of devices with memory of their own) as
    warnings of the logger `xpr.transfer`, "disallow" raises RuntimeError for them. "log_explicit"
    and "disallow_explicit" also mean `device_put` and `device_get`. Operations outside `jit` on
    CPU devices work in the host's memory, so they transfer nothing.

    >>> import numpy as np
    >>> import xpr
    >>> with xpr.transfer_guard("disallow"):
    ...     xpr.device_put(np.ones(2)) + 1
    Array([2., 2.], dtype=float32)
    """
    with ExitStack() as stack:
        for way in TRANSFER_WAYS:
            stack.enter_context(override(f"transfer_guard_{way}", new_val))
        yield


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun`, whose operations carry `name` (by default its own) in their source information.

    >>> import xpr
    >>> def double(x):
    ...     return x * 2
    >>> xpr.named_call(double, name="twice")(3.0)
    6.0
    """
    check_callable(fun, "named_call")

    @wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(name if name is not None else name_of(fun)):
            return fun(*args, **kwargs)

    return named


def named_scope(name: str) -> named:
    """Operations traced inside the block carry `name` in their source information.

    As a decorator, each call of the function is such a block.

    >>> import xpr
    >>> def f(x):
    ...     with xpr.named_scope("loss"):
    ...         return x * 2
    >>> xpr.make_jaxpr(f)(1.0).eqns[0].source_info.name_stack
    'loss'
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope name argument must be a string. Got {name!r}")
    return named(name)
