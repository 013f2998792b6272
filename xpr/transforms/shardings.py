"""`in_shardings` and `out_shardings` of `jit`, as far as they name single devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.errors import shown
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.placement import incompatible, where
from xpr.runtimes.base import Device
from xpr.sharding import Sharding


class UnspecifiedValue:
    """The default of `in_shardings` and `out_shardings`: placement follows the arguments."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()


def _is_place(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, UnspecifiedValue))


class Shardings:
    """What `jit` was told about the places of arguments and results, and the device that follows.

    Trees of shardings are prefixes of the tuple of arguments (static ones left out) and of the
    result. All shardings must agree about one device.
    """

    __slots__ = ("_known", "arguments", "device", "key", "results", "source")

    def __init__(self, in_shardings: Any, out_shardings: Any) -> None:
        if isinstance(in_shardings, list):
            in_shardings = tuple(in_shardings)
        self.arguments = in_shardings
        self.results = out_shardings
        inputs = _leaves("in_shardings", in_shardings)
        outputs = _leaves("out_shardings", out_shardings)
        self.device: Device | None = None
        self.source = ""
        for source, leaf in [
            *(("ARG_SHARDING", s) for s in inputs),
            *(("explicit output sharding", s) for s in outputs),
        ]:
            if isinstance(leaf, Sharding):
                self._add(source, leaf)
        trees = tuple(
            tree_util.tree_structure(t, is_leaf=_is_place) for t in (in_shardings, out_shardings)
        )
        self.key = (*trees, tuple(inputs), tuple(outputs))
        self._known: dict[Any, list[bool]] = {}

    def _add(self, source: str, sharding: Sharding) -> None:
        devices = sharding.device_set
        if len(devices) != 1:
            raise NotImplementedError(f"jit takes shardings of a single device, got {sharding}")
        device = next(iter(devices))
        if self.device is not None and device is not self.device:
            first = f"{self.source} {where(self.device)}"
            raise incompatible(first, f"{source} {where(device)}")
        if self.device is None:
            self.device, self.source = device, source

    def check_arguments(
        self, args: tuple[Any, ...], named: dict[str, Any], leaves: Sequence[Any],
        names: Iterable[str], function: str,
    ) -> None:  # fmt: skip
        """Raises ValueError for arguments that do not fit the shardings.

        That is: a structure of which `in_shardings` is no prefix, keyword arguments beside it, and
        arrays without a sharding that were put on another device.
        """
        if isinstance(self.arguments, UnspecifiedValue):
            moved = [False] * len(leaves)
        else:
            if named:
                raise ValueError(
                    "jit does not take keyword arguments when in_shardings is given, got "
                    f"{', '.join(sorted(named))}"
                )
            moved = self._moved(args)
        for leaf, may_move, name in zip(leaves, moved, names, strict=True):
            if may_move or type(leaf) is not ArrayImpl or not leaf.committed:
                continue
            if self.device is not None and leaf.device is not self.device:
                argument = f"argument {name} of {function} with shape {leaf.aval.strip_weak_type()}"
                raise incompatible(
                    f"{argument} and {where(leaf.device)}", f"{self.source} {where(self.device)}"
                )

    def _moved(self, args: tuple[Any, ...]) -> list[bool]:
        """For each leaf of the arguments whether a sharding says where it goes."""
        key = tree_util.tree_structure(args)
        found = self._known.get(key)
        if found is None:
            spec = self.arguments
            if isinstance(spec, tuple) and type(spec) is tuple and len(spec) != len(args):
                raise ValueError(
                    "in_shardings must be one sharding or a tuple with one entry for each "
                    f"positional argument that is not static: got {len(spec)} for {len(args)}"
                )
            places = tree_util.broadcast_prefix(spec, args, is_leaf=_is_place)
            found = self._known[key] = [isinstance(p, Sharding) for p in places]
        return found

    def check_results(self, out_tree: Any) -> None:
        """Raises ValueError when `out_shardings` is no prefix of the result's structure."""
        if not isinstance(self.results, UnspecifiedValue):
            result = tree_util.tree_unflatten(out_tree, range(out_tree.num_leaves))
            tree_util.broadcast_prefix(self.results, result, is_leaf=_is_place)


def _leaves(name: str, spec: Any) -> list[Any]:
    leaves = tree_util.tree_leaves(spec, is_leaf=_is_place)
    for leaf in leaves:
        if not _is_place(leaf):
            raise TypeError(
                f"{name} takes shardings (such as xpr.sharding.SingleDeviceSharding(device)) or "
                f"None, got {shown(leaf)} of type {type(leaf)}"
            )
    return leaves


def requested(in_shardings: Any, out_shardings: Any, device: Any) -> Shardings | None:
    """The shardings given to `jit`, or None without any; ValueError beside a device or backend."""
    given = [
        name
        for name, spec in (("in_shardings", in_shardings), ("out_shardings", out_shardings))
        if not isinstance(spec, UnspecifiedValue)
    ]
    if not given:
        return None
    if device is not None:
        raise ValueError(f"jit takes {given[0]} or a device or backend, not both: got {device!r}")
    return Shardings(in_shardings, out_shardings)
