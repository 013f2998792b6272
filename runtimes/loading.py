"""A compiled module and the functions of this process that it calls, in a context of IREE's."""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr.runtimes import hal, shutdown
from xpr.runtimes.base import ExecutableSignature
from xpr.runtimes.hostcalls import HostCallModule, Memory, Raised


class LoadedModule(NamedTuple):
    """What a call of a module's entry needs."""

    context: Any
    function: Any
    raised: Raised | None
    """Takes the exceptions of host functions, where the module calls any."""


@shutdown.enters_iree
def load_module(
    vmfb: bytes, signature: ExecutableSignature, hal_module: Any, memory: Memory
) -> LoadedModule:
    """Loads a `.vmfb` into a context of its own, for the device that `hal_module` is bound to.

    Raises ValueError if the module lacks the entry that the signature names.
    """
    if shutdown.is_near:
        shutdown.stop_other_threads()
    shared = hal.start()
    modules = [hal_module]
    raised = None
    if signature.host_calls:
        calls = HostCallModule(signature.host_calls, memory)
        raised = calls.raised
        modules.append(calls.vm_module)
    module = shared.rt.VmModule.copy_buffer(shared.instance, vmfb)
    context = shared.rt.VmContext(shared.instance, [*modules, module])
    entry = signature.entry.rpartition(".")[2]
    function = module.lookup_function(entry)
    if function is None:
        raise ValueError(
            f"the module has no function {entry!r}, only {', '.join(module.function_names)}"
        )
    return LoadedModule(context, function, raised)
