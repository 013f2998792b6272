"""The custom calls in which JAX wraps LAPACK, and those of its GPU solvers.

Results are those of the routines: factors, and a status for each matrix. A status that says
failure is told from NaN, which xpr's own functions give where LAPACK reports one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import lax
from xpr.export.stablehlo.form import Operation
from xpr.export.stablehlo.importer import Rule, Site, dtype_of, shape_of
from xpr.export.stablehlo.rules.arrays import cholesky
from xpr.primitives.linalg_householder import geqp3, geqrf, ormqr
from xpr.transforms.custom_jvp import custom_jvp
from xpr.transforms.derivatives import jvp

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
    """Reflections have no derivative; the R above them has, where Q is made of them."""
    x = site.operand(0)
    m, n = shape_of(x)[-2:]
    if m < n or dtype_of(x).kind != "f" or not _only_makes_q(site):
        return list(geqrf(x))

    @custom_jvp
    def factors(x: Any) -> tuple[Any, Any]:
        return geqrf(x)

    @factors.defjvp
    def factors_jvp(primals: Any, tangents: Any) -> Any:
        _, moved = jvp(lambda x: lax.linalg.qr(x, full_matrices=False)[1], primals, tangents)
        packed, scales = factors(*primals)
        rows = [(0, 0, 0)] * (len(shape_of(moved)) - 2) + [(0, m - n, 0), (0, 0, 0)]
        grown = lax.pad(moved, np.zeros((), dtype_of(moved)), rows)
        return (packed, scales), (grown, lax.full_like(scales, 0))

    return list(factors(x))


def _only_makes_q(site: Site) -> bool:
    """Whether only calls that multiply the reflections read their scales."""
    if len(site.op.results) != 2:
        return False
    users = site.importer.users(site.op.results[1])
    return bool(users) and all(_makes_q(op) for op in users)


def _makes_q(op: Operation | None) -> bool:
    name = "" if op is None else str(op.attributes.get("call_target_name"))
    return name.endswith(("orgqr_ffi", "ungqr_ffi"))


def _geqp3(site: Site) -> Any:
    factors, order, scales = geqp3(site.operand(0))
    return [factors, lax.add(order, lax.full_like(order, 1)), scales]


def _orgqr(site: Site) -> Any:
    """The derivative is that of Q of the matrix that was factored, where it is known."""
    packed, scales = site.operand(0), site.operand(1)
    source = site.op.operands[1].owner
    m, k = shape_of(packed)[-2:]
    name = "" if source is None else str(source.attributes.get("call_target_name"))
    if source is None or not name.endswith("geqrf_ffi") or dtype_of(packed).kind != "f":
        return lax.linalg.householder_product(packed, scales)
    matrix = site.scope.get(source.operands[0])
    if shape_of(matrix) != shape_of(packed) or m < k:
        return lax.linalg.householder_product(packed, scales)

    @custom_jvp
    def product(x: Any, packed: Any, scales: Any) -> Any:
        return lax.linalg.householder_product(packed, scales)

    @product.defjvp
    def product_jvp(primals: Any, tangents: Any) -> Any:
        _, moved = jvp(
            lambda x: lax.linalg.qr(x, full_matrices=False)[0], primals[:1], tangents[:1]
        )
        return product(*primals), moved

    return product(matrix, packed, scales)


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
