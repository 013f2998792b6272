"""`jax.monitoring`: events that libraries record, and listeners to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listener = Callable[..., None]

_listeners: dict[str, list[Listener]] = {"event": [], "duration": [], "scalar": [], "span": []}


def _tell(kind: str, *values: Any, **metadata: Any) -> None:
    for listener in list(_listeners[kind]):
        listener(*values, **metadata)


def record_event(event: str, **kwargs: Any) -> None:
    """Tells that something happened."""
    _tell("event", event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: Any) -> None:
    """Tells how many seconds something took."""
    _tell("duration", event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Any) -> None:
    """Tells when something began and ended, in seconds since 1970."""
    _tell("span", event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: Any) -> None:
    """Tells a number."""
    _tell("scalar", event, value, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """Has `callback(event, **metadata)` called for each event."""
    _listeners["event"].append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Has `callback(event, seconds, **metadata)` called for each duration."""
    _listeners["duration"].append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Has `callback(event, start, end, **metadata)` called for each span."""
    _listeners["span"].append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Has `callback(event, value, **metadata)` called for each number."""
    _listeners["scalar"].append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Takes a listener back; ValueError if it is none."""
    _listeners["event"].remove(callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Takes a listener back; ValueError if it is none."""
    _listeners["duration"].remove(callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Takes a listener back; ValueError if it is none."""
    _listeners["span"].remove(callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Takes a listener back; ValueError if it is none."""
    _listeners["scalar"].remove(callback)


def clear_event_listeners() -> None:
    """Takes all listeners back."""
    for listeners in _listeners.values():
        listeners.clear()
