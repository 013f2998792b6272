"""One of a bundle's programs, as the manifest describes it."""

from __future__ import annotations

from collections.abc import Callable

from xpr.runtimes.bundle.archive import MANIFEST, Members
from xpr.runtimes.bundle.arguments import ArgumentType
from xpr.runtimes.bundle.errors import BundleError, CorruptBundleError
from xpr.runtimes.bundle.machine import check_versions, choose_platform
from xpr.runtimes.bundle.tensors import read_tensors
from xpr.runtimes.bundle.trees import check_structure

# What reading a manifest raises where something in it is not what it should be.
_UNSOUND = (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError)


class Program:
    """One of a bundle's programs as its manifest describes it, with the module for one platform."""

    def __init__(
        self,
        members: Members,
        order: int,
        platform: str | None,
        check_machine: bool,
        tell: Callable[[str], str] | None = None,
    ) -> None:
        manifest = members.manifest
        try:
            check_versions(manifest)
            self.platform = choose_platform(
                manifest, platform, check_machine=check_machine, tell=tell
            )
            programs = manifest["programs"]
            if not 0 <= order < len(programs):
                raise BundleError(
                    f"the bundle holds derivatives up to order {len(programs) - 1}, got {order}"
                )
            data = programs[order]
            self.runtime = str(manifest["platforms"][self.platform]["runtime"])
            self.inputs = [ArgumentType(e) for e in data["inputs"]]
            self.outputs = [ArgumentType(e) for e in data["outputs"]]
            self.in_tree, self.out_tree = data["in_tree"], data["out_tree"]
            check_structure(self.in_tree, self.out_tree, len(self.inputs), len(self.outputs))
            self.cost = float(data["cost"])
            self.straight_line = data["straight_line"] is True
            self.constraints = manifest["constraints"]
            self.vmfb = members.files[data["modules"][self.platform]]
            stored = members.files.get("weights.safetensors")
            tensors = read_tensors(stored)[0] if stored is not None else {}
            self.weights = [tensors[name] for name in data["weights"]]
        except BundleError:
            raise
        except _UNSOUND as error:
            raise CorruptBundleError(f"{MANIFEST} is damaged: {error!r}") from error
