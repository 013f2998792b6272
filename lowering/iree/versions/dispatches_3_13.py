"""IREE 3.13's passes from the phase flow to vm, for programs whose dispatches are compiled alone.

Between the phases of each list `dispatches.py` takes the dispatches out, and puts libraries in.
"""

from __future__ import annotations

from xpr.lowering.iree.versions.base import Pipelines


def _nested(*passes: str) -> str:
    """Passes over each function."""
    pipeline = ",".join(passes)
    return f"util.initializer({pipeline}),util.func({pipeline})"


# As IREE has it, without iree-stream-fuse-dispatch-bindings, and without two passes that tell of
# values that operands may have.
_WHOLE_STREAM = (
    "iree-stream-tensor-transformation-pipeline,iree-stream-async-transformation-pipeline,"
    "iree-stream-cmd-transformation-pipeline,iree-stream-cleanup-pipeline,"
    "iree-util-fixed-point-iterator{max-iterations=10 "
    "pipeline=builtin.module(iree-stream-cleanup-pipeline,iree-stream-elide-timepoints)},"
    "iree-stream-pack-dispatch-operands,iree-stream-cleanup-pipeline,"
    "iree-stream-fold-uniform-operands,iree-stream-cleanup-pipeline,symbol-dce"
)

# There IREE makes functions canonical and folds globals some fifteen times, and each time builds
# all of its rewrite patterns anew: for a small program that took longer than the machine code. So
# this has its passes in its order, and tidies up where the next ones go by a tidy form. That gives
# the same dispatches. It is for programs in which nothing is computed once, when the module is
# loaded: there are no initializers and no globals to fold then.
_CANONICAL = "util.func(canonicalize,cse)"
_NUMBERS = (
    "util.func(canonicalize,cse,iree-util-optimize-int-arithmetic,"
    "iree-util-simplify-global-accesses)"
)
_STREAM = ",".join(
    (
        *("iree-stream-verify-input", "iree-stream-clone-to-consumers", "iree-stream-conversion"),
        *("iree-stream-verify-lowering-to-tensors", "inline{default-pipeline=}", _CANONICAL),
        *("iree-stream-specialize-encodings", "util.func(iree-stream-encode-host-tensors)"),
        "stream.executable(iree-stream-encode-device-tensors)",
        "iree-stream-materialize-encodings",
        *("util.func(iree-stream-layout-slices)", _CANONICAL),
        "iree-stream-verify-lowering-to-async-resources",
        "util.func(iree-stream-materialize-copy-on-write,canonicalize)",
        "iree-stream-elide-async-copies",
        "util.func(canonicalize,iree-stream-emplace-allocations)",
        *("iree-stream-refine-usage", "util.func(canonicalize)", "iree-stream-elide-async-copies"),
        *(_NUMBERS, "iree-stream-verify-async-access-ranges"),
        "iree-stream-place-transfer-executions",
        "util.func(iree-stream-schedule-execution,iree-stream-schedule-concurrency)",
        *("iree-stream-sync-initializers", "iree-stream-propagate-timepoints"),
        *("iree-stream-materialize-builtins", _CANONICAL, "iree-stream-verify-lowering-to-async"),
        *("iree-stream-schedule-allocation", "iree-stream-emplace-transients"),
        "iree-stream-materialize-transient-size-queries",
        "util.func(iree-stream-pack-constants,iree-stream-layout-slices,canonicalize)",
        *("iree-util-propagate-subranges", _NUMBERS, "iree-stream-automatic-reference-counting"),
        *("iree-stream-annotate-constant-transient-size", "iree-stream-verify-lowering-to-cmd"),
        *("iree-stream-elide-timepoints", "iree-stream-pack-dispatch-operands", _NUMBERS),
        # All of the program is made canonical, the code of dispatches too.
        *("iree-stream-fold-uniform-operands", _NUMBERS, "canonicalize", "symbol-dce"),
    )
)

_TIDY = _nested("canonicalize", "cse")
_TIDY_ALL = f"{_TIDY},iree-util-fold-globals,iree-util-fuse-globals"
# As IREE has it, without what compiles dispatches.
_WHOLE_HOST = (
    f"iree-hal-conversion,iree-hal-outline-memoize-regions,{_TIDY_ALL},"
    "iree-hal-prune-executables,iree-hal-resolve-export-ordinals,"
    "iree-hal-materialize-resource-caches,iree-hal-resolve-topology-queries,"
    f"iree-hal-memoize-device-selection,iree-hal-memoize-device-queries,{_TIDY_ALL},"
    "iree-hal-initialize-devices{target-registry=global},"
    f"iree-affine-expand-index-ops,iree-lower-affine,{_nested('convert-scf-to-cf')},{_TIDY_ALL},"
    "symbol-dce"
)
_HOST = ",".join(
    (
        *("iree-hal-conversion", "iree-hal-outline-memoize-regions", _TIDY),
        *("iree-hal-prune-executables", "iree-hal-resolve-export-ordinals"),
        *("iree-hal-materialize-resource-caches", "iree-hal-resolve-topology-queries"),
        *("iree-hal-memoize-device-selection", "iree-hal-memoize-device-queries"),
        "iree-hal-initialize-devices{target-registry=global}",
        *("iree-affine-expand-index-ops", "iree-lower-affine", _nested("convert-scf-to-cf")),
    )
)

# From `TO` to the phase vm: what the host does, as a program of IREE's virtual machine.
_MACHINE = ",".join(
    (
        *("inline{default-pipeline=}", "symbol-dce", "iree-util-verify-initialization-order"),
        *("iree-util-combine-initializers", "iree-util-propagate-subranges", _TIDY, "symbol-dce"),
        _nested("iree-util-simplify-global-accesses"),
        *("iree-util-fold-globals", "iree-util-fuse-globals"),
        "iree-vm-conversion{index-bits=64 f32-extension=true f64-extension=true"
        " truncate-unsupported-floats=true}",
        "vm.module(iree-vm-reify-rodata-tables,iree-vm-hoist-inlined-rodata,"
        "iree-vm-deduplicate-rodata,iree-vm-drop-unused-calls)",
        *("symbol-dce", "vm.module(iree-vm-resolve-rodata-loads,iree-vm-global-initialization)"),
        *("canonicalize", "cse", "canonicalize"),
        "vm.module(iree-vm-drop-empty-module-initializers,iree-vm-annotate-functions,"
        "iree-vm-convert-to-yieldable-calls,iree-vm-drop-optimization-barriers,"
        "iree-vm-materialize-ref-discards)",
        "iree-util-drop-compiler-hints",
    )
)

WHOLE = Pipelines(_WHOLE_STREAM, _WHOLE_HOST, None)
"""For programs with globals or initializers."""

SHORT = Pipelines(_STREAM, _HOST, _MACHINE)
"""For the others."""

# As IREE has it, without iree-stream-elide-timepoints.
TIMEPOINTS = (
    "iree-stream-tensor-transformation-pipeline,iree-stream-async-transformation-pipeline,"
    "iree-stream-cmd-transformation-pipeline,iree-stream-cleanup-pipeline,"
    "util.initializer(convert-scf-to-cf),util.func(convert-scf-to-cf),"
    "iree-util-fixed-point-iterator{max-iterations=10 "
    "pipeline=builtin.module(iree-stream-cleanup-pipeline)},"
    "iree-stream-fuse-dispatch-bindings,iree-stream-annotate-dispatch-arguments,"
    "iree-stream-annotate-dispatch-assumptions,iree-stream-pack-dispatch-operands,"
    "iree-stream-cleanup-pipeline,iree-stream-fold-uniform-operands,"
    "iree-stream-cleanup-pipeline,symbol-dce"
)
"""The phase stream of programs whose timepoints are all kept (`keep_timepoints.py`)."""

NO_DEALLOCATIONS = "util.func(canonicalize),symbol-dce"
"""Removes dead operations after deallocations were taken out (`remove_deallocations.py`)."""


def translation(*, reassociates: bool) -> str:
    """Translates dispatches to LLVM's dialect, all of a program in one run."""
    level = "O2" if reassociates else "O0"
    lowering = f"builtin.module(iree-codegen-llvmcpu-lowering-pipeline{{opt-level={level}}})"
    counts = "iree-codegen-propagate-dispatch-config"
    return f"hal.executable(hal.executable.variant({lowering},{counts}))"
