"""Process-wide settings, with overrides per thread.

Every setting has a name, a default, an environment variable `XPR_<NAME>` and a line of help.
`config.update(name, value)` changes it for the process; the context managers change it for the
current thread. JAX's spelling (`jax_enable_x64`) is understood too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

SHORTCUTS = (
    "device_functions",
    "dispatches",
    "merging",
    "objects",
    "plugins",
    "sessions",
    "short_passes",
    "templates",
    "tiles",
    "translation",
)
"""The names of the shortcuts around IREE's own way of compiling (`lowering/iree/shortcuts.py`)."""


class _State(threading.local):
    """Current values: class attributes are the process's, instance attributes a thread's own."""

    enable_x64: bool = False
    default_device: Any = None
    default_matmul_precision: str | None = None
    numpy_dtype_promotion: str = "standard"
    numpy_rank_promotion: str = "allow"
    disable_jit: bool = False
    debug_nans: bool = False
    traceback_filtering: str = "auto"
    debug_infs: bool = False
    enable_checks: bool = False
    log_compiles: bool = False
    explain_recompile: bool = False
    explain: str = "none"
    dump_ir_to: str = ""
    dump_ir_modes: str = "stablehlo"
    check_tracer_leaks: bool = False
    check_static_indices: bool = False
    no_tracing: bool = False
    transfer_guard_host_to_device: str = "allow"
    transfer_guard_device_to_device: str = "allow"
    transfer_guard_device_to_host: str = "allow"
    num_cpu_devices: int = 1
    async_dispatch: str = "auto"
    collective_timeout: float | None = None
    parallel_compiles: bool = True
    compiler: str = "auto"
    compiler_idle: float = 600.0
    compiler_timeout: float | Literal["auto"] | None = "auto"
    shortcuts: frozenset[str] = frozenset(SHORTCUTS)
    first_call: str = "wait"
    progress: bool = True
    threefry_partitionable: bool = True
    default_prng_impl: str = "threefry2x32"
    enable_custom_prng: bool = False
    no_execution: bool = False
    allow_f16_reductions: bool = True
    record: str = ""
    record_on: str = "error"
    record_last: int = 100
    sentinel: float = 0.0
    mutable_arrays: bool = False
    # The values of contexts that programs have made: no setting, but part of the trace key.
    user_contexts: tuple[Any, ...] = ()
    # The meshes in use, as `xpr.sharding.entered` keeps them: no setting, but part of the next.
    meshes: Any = None
    # Whether results whose sharding the types leave open have none, instead of an error.
    loose_types: bool = False
    # Whatever changes the meaning of a traced program; part of every trace-cache key.
    trace_key: tuple[Any, ...] = ()


state = _State()


class Setting(NamedTuple):
    """One setting: its name, the allowed values, whether it alters traced programs, and help."""

    name: str
    parse: Callable[[Any], Any]
    help: str
    in_trace_key: bool = False
    on_update: Callable[[Any], None] | None = None


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("1", "true", "yes", "on"):
            return True
        if text in ("0", "false", "no", "off", ""):
            return False
        raise ValueError(f"expected a truth value such as 1 or 0, got {value!r}")
    return bool(value)


def _positive(value: Any) -> int:
    number = int(value)
    if number < 1:
        raise ValueError(f"expected a positive integer, got {value!r}")
    return number


def _limit(value: Any) -> float | Literal["auto"] | None:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    return _seconds(value, "auto or none")


def _seconds(value: Any, others: str = "none") -> float | None:
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "none")):
        return None
    seconds = float(value)
    if not seconds > 0:
        raise ValueError(f"expected a positive number of seconds or {others}, got {value!r}")
    return seconds


def _idle(value: Any) -> float:
    seconds = float(value)
    if not 0 <= seconds < 1e6:
        raise ValueError(f"expected seconds from 0 to a million, got {value!r}")
    return seconds


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {value!r}")
        return value

    return parse


def _modes(value: Any) -> str:
    parse = _one_of("stablehlo", "jaxpr")
    return ",".join(parse(mode.strip()) for mode in str(value).split(","))


def _shortcuts(value: Any) -> frozenset[str]:
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("on", "off", ""):
            return frozenset(SHORTCUTS if text == "on" else ())
        value = [name.strip() for name in text.split(",")]
    unknown = sorted(set(value) - set(SHORTCUTS))
    if unknown:
        raise ValueError(
            f"expected on, off or names out of {', '.join(SHORTCUTS)}, got {', '.join(unknown)}"
        )
    return frozenset(value)


TRANSFER_WAYS = ("host_to_device", "device_to_device", "device_to_host")
TRANSFER_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")


def _any(value: Any) -> Any:
    return value


_PRECISIONS = ("highest", "float32", "high", "bfloat16_3x", "tensorfloat32", "default", "bfloat16")


def _precision(value: Any) -> Any:
    # The names of algorithms, such as TF32_TF32_F32, are known to the primitives only.
    is_algorithm = isinstance(value, str) and value.isupper() and "_" in value
    if isinstance(value, str) and not is_algorithm and value not in (*_PRECISIONS, "fastest"):
        raise ValueError(
            f"new enum value must be None or in {list(_PRECISIONS)} or the name of an algorithm, "
            f"got {value!r}"
        )
    return value


def _device(value: Any) -> Any:
    # Devices are known to the runtimes only; whether a platform of that name exists shows on use.
    if value is None or isinstance(value, str) or hasattr(value, "device_kind"):
        return value
    raise ValueError(
        "expected a device (such as xpr.devices('cpu')[0]), a platform name (such as 'cpu') or "
        f"None, got {value!r}"
    )


class _Watching:
    """What runs all calls of jitted functions at present, such as a recorder, or None."""

    __slots__ = ("watcher",)

    def __init__(self) -> None:
        self.watcher: Callable[..., Any] | None = None


watching = _Watching()


def set_watcher(watcher: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Has `watcher(name, closed, parts, run)` run all calls of jitted functions; returns the old.

    As long as there is one, calls are not found by the addresses of the keys of settings, so that
    each comes to the slow path, and the fast one has nothing to ask.
    """
    old, watching.watcher = watching.watcher, watcher
    _set_keys_apart(watcher is not None)
    return old


def _rate(value: Any) -> float:
    rate = float(value)
    if not 0 <= rate <= 1:
        raise ValueError(f"expected a rate from 0 to 1, got {value!r}")
    return rate


def _watch_over(rate: float) -> None:
    set_watcher(_begin_sentinel if rate else None)


def _begin_sentinel(*call: Any) -> Any:
    """Has the sentinel of the settings look at calls, this one first."""
    import importlib  # noqa: PLC0415  few programs have one

    # Not an import of this layer, as for the recorder.
    sentinel = importlib.import_module("xpr.recording.sentinel").of_settings()
    sentinel.start()
    return sentinel(*call)


def _record_to(folder: str) -> None:
    set_watcher(_record_first_call if folder else None)


def _record_first_call(*call: Any) -> Any:
    """Has the recorder of the settings run all calls, this one first."""
    import importlib  # noqa: PLC0415  few programs record

    # Not an import of this layer: what records is above all that computes.
    recorder = importlib.import_module("xpr.recording.recorder").of_settings()
    set_watcher(recorder)
    return recorder(*call)


def _record_when(value: Any) -> str:
    text = str(value)
    rate = text.removeprefix("sample:")
    if text not in ("error", "nan", "always") and rate == text:
        raise ValueError(f"expected error, nan, always or sample:RATE, got {value!r}")
    if rate != text and not 0 < float(rate) <= 1:
        raise ValueError(f"expected a rate above 0 and up to 1, got {value!r}")
    return text


_SETTINGS: dict[str, Setting] = {
    s.name: s
    for s in (
        Setting(
            "enable_x64", _bool, "64-bit types are kept; otherwise 32-bit ones replace them", True
        ),
        Setting("default_device", _device, "device (or platform name) of uncommitted work", True),
        Setting("default_matmul_precision", _precision, "precision of matrix products", True),
        Setting(
            "numpy_dtype_promotion",
            _one_of("standard", "strict"),
            "implicit dtype promotion in xpr.numpy",
            True,
        ),
        Setting(
            "numpy_rank_promotion",
            _one_of("allow", "warn", "raise"),
            "implicit rank promotion in xpr.numpy",
            True,
        ),
        Setting("disable_jit", _bool, "jit runs its function operation by operation", True),
        Setting("debug_nans", _bool, "a NaN in a result raises FloatingPointError", True),
        Setting("debug_infs", _bool, "an infinity in a result raises FloatingPointError", True),
        Setting(
            "traceback_filtering",
            _one_of("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"),
            "whether xpr's own frames are left out of tracebacks; auto is remove_frames",
        ),
        Setting("enable_checks", _bool, "check every jaxpr after it was made"),
        Setting("log_compiles", _bool, "log each compilation"),
        Setting(
            "explain_recompile", _bool, "warn with the cause when a jitted function recompiles"
        ),
        Setting("dump_ir_to", os.fspath, "folder for the text of each program that is compiled"),
        Setting(
            "dump_ir_modes", _modes, "what to write there: stablehlo, jaxpr, or both with a comma"
        ),
        Setting(
            "explain",
            _one_of("none", "loops"),
            "what to log the reasons for: loops that do not become one dispatch",
        ),
        Setting("check_tracer_leaks", _bool, "check that no tracer outlives its trace", True),
        Setting(
            "check_static_indices",
            _bool,
            "reads by a Python int out of bounds raise IndexError, unless a mode says otherwise",
            True,
        ),
        Setting("no_tracing", _bool, "tracing a jitted function raises RuntimeError"),
        *(
            Setting(
                f"transfer_guard_{way}", _one_of(*TRANSFER_LEVELS), f"{way} transfers: what to do"
            )
            for way in TRANSFER_WAYS
        ),
        Setting("num_cpu_devices", _positive, "number of CPU devices; set before the first use"),
        Setting(
            "async_dispatch",
            _one_of("auto", "always", "never"),
            "whether programs return before they have run: auto is for devices with memory of "
            "their own and for large CPU programs; set before a function is compiled",
        ),
        Setting(
            "collective_timeout",
            _seconds,
            "seconds that a device waits for others in a collective; none waits for ever",
        ),
        Setting(
            "parallel_compiles",
            _bool,
            "a compile uses several cores; without, it takes less processor time in all",
        ),
        Setting(
            "compiler",
            _one_of("auto", "process", "inline"),
            "where programs are compiled: in a helper process, which all processes of a user "
            "share, or in this one; auto is a helper where there can be one",
        ),
        Setting("compiler_idle", _idle, "seconds without work after which a helper process ends"),
        Setting(
            "compiler_timeout",
            _limit,
            "seconds after which a helper process gives a compile up, and the program is compiled "
            "in a simpler form; auto: many times what programs of its size take, 60 at least; none "
            "lets it take any time",
        ),
        Setting(
            "shortcuts",
            _shortcuts,
            "which shortcuts around IREE's own way of compiling are taken: on, off, or a list of "
            "names; without one, compiles take longer",
        ),
        Setting(
            "first_call",
            _one_of("wait", "race"),
            "whether the first call of a jitted function waits for the compiler, or is computed by "
            "NumPy if that is faster; the last bits of the results may differ then",
        ),
        Setting(
            "progress",
            _bool,
            "a line on a terminal or in a notebook says what takes longer than a second",
        ),
        Setting(
            "threefry_partitionable", _bool, "layout of random bits; False is the older one", True
        ),
        Setting("default_prng_impl", _any, "random number generator of new keys", True),
        Setting("enable_custom_prng", _bool, "PRNGKey makes typed keys, as key does", True),
        Setting("no_execution", _bool, "running an operation or a program raises", True),
        Setting(
            "allow_f16_reductions",
            _bool,
            "sums of float16 and bfloat16 are computed in these types; otherwise they raise",
            True,
        ),
        Setting(
            "record",
            os.fspath,
            "folder to which calls of jitted functions are recorded",
            on_update=_record_to,
        ),
        Setting(
            "record_on",
            _record_when,
            "which calls are recorded: error, nan, always, or sample:RATE",
        ),
        Setting(
            "sentinel",
            _rate,
            "the share of calls that a background process computes again by the reference rules",
            on_update=_watch_over,
        ),
        Setting("record_last", _positive, "number of recorded calls that the folder keeps"),
        Setting("mutable_arrays", _bool, "concrete arrays take x[i] = v, as NumPy's do"),
    )
}


# Settings that JAX has under another name.
_JAX_NAMES = {"explain_cache_misses": "explain_recompile"}


class Config:
    """The settings of xpr: read them as attributes, change them with `update`.

    >>> import xpr
    >>> xpr.config.enable_x64
    False
    """

    def __getattr__(self, name: str) -> Any:
        if name in extras:
            return extras[name]()
        return self.read(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"use xpr.config.update({name!r}, value) to change a setting")

    def __dir__(self) -> list[str]:
        return [*_SETTINGS, "read", "update", "describe"]

    def read(self, name: str) -> Any:
        """The current value of the setting `name`."""
        if name in foreign:
            return foreign[name]
        return getattr(state, _canonical(name, AttributeError))

    def update(self, name: str, value: Any) -> None:
        """Sets `name` to `value` for the process.

        Raises AttributeError for an unknown name and ValueError for a value that is not allowed.
        """
        if name in foreign:
            for hook in _foreign_hooks:
                hook(name, value)
            foreign[name] = value
            return
        setting = _SETTINGS[_canonical(name, AttributeError)]
        parsed = _parse(setting, value)
        if setting.on_update is not None:
            setting.on_update(parsed)
        setattr(_State, setting.name, parsed)
        state.__dict__.pop(setting.name, None)
        if setting.in_trace_key:
            _refresh_trace_key()

    def describe(self) -> str:
        """A line for each setting: its name, its value and what it does."""
        return "\n".join(
            f"{s.name}={getattr(state, s.name)!r}  {s.help}" for s in _SETTINGS.values()
        )


foreign: dict[str, Any] = {}
"""Settings of JAX's that have no name here, and their values (`xpr/compat/settings.py`)."""

extras: dict[str, Callable[[], Any]] = {}
"""What gives the attributes that only JAX's `config` has (`xpr/compat/settings.py`)."""

_foreign_hooks: list[Callable[[str, Any], None]] = []


def on_foreign(hook: Callable[[str, Any], None]) -> None:
    """Calls `hook(name, value)` before one of `foreign` changes."""
    if hook not in _foreign_hooks:
        _foreign_hooks.append(hook)


def _canonical(name: str, error: type[Exception]) -> str:
    short = name.removeprefix("jax_").removeprefix("xpr_").lower()
    short = _JAX_NAMES.get(short, short)
    if short not in _SETTINGS:
        raise error(
            f"Unrecognized config option: {name!r}; the settings are {', '.join(_SETTINGS)}"
        )
    return short


def _parse(setting: Setting, value: Any) -> Any:
    try:
        return setting.parse(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"setting {setting.name}: {error}") from None


def parse_setting(name: str, value: Any) -> Any:
    """A value as the setting `name` keeps it; ValueError for one that is not allowed."""
    return _parse(_SETTINGS[name], value)


def on_update(name: str, hook: Callable[[Any], None]) -> None:
    """Calls `hook(value)` before `name` changes; the hook may refuse by raising."""
    s = _SETTINGS[name]
    _SETTINGS[name] = Setting(s.name, s.parse, s.help, s.in_trace_key, hook)


def trace_key_names() -> tuple[str, ...]:
    """What the entries of `state.trace_key` are."""
    return (
        *(s.name for s in _SETTINGS.values() if s.in_trace_key),
        "meshes",
        "loose_types",
        "user_contexts",
    )


# Equal keys are one object, so that the native part can tell them apart by their addresses.
_trace_keys: dict[tuple[Any, ...], tuple[Any, ...]] = {}
_MAX_TRACE_KEYS = 4096


_other_keys: dict[tuple[Any, ...], tuple[Any, ...]] = {}
_keys_are_apart = False


def _set_keys_apart(apart: bool) -> None:
    """Makes the keys of settings other objects than before, equal to those; or the old ones again.

    What finds calls by the addresses of keys finds none of them then, while everything else does.
    A thread with settings of its own changes to the new keys when it changes a setting.
    """
    global _trace_keys, _other_keys, _keys_are_apart
    if apart != _keys_are_apart:
        _trace_keys, _other_keys, _keys_are_apart = _other_keys, _trace_keys, apart
        _refresh_trace_key()


def _trace_key_of(settings: Any) -> tuple[Any, ...]:
    key = tuple(getattr(settings, n) for n in trace_key_names())
    if len(_trace_keys) >= _MAX_TRACE_KEYS:
        _trace_keys.clear()
    return _trace_keys.setdefault(key, key)


def _refresh_trace_key() -> None:
    _State.trace_key = _trace_key_of(_State)
    # A thread with an override of its own keeps a key of its own.
    if any(n in state.__dict__ for n in trace_key_names()):
        state.trace_key = _trace_key_of(state)
    else:
        state.__dict__.pop("trace_key", None)


def trace_settings() -> dict[str, Any]:
    """The settings that alter traced programs, but for where these run."""
    return {n: getattr(state, n) for n in trace_key_names() if n != "default_device"}


@contextmanager
def override(name: str, value: Any) -> Iterator[None]:
    """Sets `name` for the current thread inside a `with` block."""
    setting = _SETTINGS[_canonical(name, AttributeError)]
    parsed = _parse(setting, value)
    own = state.__dict__
    had, old = setting.name in own, own.get(setting.name)
    own[setting.name] = parsed
    if setting.in_trace_key:
        _refresh_trace_key()
    try:
        yield
    finally:
        if had:
            own[setting.name] = old
        else:
            own.pop(setting.name, None)
        if setting.in_trace_key:
            _refresh_trace_key()


def set_meshes(meshes: Any) -> None:
    """Sets the meshes in use in the current thread, or none; see `xpr.sharding.entered`."""
    if meshes is None:
        state.__dict__.pop("meshes", None)
    else:
        state.__dict__["meshes"] = meshes
    _refresh_trace_key()


@contextmanager
def loose_types() -> Iterator[None]:
    """Inside the block, results whose sharding the types leave open have none: no error."""
    own = state.__dict__
    before = own.get("loose_types", False)
    own["loose_types"] = True
    _refresh_trace_key()
    try:
        yield
    finally:
        if before:
            own["loose_types"] = before
        else:
            own.pop("loose_types", None)
        _refresh_trace_key()


class UserContext:
    """A value of a program's own that traced functions may depend on; see `make_user_context`."""

    def __init__(self, default: Any) -> None:
        self._default = default

    @property
    def value(self) -> Any:
        """The value that is current in this thread."""
        return dict(state.user_contexts).get(self, self._default)

    @contextmanager
    def __call__(self, value: Any) -> Iterator[None]:
        """A context in which that is the value. It must be hashable: TypeError if it is not."""
        hash(value)
        own = state.__dict__
        before = own.get("user_contexts")
        known = dict(state.user_contexts)
        known[self] = value
        own["user_contexts"] = tuple(known.items())
        _refresh_trace_key()
        try:
            yield
        finally:
            if before is None:
                own.pop("user_contexts", None)
            else:
                own["user_contexts"] = before
            _refresh_trace_key()


def own_settings() -> dict[str, Any]:
    """What the current thread has overridden; for `with_settings` in another thread."""
    return dict(state.__dict__)


@contextmanager
def with_settings(settings: dict[str, Any]) -> Iterator[None]:
    """Overrides in the current thread what another one had; see `own_settings`."""
    own = state.__dict__
    before = dict(own)
    own.clear()
    own.update(settings)
    try:
        yield
    finally:
        own.clear()
        own.update(before)


config = Config()

# SciPy's own switch: its functions assign to the arrays that they make.
if os.environ.get("SCIPY_ARRAY_API", "").strip().lower() in ("1", "true"):
    config.update("mutable_arrays", True)
for _name in _SETTINGS:
    _text = os.environ.get(f"XPR_{_name.upper()}")
    if _text is not None:
        config.update(_name, _text)
_refresh_trace_key()
