"""Avals, jaxprs, primitives, traces, source lines and errors; imports NumPy and ml_dtypes only."""

from __future__ import annotations

from typing import Any

# The first has to know when the process began.
from xpr.core import sources as sources
from xpr.core.jaxpr import Jaxpr, JaxprEqn, install_printer
from xpr.core.lazy_names import lazy_names

# Jaxprs know nothing of how they are printed, which few programs ask for; this tells them.


def _jaxpr_text(jaxpr: Jaxpr, **options: Any) -> str:
    from xpr.core.printing import jaxpr_text  # noqa: PLC0415  takes 5 ms to import

    return jaxpr_text(jaxpr, **options)


def _eqn_text(eqn: JaxprEqn) -> str:
    from xpr.core.printing import eqn_text  # noqa: PLC0415  as above

    return eqn_text(eqn)


def _jaxpr_html(jaxpr: Jaxpr) -> str:
    from xpr.core.html import jaxpr_html  # noqa: PLC0415  only notebooks ask for it

    return jaxpr_html(jaxpr)


install_printer(_jaxpr_text, _eqn_text, _jaxpr_html)

# Names that programs have from `jax.core`: few ask for them.
__getattr__, _, _ = lazy_names(
    __name__,
    {
        "xpr.core.public_names": (
            "AbstractValue Atom ClosedJaxpr DebugInfo DropVar Literal OpaqueTraceState ParamDict "
            "ShapedArray Trace Tracer Value Var abstract_token ensure_compile_time_eval "
            "eval_context eval_jaxpr get_aval get_opaque_trace_state is_concrete is_constant_dim "
            "max_dim min_dim trace_state_clean"
        )
    },
)
