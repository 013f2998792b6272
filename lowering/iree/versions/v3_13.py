"""IREE 3.13."""

from __future__ import annotations

import re
from pathlib import Path

from xpr.lowering.iree.versions import dispatches_3_13, passes_3_13
from xpr.lowering.iree.versions.base import Bytecode, DispatchLists, IreeVersion, Texts

BYTECODE = Bytecode(17, Path(__file__).parent / "vm_17.def")

TEXTS = Texts(
    executable=re.compile(r"^  hal\.executable private @(\w+) \{$.*?^  \}$", re.M | re.S),
    shell="hal.executable private @{name} {{",
    binary=(
        'hal.executable.binary public @{variant} <format = "{format}", '
        'data = dense<"0x{digits}"> : vector<{size}xi8>>'
    ),
    object_format='"embedded-elf-x86_64", {',
    row_tiles=re.compile(r"vector_common_parallel = \[8, 0\], vector_reduction = \[0, (?:8|16)\]"),
    rows=re.compile(r"(vector_common_parallel = \[)8\b"),
    depth=re.compile(r"(vector_reduction = \[0, 0, (?:0, )*)16\]"),
)

VERSION = IreeVersion(
    minor="3.13",
    tested=frozenset({"3.13.0"}),
    bytecode=BYTECODE,
    timepoints=dispatches_3_13.TIMEPOINTS,
    no_deallocations=dispatches_3_13.NO_DEALLOCATIONS,
    texts=TEXTS,
    steps=passes_3_13.steps,
    dispatches=DispatchLists(dispatches_3_13.WHOLE, dispatches_3_13.SHORT),
    translation=dispatches_3_13.translation,
    unused_plugins=(
        *("hal_target_cuda", "hal_target_rocm"),
        *("hal_target_vulkan_spirv", "hal_target_metal_spirv"),
        *("hal_target_vmvx", "input_torch", "input_tosa"),
    ),
    device_functions=frozenset(
        {
            *("iree_h2f_ieee", "iree_f2h_ieee", "__gnu_h2f_ieee", "__gnu_f2h_ieee"),
            *("__extendhfsf2", "__truncsfhf2", "__extendhfdf2", "__truncdfhf2"),
            *("fma", "memset", "memcpy", "memmove"),
        }
    ),
)
