"""Instruction sets that compiled code needs, and those that this processor lacks."""

from __future__ import annotations

from collections.abc import Iterable

from xpr.runtimes.bundle.machine import host_features

# Names of LLVM's for what Linux calls otherwise.
_LINUX_NAMES = {
    **{"sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "bmi": "bmi1", "lzcnt": "abm"},
    **{"avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16"},
    **{"avx512bitalg": "avx512_bitalg", "avx512vpopcntdq": "avx512_vpopcntdq"},
    **{"avx512vbmi2": "avx512_vbmi2", "avxvnni": "avx_vnni", "amx-tile": "amx_tile"},
    **{"amx-int8": "amx_int8", "amx-bf16": "amx_bf16", "pclmul": "pclmulqdq"},
    **{"sve": "sve", "sve2": "sve2", "dotprod": "asimddp", "fullfp16": "asimdhp", "i8mm": "i8mm"},
    **{"bf16": "bf16", "lse": "atomics"},
}
# Names that are the same, of features that code is compiled for.
_SAME = frozenset(
    "ssse3 popcnt avx avx2 bmi2 f16c fma movbe avx512f avx512bw avx512cd avx512dq avx512vl "
    "avx512ifma avx512vbmi gfni vaes vpclmulqdq aes adx".split()
)


def missing_features(needed: Iterable[str], known: Iterable[str] | None = None) -> list[str]:
    """The features, by LLVM's names, that code needs and this processor lacks.

    `known` are those that it has, by Linux's names, by default what the system says. Where it says
    nothing, none is missing.

    >>> missing_features(["avx2", "sse3", "cmov"], known=["pni"])
    ['avx2']
    """
    here = host_features() if known is None else frozenset(known)
    if here is None:
        return []
    asked = {name: _LINUX_NAMES.get(name, name) for name in needed}
    return sorted(
        name
        for name, linux in asked.items()
        if (name in _LINUX_NAMES or name in _SAME) and linux not in here
    )
