"""The targets that `--target` names."""

from __future__ import annotations

from xpr.cli.errors import UsageError
from xpr.lowering.targets import get_target
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.cpu import cpu_target
from xpr.lowering.targets.gpu import cuda_target, rocm_target

_TRIPLES = {
    "x86_64-linux": "x86_64-unknown-linux-gnu",
    "aarch64-linux": "aarch64-unknown-linux-gnu",
    "riscv64-linux": "riscv64-unknown-linux-gnu",
}


def parse_target(text: str) -> Target:
    """The target for a name such as `cpu`, `cuda:sm_90`, `x86_64-v3` or `aarch64-linux`."""
    name, _, detail = text.partition(":")
    if name == "cuda" and detail:
        return cuda_target(detail)
    if name == "rocm" and detail:
        return rocm_target(detail)
    if text in _TRIPLES:
        return cpu_target("generic", _TRIPLES[text])
    if text.startswith("x86_64-v"):
        return cpu_target(text.replace("x86_64", "x86-64"), _TRIPLES["x86_64-linux"])
    try:
        return get_target(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
