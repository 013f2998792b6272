"""Special functions, element by element."""

from __future__ import annotations

from xpr.sharding.rules._forms import elementwise, register_all

register_all(
    (
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "polygamma",
        "zeta",
        "igamma",
        "igammac",
        "igamma_grad_a",
        "random_gamma_grad",
        "regularized_incomplete_beta",
        "bessel_i0e",
        "bessel_i1e",
    ),
    elementwise,
)
