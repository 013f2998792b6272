"""The eager trace: an operation outside every transformation is computed at once.

On host devices the primitive's NumPy reference rule runs on views of the buffers; nothing is
compiled. Elsewhere, and for primitives that ask for it, the operation is compiled alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.extended_array import ExtendedArray, base_of, with_type
from xpr.core.physical import is_extended_aval, params_have_extended
from xpr.core.primitive import Primitive
from xpr.core.trace import Trace, context, get_aval, install_eager_trace
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.default_device import default_device, mesh_of_work
from xpr.dispatch.host_values import host_value, own, wrap
from xpr.dispatch.placement import common_device
from xpr.dispatch.resharding import install_reshard_program
from xpr.dispatch.sharded_array import HostMemoryArray
from xpr.interpreters.physical import bind_physical
from xpr.runtimes import exhausted
from xpr.runtimes.base import Device
from xpr.runtimes.extension import native
from xpr.runtimes.host import HostBuffer

# Types of results by primitive, operand types and parameters: the abstract rules are pure.
_avals: dict[Any, Any] = {}
_MAX_AVALS = 1 << 14


def _out_of_memory(shortage: exhausted.Shortage) -> BaseException:
    from xpr.dispatch.out_of_memory import error_of  # noqa: PLC0415  only for an error

    return error_of(shortage)


exhausted.on_shortage(_out_of_memory)


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


_native: Any = native().module


def _quiet() -> tuple[Any, Any, Any] | None:
    """How NumPy's warnings are switched off and on again, in less time than `numpy.errstate` takes.

    None where this version of NumPy keeps its settings otherwise.
    """
    try:
        settings: Any = importlib.import_module("numpy._core.umath")._extobj_contextvar
    except (ImportError, AttributeError):
        return None
    with np.errstate(all="ignore"):
        quiet = settings.get()
    return settings.set, quiet, settings.reset


_apply_again: Any = None
"""Does operations again that are like earlier ones, where the native part was built."""
if _native is not None:
    _way = _quiet()
    if _way is not None:
        _native.be_quiet_by(*_way)
        _apply_again = _native.apply_again


class EagerTrace(Trace):
    """Computes each primitive when it is bound."""

    lowers = True

    def runs_eagerly(self) -> bool:
        return True

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if _apply_again is not None:
            found = _apply_again(primitive, args, params)
            if found is not None:
                return found
        if primitive.eager == "inline":
            found = primitive.reference(*args, **params)
            return (
                _as_arrays(primitive, args, params, found) if primitive.multiple_results else found
            )
        if state.no_execution:
            raise RuntimeError(
                f"the operation {primitive.name} was to run, but 'no_execution' is set"
            )
        if primitive.eager == "spmd" or (state.meshes is not None and mesh_of_work() is not None):
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
                        common_device(args, primitive.name)  # raises
                    device, committed = buffer.device, True
            elif isinstance(a, ArrayImpl):
                return _on_several(primitive, args, params)
            elif type(a) is ExtendedArray:
                return _on_elements(primitive, args, params)
            else:
                aval, host = host_value(a)
                avals.append(aval)
                hosts.append(host)
                foreign = foreign or isinstance(a, np.ndarray)
        if device is None:
            device = default_device()
        if primitive.eager == "compile" or not device.runtime.is_host:
            from xpr.dispatch import compiled  # noqa: PLC0415  reached only when compiling

            if params_have_extended(params):
                return _on_elements(primitive, args, params)
            return compiled.apply_primitive(primitive, args, params, device, committed)
        if elsewhere:
            hosts = [a._value if type(a) is ArrayImpl else host_value(a)[1] for a in args]
        found = _result_types(primitive, tuple(avals), params)
        if not primitive.multiple_results and is_extended_aval(found):
            return _on_elements(primitive, args, params)
        try:
            with np.errstate(all="ignore"):
                result = primitive.reference(*hosts, **params)
        except MemoryError as error:
            exhausted.reraise(error, device)
            raise
        if primitive.multiple_results:
            if foreign:
                result = [own(r, args) for r in result]
            return [
                wrap(r, aval, device, committed, primitive.name)
                for r, aval in zip(result, found, strict=True)
            ]
        if foreign:
            result = own(result, args)
        out = wrap(result, found, device, committed, primitive.name)
        if _apply_again is not None:
            _native.learn_apply(primitive, primitive.reference, args, params, out)
        return out

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
    kinds = {type(a) for a in args}
    if ExtendedArray in kinds or (params and params_have_extended(params)):
        return _on_elements(primitive, args, params)
    if HostMemoryArray in kinds:
        from xpr.dispatch import memories  # noqa: PLC0415  few arrays are there

        return memories.apply(primitive, args, params)
    from xpr.dispatch import spmd_eager  # noqa: PLC0415  reached only with meshes

    return spmd_eager.apply(primitive, args, params)


def _on_elements(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """An operation on arrays of extended dtypes: it is done on their numbers."""
    avals = tuple(get_aval(a) for a in args)
    found = _result_types(primitive, avals, params)
    out = bind_physical(primitive, avals, [base_of(a) for a in args], params)
    if not primitive.multiple_results:
        return with_type(found, out[0])
    return [with_type(aval, x) for aval, x in zip(found, out, strict=True)]


def _as_arrays(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], results: Sequence[Any]
) -> list[Any]:
    """A program's results; literals and NumPy operands among them become arrays."""
    out = list(results)
    device = default_device()
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


def _reshard_program(*args: Any) -> Any:
    """Loads the partitioner when the first array of several processes is resharded."""
    from xpr.dispatch.spmd_reshard import reshard_program  # noqa: PLC0415  few programs need it

    install_reshard_program(reshard_program)
    return reshard_program(*args)


def _leaves_results_alone() -> bool:
    """Whether the settings ask for nothing beside the result of an operation."""
    return not (state.debug_nans or state.debug_infs or state.no_execution) and state.meshes is None


eager_trace = EagerTrace()
install_eager_trace(eager_trace)
if _native is not None:
    _native.learn_operators(
        Array, context, eager_trace, state, _leaves_results_alone, default_device
    )
install_reshard_program(_reshard_program)
