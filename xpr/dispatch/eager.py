"""The eager trace: an operation outside every transformation is computed at once.

On host devices the primitive's NumPy reference rule runs on views of the buffers; nothing is
compiled. Elsewhere, and for primitives that ask for it, the operation is compiled alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.primitive import Primitive
from xpr.core.trace import Trace, Tracer, check_python_int, get_aval, install_eager_trace, leaked
from xpr.dispatch import placement
from xpr.dispatch.array import ArrayImpl, freeze
from xpr.dispatch.sharded_array import HostMemoryArray
from xpr.runtimes.base import Device
from xpr.runtimes.host import HostBuffer

# Types of results by primitive, operand types and parameters: the abstract rules are pure.
_avals: dict[Any, Any] = {}
_MAX_AVALS = 1 << 14


def _result_types(
    primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> Any:
    # An int and a float parameter may be equal, so a parameter's type is part of the key.
    key: Any = (primitive, avals, state.enable_x64)
    if params:
        key = (*key, *((k, v, type(v)) for k, v in params.items()))
    try:
        found = _avals.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return primitive.abstract(*avals, **params)
    if found is None:
        found = primitive.abstract(*avals, **params)
        if len(_avals) >= _MAX_AVALS:
            _avals.clear()
        _avals[key] = found
    return found


class EagerTrace(Trace):
    """Computes each primitive when it is bound."""

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if primitive.eager == "inline":
            found = primitive.reference(*args, **params)
            return (
                _as_arrays(primitive, args, params, found) if primitive.multiple_results else found
            )
        if primitive.eager == "spmd" or (
            state.meshes is not None and placement.mesh_of_work() is not None
        ):
            return _on_several(primitive, args, params)
        avals: list[ShapedArray] = []
        hosts: list[np.ndarray[Any, Any]] = []
        device: Device | None = None
        committed = foreign = elsewhere = False
        for a in args:
            if type(a) is ArrayImpl:
                avals.append(a.aval)
                buffer = a._buffers[0]
                if type(buffer) is HostBuffer:
                    hosts.append(buffer.host_view())
                else:
                    elsewhere = True  # values come to the host only if the work is done there
                if a._committed:
                    if committed and device is not buffer.device:
                        placement.common_device(args, primitive.name)  # raises
                    device, committed = buffer.device, True
            elif isinstance(a, ArrayImpl):
                return _on_several(primitive, args, params)
            else:
                aval, host = host_value(a)
                avals.append(aval)
                hosts.append(host)
                foreign = foreign or isinstance(a, np.ndarray)
        if device is None:
            device = placement.default_device()
        if primitive.eager == "compile" or not device.runtime.is_host:
            from xpr.dispatch import compiled  # noqa: PLC0415  reached only when compiling

            return compiled.apply_primitive(primitive, args, params, device, committed)
        if elsewhere:
            hosts = [a._value if type(a) is ArrayImpl else host_value(a)[1] for a in args]
        found = _result_types(primitive, tuple(avals), params)
        with np.errstate(all="ignore"):
            result = primitive.reference(*hosts, **params)
        if primitive.multiple_results:
            if foreign:
                result = [own(r, args) for r in result]
            return [wrap(r, aval, device, committed) for r, aval in zip(result, found, strict=True)]
        if foreign:
            result = own(result, args)
        return wrap(result, found, device, committed)

    def process_on_several(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        return _on_several(primitive, args, params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], params: dict[str, Any]
    ) -> Sequence[Any]:
        return fun(*args)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], params: Any
    ) -> Sequence[Any]:
        return fun(*args)


def _on_several(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """An operation on arrays that several devices hold, or the host's memory beside them."""
    if any(type(a) is HostMemoryArray for a in args):
        from xpr.dispatch import memories  # noqa: PLC0415  few arrays are there

        return memories.apply(primitive, args, params)
    from xpr.dispatch import spmd_eager  # noqa: PLC0415  reached only with several devices

    return spmd_eager.apply(primitive, args, params)


def _as_arrays(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], results: Sequence[Any]
) -> list[Any]:
    """A program's results; literals and NumPy operands among them become arrays."""
    out = list(results)
    device = placement.default_device()
    if not device.runtime.is_host:
        return out
    types: Sequence[ShapedArray] = ()
    for i, x in enumerate(out):
        if isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)):
            if getattr(x, "dtype", None) == dtypes.float0:
                continue
            types = types or primitive.abstract(*map(get_aval, args), **params)
            out[i] = wrap(np.array(x, types[i].dtype), types[i], device, False)
    return out


def own(result: Any, args: Sequence[Any]) -> Any:
    """`result`, copied if it may lie in a NumPy operand's memory, to which its owner may write."""
    if type(result) is np.ndarray and any(
        isinstance(a, np.ndarray) and np.may_share_memory(result, a) for a in args
    ):
        return result.copy()
    return result


def wrap(result: Any, aval: ShapedArray, device: Device, committed: bool) -> ArrayImpl:
    """A NumPy result as an array of type `aval`."""
    if type(result) is not np.ndarray or result.dtype is not aval.dtype:
        result = np.asarray(result, dtype=aval.dtype)
    if state.debug_nans or state.debug_infs:
        check_finite(result)
    freeze(result)
    return ArrayImpl(aval, (HostBuffer(result, device),), committed)


def check_finite(result: np.ndarray[Any, Any]) -> None:
    """Raises FloatingPointError for what `debug_nans` and `debug_infs` look for."""
    if result.dtype.kind in "biu":
        return
    if state.debug_nans and np.isnan(result).any():
        raise FloatingPointError("invalid value (nan) encountered in an eager operation")
    if state.debug_infs and np.isinf(result).any():
        raise FloatingPointError("invalid value (inf) encountered in an eager operation")


def host_value(x: Any) -> tuple[ShapedArray, np.ndarray[Any, Any]]:
    """The aval and values of an operand that is not an array of xpr."""
    if isinstance(x, Tracer):
        raise leaked(x)
    aval = get_aval(x)
    if type(x) is int:
        check_python_int(x, aval.dtype)
    host = x._value if isinstance(x, ArrayImpl) else np.asarray(x)
    if host.dtype != aval.dtype:
        host = host.astype(aval.dtype)
    return aval, host


eager_trace = EagerTrace()
install_eager_trace(eager_trace)
