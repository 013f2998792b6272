"""The targets that programs can be compiled for, by name."""

from __future__ import annotations

from xpr.lowering.targets.base import Target
from xpr.lowering.targets.cpu import cpu
from xpr.lowering.targets.gpu import cuda, metal, rocm
from xpr.lowering.targets.vmvx import vmvx
from xpr.lowering.targets.vulkan import vulkan

_TARGETS: dict[str, Target] = {
    target.name: target for target in (cpu, vmvx, vulkan, cuda, rocm, metal)
}


def register_target(target: Target) -> None:
    """Make ``target`` known by its name; raises ``ValueError`` if the name is taken."""
    if target.name in _TARGETS:
        raise ValueError(f"a target named {target.name!r} is already registered")
    _TARGETS[target.name] = target


def get_target(name: str) -> Target:
    """The target called ``name``; raises ``ValueError`` naming the known ones if there is none."""
    try:
        return _TARGETS[name]
    except KeyError:
        known = ", ".join(sorted(_TARGETS))
        raise ValueError(f"unknown target {name!r}; the known targets are {known}") from None
