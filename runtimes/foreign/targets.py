"""Which functions are called by which names, on which platforms; and types of their states."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from ctypes import POINTER, byref, c_int64, c_void_p, cast, pointer
from dataclasses import dataclass
from typing import Any

from xpr.runtimes.foreign import layouts
from xpr.runtimes.foreign.capsules import address_in, is_capsule
from xpr.runtimes.foreign.handles import raised
from xpr.runtimes.foreign.layouts import HANDLER, STAGES
from xpr.runtimes.foreign.status import ForeignError

HOST = "Host"
"""XLA's name of the platform whose functions run on the CPU."""

_PLATFORMS = {"cpu": HOST, "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM"}

_lock = threading.RLock()


@dataclass(frozen=True)
class Target:
    """The handlers of one name: the address for each stage, 0 where there is none."""

    name: str
    handlers: tuple[int, ...]
    traits: int = 0


@dataclass(frozen=True)
class StateType:
    """A type of states: its name, and the address of what deletes one (0 if it has none)."""

    name: str
    deleter: int


_targets: dict[tuple[str, str], Target] = {}
_untyped: dict[tuple[str, str], int] = {}
_state_types: dict[int, StateType] = {}
_batch_partitionable: set[str] = set()


def xla_platform(platform: str) -> str:
    """XLA's name of a platform."""
    return _PLATFORMS.get(platform, platform)


def _shown(platform: str) -> str:
    return f"platform {platform} (canonical {platform.lower()})"


def register_target(
    name: str, fn: Any, platform: str, api_version: int, traits: int, table: int
) -> None:
    """Gives a name to a function, or to one for each of several stages.

    `fn` is a capsule, or a dictionary of capsules by stages. Version 1 is XLA's typed interface, 0
    the older one without frames. Raises ForeignError for anything else, for a name that is taken,
    and for handlers of a version that cannot be called. `table` is as in `add_target`.
    """
    platform = xla_platform(platform)
    if api_version == 0:
        _register_untyped(name, fn, platform)
        return
    if api_version != 1:
        raise ForeignError(
            "UNIMPLEMENTED",
            f"API version {api_version} is not supported by RegisterCustomCallTarget. Supported "
            "versions are 0 and 1.",
        )
    stages: Mapping[str, Any] = {"execute": fn} if is_capsule(fn) else fn
    if not isinstance(stages, Mapping) or not all(map(is_capsule, stages.values())):
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"Unsupported custom call target type for api_version=1: {name} needs a capsule or a "
            f"dictionary of capsules by stages ({', '.join(STAGES)}), got {fn!r}",
        )
    unknown = [s for s in stages if s not in STAGES]
    if unknown:
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"{name} has handlers for the stages {', '.join(map(repr, unknown))}, which are none "
            f"of {', '.join(STAGES)}",
        )
    handlers = tuple(address_in(stages[s]) if s in stages else 0 for s in STAGES)
    add_target(name, platform, handlers, traits, table)


def add_target(
    name: str, platform: str, handlers: tuple[int, ...], traits: int, table: int
) -> None:
    """Registers handlers, when they have told their version. Raises ForeignError.

    `table` is the address of the functions that they may call when they are asked.
    """
    if not handlers[-1]:
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"FFI handler for {name} on a platform {platform} must provide an execute "
            "implementation",
        )
    # A handler answers with functions of the interface, so this comes before the lock.
    metadata = _metadata(handlers[-1], table)
    version = metadata.version
    if version.major != layouts.MAJOR or version.minor < layouts.OLDEST_MINOR:
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"XLA FFI handler registration for {name} on {_shown(platform)} failed because the "
            f"handler's API version ({version.major}.{version.minor}) is incompatible with the "
            f"framework's API version ({layouts.MAJOR}.{layouts.MINOR}). Minimum supported API "
            f"version is ({layouts.MAJOR}.{layouts.OLDEST_MINOR}).",
        )
    if handlers[layouts.INSTANTIATE]:
        _metadata(handlers[layouts.INSTANTIATE], table)
    found = Target(name, handlers, traits | metadata.traits)
    with _lock:
        known = _targets.setdefault((name, platform), found)
    if known.handlers != handlers:
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"Duplicate FFI handler registration for {name} on {_shown(platform)} with different "
            "bundle addresses",
        )


def _register_untyped(name: str, fn: Any, platform: str) -> None:
    if not is_capsule(fn):
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"Unsupported custom call target type for api_version=0: {name} needs a capsule, got "
            f"{fn!r}",
        )
    address = address_in(fn)
    with _lock:
        known = _untyped.setdefault((name, platform), address)
    if known != address:
        raise ForeignError(
            "ALREADY_EXISTS",
            f'Duplicate custom call registration detected for symbol "{name}" with different '
            f"addresses {address:#x} (current) and {known:#x} (previous) on platform {platform}",
        )


def target_of(name: str, platform: str = HOST) -> Target:
    """The handlers of that name; ForeignError if there are none."""
    try:
        return _targets[name, platform]
    except KeyError:
        raise ForeignError(
            "NOT_FOUND",
            f"No FFI handler registered for {name} on a {_shown(platform)}",
        ) from None


def untyped_of(name: str, platform: str = HOST) -> int:
    """The address of the function of that name of the older kind; ForeignError without one."""
    try:
        return _untyped[name, platform]
    except KeyError:
        raise ForeignError(
            "NOT_FOUND",
            f"No registered implementation for untyped custom call to {name} for {platform}",
        ) from None


def _metadata(handler: int, table: int) -> Any:
    """What a handler tells of itself."""
    metadata = layouts.Metadata.new()
    metadata.version.struct_size = layouts.Version.counted_size()
    extension = layouts.MetadataExtension()
    extension.base.struct_size = (
        layouts.MetadataExtension.metadata.offset + layouts.MetadataExtension.metadata.size
    )
    extension.base.type = layouts.METADATA
    extension.metadata = pointer(metadata)
    frame = layouts.Frame.new(
        api=table, extension_start=cast(byref(extension), c_void_p).value, stage=layouts.EXECUTE
    )
    for part in (frame.arguments, frame.results, frame.attributes):
        part.struct_size = type(part).counted_size()
    error = raised(HANDLER(handler)(byref(frame)))
    if error is not None:
        raise error
    return metadata


# ---- types of states


def register_type(name: str, registration: Any) -> None:
    """Gives a number to a type of states, and keeps how its states are deleted.

    `registration` holds capsules: in `type_id` the address of the number, in which the number is
    written unless there is one, and in `type_info`, if it is there, that of a `TypeInfo`.
    """
    if not isinstance(registration, Mapping) or "type_id" not in registration:
        raise ForeignError(
            "INVALID_ARGUMENT",
            "The type_id argument to register_custom_call_type must be a dictionary holding a "
            "pointer to a XLA_FFI_TypeId in `type_id` and optional pointer to a XLA_FFI_TypeInfo "
            f"in `type_info` fields: got {registration!r} for {name}",
        )
    number, info = registration["type_id"], registration.get("type_info")
    if not is_capsule(number) or not (info is None or is_capsule(info)):
        raise ForeignError(
            "INVALID_ARGUMENT",
            "Custom type registration requires handlers as PyCapsules: got "
            f"{registration!r} for {name}",
        )
    place = cast(address_in(number), POINTER(c_int64))
    deleter = 0
    if info is not None:
        deleter = cast(address_in(info), POINTER(layouts.TypeInfo)).contents.deleter or 0
    place[0] = add_type(name, place[0], deleter)


def add_type(name: str, number: int, deleter: int) -> int:
    """The number of a type of states: the given one, or a new one if that is 0."""
    with _lock:
        if number == 0:
            of_name = [n for n, t in _state_types.items() if t.name == name]
            number = of_name[0] if of_name else max(_state_types, default=0) + 1
        known = _state_types.get(number)
        if known is not None and known.name != name:
            raise ForeignError(
                "INVALID_ARGUMENT",
                f"Type id {number} of {name} is that of {known.name}, which was registered before",
            )
        if known is None or deleter:
            _state_types[number] = StateType(name, deleter)
        return number


def state_type(number: int) -> StateType:
    """The type of states of that number; ForeignError if there is none."""
    try:
        return _state_types[number]
    except KeyError:
        raise ForeignError(
            "INTERNAL", f"Type id {number} is not registered with a static registry"
        ) from None


# ---- batches


def register_batch_partitionable(name: str) -> None:
    """Says that the leading axes of what the target takes and gives are a batch."""
    _batch_partitionable.add(name)


def is_batch_partitionable(name: str) -> bool:
    """Whether devices may call the target on parts of a batch."""
    return name in _batch_partitionable
