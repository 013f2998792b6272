"""IREE 3.13's passes up to the phase stream, without those that change nothing in xpr's programs.

They have IREE's order and IREE's options. `short_passes.py` says which programs they are for.
"""

from __future__ import annotations

from xpr.lowering.iree.versions.base import Step, Steps


def _nested(*passes: str) -> str:
    return f"util.func({','.join(passes)})"


def _anywhere(*passes: str) -> str:
    """Passes over functions and over what is computed when the module is loaded."""
    return f"any({','.join(passes)})"


_CANONICAL = "iree-flow-canonicalize"
_NUMBERS = "iree-util-optimize-int-arithmetic"
_HOIST = "iree-util-hoist-into-globals{max-size-increase-threshold=1048576}"
_RAISE = "iree-global-opt-raise-special-ops"
_GENERALIZE = "iree-global-opt-generalize-linalg-named-ops"
_FUSE = "iree-dispatch-creation-elementwise-op-fusion"
_FUSE_USES = "iree-dispatch-creation-fuse-multi-use-elementwise-producer"

_WITH_NAMES = (
    "iree-stablehlo-verify-compiler-input-legality,iree-import-public,iree-sanitize-module-names"
)
_STRAIGHT_INPUT = ",".join(
    (
        "func.func(chlo-legalize-to-stablehlo,canonicalize,iree-stablehlo-canonicalize,cse)",
        "iree-stablehlo-preprocessing-flatten-scf-tuples",
        "iree-stablehlo-to-stablehlo-preprocessing{order-conv-features=true}",
        "func.func(cse,iree-stablehlo-to-linalg-ext)",
        *("iree-stablehlo-to-iree-input", "reconcile-unrealized-casts", _WITH_NAMES),
    )
)
_BRANCHING_INPUT = ",".join(
    (
        "func.func(chlo-legalize-to-stablehlo,canonicalize,iree-stablehlo-canonicalize,cse,"
        "iree-stablehlo-legalize-control-flow)",
        "iree-stablehlo-preprocessing-flatten-scf-tuples",
        "iree-stablehlo-to-stablehlo-preprocessing{order-conv-features=true}",
        "func.func(canonicalize,iree-stablehlo-canonicalize)",
        "inline{default-pipeline=canonicalize}",
        "func.func(cse,iree-stablehlo-to-linalg-ext)",
        *("iree-stablehlo-to-iree-input", "reconcile-unrealized-casts"),
        *("func.func(canonicalize)", _WITH_NAMES),
    )
)
_ABI = ",".join(
    (
        *("iree-abi-convert-streamable-ops", "iree-abi-wrap-entry-points{invocation-model=sync}"),
        *("inline{default-pipeline=}", "util.func(canonicalize,cse)", "symbol-dce"),
    )
)


def _global_optimization(*, branches: bool, integers: bool, hoists: bool) -> str:
    return ",".join(
        (
            _nested(
                *((_NUMBERS,) if integers else ()),
                "iree-global-opt-remove-zero-extent-tensors",
                "iree-global-opt-detach-elementwise-from-named-ops",
            ),
            "iree-global-opt-erase-unused-linalg-operands",
            _nested(
                *("convert-elementwise-to-linalg", _RAISE, _GENERALIZE),
                "iree-dispatch-creation-insert-tensor-barriers",
            ),
            "iree-dispatch-creation-fold-unit-extent-dims",
            _nested(
                *("iree-dispatch-creation-fold-reshapes-into-tensor-barriers", _CANONICAL, "cse"),
                "iree-global-opt-propagate-linalg-transpose{enable-aggressive-propagation=false "
                "enable-aggressive-propagation-through-conv=false enable-attention-v-transpose=true"
                " enable-edge-reshape-propagation=false enable-sink-transpose-through-pad=false}",
                *((_CANONICAL,) if branches else ()),
                "cse",
            ),
            "iree-global-opt-convert-strided-contraction-to-contraction",
            _nested(
                _GENERALIZE,
                *(
                    ("iree-global-opt-loop-invariant-code-motion", _CANONICAL, "cse")
                    if branches
                    else ()
                ),
            ),
            *((_HOIST,) if hoists else ()),
        )
    )


_RAISED = _nested(_RAISE)
_RAISED_WITH_GLOBALS = f"{_CANONICAL},cse,{_anywhere(_RAISE)}"


def _dispatch_creation(*, hoists: bool) -> tuple[str, ...]:
    """In parts, behind each of which the program is checked where that is wanted."""
    hoist = (_HOIST,) if hoists else ()
    fuse = _FUSE + "{fuse-multi-reduction=true}"
    before = ",".join(
        (
            "iree-dispatch-creation-tensor-pad-to-tensor-insert-slice",
            _anywhere(
                *("cse", "iree-dispatch-creation-fusion-preprocessing", fuse, _CANONICAL, "cse"),
                "iree-dispatch-creation-fold-reshapes-into-tensor-barriers",
                "iree-dispatch-creation-bubble-up-expand-shapes"
                "{enable-reshape-movement-across-reductions=false}",
                *(_CANONICAL, "cse", fuse, "iree-dispatch-creation-sink-reshapes", "cse"),
                *(_FUSE_USES + "{intra-dispatch=false num-iterations=2}", "cse"),
                "iree-dispatch-creation-transpose-generic-ops",
            ),
        )
    )
    form = ",".join(
        (
            *hoist,
            _anywhere(
                "iree-dispatch-creation-form-scalar-dispatches",
                "iree-dispatch-creation-form-dispatch-regions{aggressive-fusion=true "
                "fuse-data-tiled-convolution=false fuse-mmt4d=false fuse-multi-use-producers=true "
                "fuse-pad-with-consumers=false fuse-pad-with-producers=false}",
            ),
        )
    )
    inside = _anywhere(
        _FUSE + "{fuse-broadcast-ops=true fuse-multi-reduction=false fuse-truncate-ops=true "
        "intra-dispatch=true}",
        _FUSE_USES + "{intra-dispatch=true num-iterations=32}",
        "iree-dispatch-creation-clone-producers-into-dispatch-regions{aggressive=true}",
        "iree-dispatch-creation-collapse-dimensions",
        "iree-dispatch-creation-hoist-uniform-scalar-compute",
        "iree-dispatch-creation-fuse-encoding-ops-into-dispatch-regions-pass",
    )
    behind = ",".join(
        (
            *hoist,
            _anywhere(
                "iree-dispatch-creation-remove-tensor-barriers",
                "iree-dispatch-creation-convert-dispatch-regions-to-workgroups",
                *("iree-dispatch-creation-convert-tensor-to-flow", "cse"),
                "iree-dispatch-creation-materialize-default-workgroup-count-region",
                *(_CANONICAL, "cse"),
            ),
        )
    )
    return before, form, inside, behind


_FLOW = ",".join(
    (
        _nested("iree-flow-initialize-empty-tensors{zero-fill=false}"),
        *("iree-flow-outline-dispatch-regions", "iree-flow-annotate-dispatches"),
        *("iree-flow-deduplicate-executables", "iree-flow-outline-constants", "symbol-dce"),
    )
)
_TIDY = f"{_NUMBERS},{_CANONICAL},cse,iree-util-simplify-global-accesses,iree-util-apply-patterns"
_FLOW_WITH_GLOBALS = (
    "iree-util-fixed-point-iterator{max-iterations=10 "
    f"pipeline=builtin.module(iree-flow-outline-constants,util.initializer({_TIDY}),"
    f"util.func({_TIDY}),iree-util-fold-globals,iree-util-fuse-globals,iree-util-ipo)}},symbol-dce"
)

# For programs whose dispatches are not compiled one by one (`dispatches.py` has another list). IREE
# makes functions canonical some fifteen times here, and folds and merges globals each time.
_CLEAN = _nested("canonicalize", "cse", _NUMBERS, "iree-util-simplify-global-accesses")
_STREAM = ",".join(
    (
        *("iree-stream-verify-input", _CLEAN, "iree-stream-clone-to-consumers"),
        *("iree-stream-conversion", "iree-stream-verify-lowering-to-tensors"),
        *("inline{default-pipeline=canonicalize}", _CLEAN, "iree-stream-specialize-encodings"),
        _nested("iree-stream-encode-host-tensors"),
        "stream.executable(iree-stream-encode-device-tensors)",
        *("iree-stream-materialize-encodings", _nested("iree-stream-layout-slices"), _CLEAN),
        "iree-stream-verify-lowering-to-async-resources",
        _nested("iree-stream-materialize-copy-on-write", "canonicalize"),
        "iree-stream-elide-async-copies",
        _nested("canonicalize", "iree-stream-emplace-allocations"),
        *("iree-stream-refine-usage", _nested("canonicalize"), "iree-stream-elide-async-copies"),
        *(_CLEAN, "iree-stream-verify-async-access-ranges"),
        "iree-stream-place-transfer-executions",
        _nested("iree-stream-schedule-execution", "iree-stream-schedule-concurrency"),
        *("iree-stream-sync-initializers", "iree-stream-propagate-timepoints"),
        *("iree-stream-materialize-builtins", _CLEAN, "iree-stream-verify-lowering-to-async"),
        *("iree-stream-schedule-allocation", "iree-stream-emplace-transients"),
        "iree-stream-materialize-transient-size-queries",
        _nested("iree-stream-pack-constants", "iree-stream-layout-slices", "canonicalize"),
        *("iree-util-propagate-subranges", _CLEAN, "iree-stream-automatic-reference-counting"),
        *("iree-stream-annotate-constant-transient-size", "iree-stream-verify-lowering-to-cmd"),
        *(_CLEAN, _nested("iree-stream-reuse-allocations", "convert-scf-to-cf")),
        # IREE goes on until nothing changes, which in no program took longer.
        *(_CLEAN, "iree-stream-elide-timepoints") * 3,
        *("iree-stream-fuse-dispatch-bindings", "iree-stream-annotate-dispatch-arguments"),
        *("iree-stream-annotate-dispatch-assumptions", "iree-stream-pack-dispatch-operands"),
        *(_CLEAN, "iree-stream-fold-uniform-operands", _CLEAN, "canonicalize", "symbol-dce"),
    )
)


def steps(*, branches: bool, integers: bool, hoists: bool) -> Steps:
    """The lists of a program: with branches on the host, integer arithmetic, hoisted constants."""
    optimization = _global_optimization(branches=branches, integers=integers, hoists=hoists)
    return {
        "input": Step((_BRANCHING_INPUT if branches else _STRAIGHT_INPUT,)),
        "abi": Step((_ABI,)),
        "global-optimization": Step(
            (optimization,), (_RAISED_WITH_GLOBALS,), (_RAISED,), goes_on=False
        ),
        "dispatch-creation": Step(_dispatch_creation(hoists=hoists), goes_on=False),
        "flow": Step((_FLOW,), (_FLOW_WITH_GLOBALS,), goes_on=False),
        "stream": Step((_STREAM,)),
    }
