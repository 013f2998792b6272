"""What programs without a runtime are compiled for, and how the compiler is asked for objects."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from xpr.lowering.no_runtime.interface import Machine
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.cpu import cpu_target
from xpr.lowering.targets.named import export_target

# In place of a linker, IREE runs this as a line of the shell, with the object as the last argument.
# It leaves the object where the library is to be.
_COPY = "xpr_copy() { for a; do case $o in -o) t=$a;; esac; o=$a; done; exec cp $o $t; }; xpr_copy"
_OBJECTS = (
    "--iree-llvmcpu-link-embedded=false",
    f"--iree-llvmcpu-system-linker-path={_COPY}",
    f"--iree-llvmcpu-wasm-linker-path={_COPY}",
    # Values of constants alone would be computed when a module is loaded, which does not happen.
    "--iree-opt-const-expr-hoisting=false",
)


@dataclass(frozen=True)
class _Kind:
    """A machine, and the compiler's flags for it."""

    machine: Machine
    flags: tuple[str, ...] = ()


_WASM_FEATURES = "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals"
_X86 = "defined(__x86_64__) || defined(_M_X64)"
_ARM32 = "defined(__arm__)"
_RISCV32 = "defined(__riscv) && __riscv_xlen == 32"
_KINDS = {
    kind.machine.name: kind
    for kind in (
        _Kind(
            Machine("wasm32", "wasm32-unknown-unknown", "generic", 4, "defined(__wasm32__)"),
            (f"--iree-llvmcpu-target-cpu-features={_WASM_FEATURES}",),
        ),
        _Kind(
            Machine("cortex-m4", "thumbv7em-none-eabihf", "cortex-m4", 4, _ARM32),
            ("--iree-llvmcpu-target-float-abi=hard",),
        ),
        _Kind(
            Machine("cortex-m7", "thumbv7em-none-eabihf", "cortex-m7", 4, _ARM32),
            ("--iree-llvmcpu-target-float-abi=hard",),
        ),
        _Kind(
            Machine("rv32imc", "riscv32-unknown-none-elf", "generic-rv32", 4, _RISCV32),
            (
                "--iree-llvmcpu-target-abi=ilp32",
                "--iree-llvmcpu-target-cpu-features=+m,+c",
            ),
        ),
        _Kind(Machine("armv7", "armv7-linux-gnueabihf", "cortex-a9", 4, _ARM32)),
    )
}
_CONDITIONS = {
    "x86_64": _X86,
    "aarch64": "defined(__aarch64__)",
    "riscv64": "defined(__riscv) && __riscv_xlen == 64",
}

NAMES = (*("host", "baseline", "x86_64[-v2|-v3|-v4]", "aarch64", "riscv64"), *_KINDS)


def object_target(name: str) -> tuple[Target, Machine]:
    """The target that compiles to objects of a machine.

    Raises ValueError for an unknown name.
    """
    kind = _KINDS.get(name.removesuffix("-linux"))
    if kind is not None:
        machine, flags = kind.machine, kind.flags
        base = cpu_target(machine.cpu, machine.triple)
    else:
        try:
            found = export_target(name)
        except ValueError:
            found = None
        if found is None or found.runtime != "cpu":
            raise ValueError(
                f"unknown target {name!r} of a program without a runtime; expected one of "
                f"{', '.join(NAMES)}"
            )
        said = found.description
        condition = _CONDITIONS.get(said["architecture"])
        if condition is None:
            raise ValueError(f"programs for {said['architecture']} need a runtime")
        machine = Machine(found.name, said["triple"], said["cpu"], 8, condition)
        base, flags = found.target, ()
    target = dataclasses.replace(
        base,
        base_flags=(*base.base_flags, *flags, *_OBJECTS),
        host_calls=False,
        keeps_dispatches=False,
        fuses_products=False,
        donation=False,
    )
    if kind is not None:
        target = dataclasses.replace(target, product_kernels=None)
    return target, machine
