"""The custom calls in which JAX wraps LAPACK, and those of its GPU solvers.

Results are those of the routines: factors, and a status for each matrix. A status that says
failure is told from NaN, which xpr's own functions give where LAPACK reports one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import lax
from xpr.export.stablehlo.importer import Rule, Site, shape_of
from xpr.export.stablehlo.rules.arrays import cholesky
from xpr.primitives.linalg_householder import geqp3, geqrf, ormqr

_TYPES = "sdcz"


def details(site: Site) -> dict[str, Any]:
    """The call's own attributes."""
    for name in ("mhlo.backend_config", "backend_config"):
        found = site.get(name)
        if isinstance(found, dict):
            return found
    return {}


def _letter(site: Site, name: str, default: str) -> str:
    """A letter, as LAPACK's options are."""
    found = details(site).get(name)
    if found is None:
        return default
    return found if isinstance(found, str) else chr(int(found) & 0x7F)


def _lower(site: Site) -> bool:
    found = details(site).get("lower")
    return bool(found) if found is not None else _letter(site, "uplo", "L") == "L"


def _status(site: Site, number: int, *results: Any) -> Any:
    """The status of each matrix: 1 where a result has a NaN."""
    kind = site.tensor(number)
    failed: Any = None
    for x in results:
        axes = tuple(range(len(kind.static), len(shape_of(x))))
        found = lax.reduce_or(lax.ne(x, x), axes)
        failed = found if failed is None else lax.bitwise_or(failed, found)
    return lax.convert_element_type(failed, kind.dtype)


def _ok(site: Site, number: int) -> Any:
    kind = site.tensor(number)
    return lax.full(kind.static, 0, kind.dtype)


def _unused(site: Site, number: int) -> Any:
    """A result that must not be used: NaN."""
    kind = site.tensor(number)
    return lax.full(kind.static, np.nan, kind.dtype)


def _potrf(site: Site) -> Any:
    found = cholesky(_lower(site), site.operand(0))
    return [found, _status(site, 1, found)][: len(site.op.results)]


def _getrf(site: Site) -> Any:
    factors, pivots, _ = lax.linalg.lu(site.operand(0))
    one = lax.full_like(pivots, 1)
    return [factors, lax.add(pivots, one), _ok(site, 2)]


def _geqrf(site: Site) -> Any:
    return list(geqrf(site.operand(0)))


def _geqp3(site: Site) -> Any:
    factors, order, scales = geqp3(site.operand(0))
    return [factors, lax.add(order, lax.full_like(order, 1)), scales]


def _orgqr(site: Site) -> Any:
    return lax.linalg.householder_product(site.operand(0), site.operand(1))


def _ormqr(site: Site) -> Any:
    options = details(site)
    return ormqr(
        site.operand(0),
        site.operand(1),
        site.operand(2),
        left=bool(options.get("left", True)),
        transpose=bool(options.get("transpose", False)),
    )


def _syevd(site: Site) -> Any:
    vectors, values = lax.linalg.eigh(site.operand(0), lower=_lower(site), symmetrize_input=False)
    return [vectors, values, _status(site, 2, values)]


def _gesdd(site: Site) -> Any:
    x, mode = site.operand(0), _letter(site, "mode", "S")
    if mode == "N":
        values = lax.linalg.svd(x, compute_uv=False)
        return [x, values, _unused(site, 2), _unused(site, 3), _status(site, 4, values)]
    u, values, v = lax.linalg.svd(x, full_matrices=mode == "A")
    return [x, values, u, v, _status(site, 4, values)]


def _geev(site: Site) -> Any:
    left = _letter(site, "compute_left", "V") == "V"
    right = _letter(site, "compute_right", "V") == "V"
    values, *vectors = lax.linalg.eig(
        site.operand(0), compute_left_eigenvectors=left, compute_right_eigenvectors=right
    )
    split = len(site.op.results) == 5
    out = [lax.real(values), lax.imag(values)] if split else [values]
    for wanted in (left, right):
        out.append(vectors.pop(0) if wanted else _unused(site, len(out)))
    return [*out, _status(site, len(out), values)]


def _gees(site: Site) -> Any:
    """Eigenvalues, which JAX does not use, are NaN."""
    vectors = _letter(site, "mode", "V") == "V"
    found = list(lax.linalg.schur(site.operand(0), compute_schur_vectors=vectors))
    if not vectors:
        found.append(_unused(site, 1))
    last = len(site.op.results) - 2
    values = [_unused(site, i) for i in range(2, last)]
    return [*found, *values, _ok(site, last), _status(site, last + 1, found[0])]


def _gehrd(site: Site) -> Any:
    factors, scales = lax.linalg.hessenberg(site.operand(0))
    return [factors, scales, _ok(site, 2)]


def _sytrd(site: Site) -> Any:
    found = lax.linalg.tridiagonal(site.operand(0), lower=_lower(site))
    return [*found, _ok(site, 4)]


def _gtsv(site: Site) -> Any:
    lower, diagonal, upper, b = (site.operand(i) for i in range(4))
    found = lax.linalg.tridiagonal_solve(lower, diagonal, upper, b)
    return [lower, diagonal, upper, found, _status(site, 4, found)]


def _trsm(site: Site) -> Any:
    how = _letter(site, "trans_x", "N")
    return lax.linalg.triangular_solve(
        site.operand(0),
        site.operand(1),
        left_side=_letter(site, "side", "L") == "L",
        lower=_letter(site, "uplo", "L") == "L",
        transpose_a=how in "TC",
        conjugate_a=how == "C",
        unit_diagonal=_letter(site, "diag", "N") == "U",
    )


def _perturbed(site: Site) -> Any:
    return lax.linalg.tridiagonal_solve(*site.operands[:4], perturb_singular=True)


def _pivots(site: Site) -> Any:
    return lax.linalg.lu_pivots_to_permutation(site.operand(0), site.tensor().static[-1])


_ROUTINES: dict[str, Callable[[Site], Any]] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": _geqp3,
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "ormqr": _ormqr,
    "unmqr": _ormqr,
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
    "gesvd": _gesdd,
    "geev": _geev,
    "gees": _gees,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "hetrd": _sytrd,
    "gtsv": _gtsv,
    "trsm": _trsm,
}
_ON_GPUS = ("potrf", "getrf", "geqrf", "orgqr", "ormqr", "syevd", "sytrd")

CALLS: dict[str, Rule] = {
    f"lapack_{t}{name}_ffi": rule for name, rule in _ROUTINES.items() for t in _TYPES
}
CALLS |= {f"{p}solver_{n}_ffi": _ROUTINES[n] for n in _ON_GPUS for p in ("cu", "hip")}
CALLS |= {
    "cu_lu_pivots_to_permutation": _pivots,
    "hip_lu_pivots_to_permutation": _pivots,
    "cusparse_gtsv2_ffi": lambda site: lax.linalg.tridiagonal_solve(*site.operands[:4]),
    "hipsparse_gtsv2_ffi": lambda site: lax.linalg.tridiagonal_solve(*site.operands[:4]),
    "tridiagonal_solve_perturbed_ffi": _perturbed,
}
