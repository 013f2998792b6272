"""Fit a power law to measured cell nuclei by the Levenberg-Marquardt method.

For each of 569 tumours the data give the mean radius r of the cell nuclei in an image, and their
mean area. The model is ``area = a * r**b + c``: were the nuclei discs, a would be pi, b 2 and c 0.
One compiled function makes a step of the fit. The Jacobian of the residuals comes from
`xpr.jacfwd`, and the normal equations are solved by a Cholesky factorisation written with
`xpr.numpy`. Parameters and their standard errors are compared with those of
`scipy.optimize.curve_fit`, and a plot is saved.

The method: D. W. Marquardt, "An algorithm for least-squares estimation of nonlinear parameters",
Journal of the Society for Industrial and Applied Mathematics 11 (1963).

    python examples/curve_fit.py
    python examples/curve_fit.py --output fit.png
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from scipy.optimize import curve_fit
from sklearn.datasets import load_breast_cancer

import xpr
import xpr.numpy as xnp

START = (1.0, 1.5, 0.0)
NAMES = ("a", "b", "c")
# Both fits stop when a step changes the parameters by less than about 1e-8 of their size.
TOLERANCE = 1e-4
MAX_STEPS = 100


def model(p: Any, r: Any) -> Any:
    """The area that the parameters f[3] give to nuclei of the radii f[n]."""
    return p[0] * r ** p[1] + p[2]


def residuals(p: Any, r: Any, area: Any) -> Any:
    """What the model misses, f[n]."""
    return model(p, r) - area


def cholesky_solve(matrix: Any, rhs: Any) -> Any:
    """The solution of ``matrix @ x = rhs`` for a symmetric positive definite f[n, n] and an f[n].

    The loops run over the few parameters while the function is traced.
    """
    n = rhs.shape[0]
    lower: list[list[Any]] = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i, j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            lower[i][j] = xnp.sqrt(rest) if i == j else rest / lower[j][j]
    # First lower @ half = rhs from the top, then lower.T @ x = half from the bottom.
    half: list[Any] = []
    for i in range(n):
        half.append((rhs[i] - sum(lower[i][k] * half[k] for k in range(i))) / lower[i][i])
    x: list[Any] = [None] * n
    for i in reversed(range(n)):
        x[i] = (half[i] - sum(lower[k][i] * x[k] for k in range(i + 1, n))) / lower[i][i]
    return xnp.stack(x)


@xpr.jit
def step(p: Any, damping: Any, r: Any, area: Any) -> tuple[Any, Any, Any, Any]:
    """One step: parameters, damping, the sum of squares, and the relative size of the step.

    The step solves the normal equations with their diagonal enlarged by the factor ``1 + damping``.
    It is taken if the sum of squares falls, and the damping is lowered; if not, it is raised.
    """
    missed = residuals(p, r, area)
    jacobian = xpr.jacfwd(residuals)(p, r, area)
    normal = jacobian.T @ jacobian
    damped = normal + damping * xnp.diag(xnp.diag(normal))
    move = cholesky_solve(damped, -(jacobian.T @ missed))
    cost = missed @ missed
    trial = residuals(p + move, r, area)
    trial_cost = trial @ trial
    # A step that is too long may overflow: a NaN is no improvement.
    better = trial_cost < cost
    size = xnp.sqrt(move @ move) / (xnp.sqrt(p @ p) + 1e-12)
    return (
        xnp.where(better, p + move, p),
        xnp.where(better, damping / 5, damping * 3),
        xnp.where(better, trial_cost, cost),
        size,
    )


@xpr.jit
def standard_errors(p: Any, r: Any, area: Any) -> Any:
    """The standard errors f[3] of the parameters, from the Jacobian at the optimum."""
    missed = residuals(p, r, area)
    jacobian = xpr.jacfwd(residuals)(p, r, area)
    variance = missed @ missed / (missed.shape[0] - p.shape[0])
    normal = jacobian.T @ jacobian
    inverse = xpr.vmap(cholesky_solve, in_axes=(None, 0))(normal, xnp.eye(p.shape[0]))
    return xnp.sqrt(variance * xnp.diag(inverse))


def fit(r: np.ndarray, area: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Parameters, their standard errors, and how many steps it took.

    Raises RuntimeError where the steps do not get small.
    """
    # The parameters a and b hardly differ in their effect, so the normal equations need float64.
    with xpr.enable_x64():
        x, y = xnp.array(r), xnp.array(area)
        p, damping = xnp.array(START, dtype="float64"), xnp.float64(1e-2)
        size = xnp.inf
        for count in range(1, MAX_STEPS + 1):
            p, damping, cost, size = step(p, damping, x, y)
            if count % 5 == 1:
                print(f"step {count}: sum of squares {float(cost):.6g}")
            if float(size) < 1e-10:
                return np.asarray(p), np.asarray(standard_errors(p, x, y)), count
    raise RuntimeError(f"no convergence in {MAX_STEPS} steps: the last one was {float(size):.2g}")


def compare(what: str, found: np.ndarray, expected: np.ndarray) -> bool:
    """Print the greatest relative difference, and whether it is within the tolerance."""
    difference = float(np.max(np.abs(found - expected) / np.abs(expected)))
    agree = difference <= TOLERANCE
    verdict = "ok" if agree else f"MISMATCH, {TOLERANCE:g} is allowed"
    print(f"{what} against SciPy: greatest relative difference {difference:.2g} ({verdict})")
    return agree


def plot(path: Path, r: np.ndarray, area: np.ndarray, p: np.ndarray) -> None:
    """Save measurements and fitted curve above, and what the curve misses below."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    figure, (upper, below) = plt.subplots(
        2, 1, sharex=True, figsize=(7, 6), height_ratios=(3, 1), layout="constrained"
    )
    grid = np.linspace(r.min(), r.max(), 200)
    upper.plot(r, area, ".", color="0.6", markersize=4, label=f"{len(r)} measurements")
    label = f"{p[0]:.3f} $r^{{{p[1]:.3f}}}$ {'+' if p[2] >= 0 else '−'} {abs(p[2]):.2f}"
    upper.plot(grid, model(p, grid), color="tab:red", label=label)
    upper.plot(grid, np.pi * grid**2, "k:", linewidth=1, label="a disc: $\\pi r^2$")
    upper.set_ylabel("mean area")
    upper.legend()
    below.plot(r, area - model(p, r), ".", color="0.6", markersize=4)
    below.axhline(0, color="tab:red", linewidth=1)
    below.set_ylabel("area − fit")
    below.set_xlabel("mean radius r of the nuclei")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def load() -> tuple[np.ndarray, np.ndarray]:
    """Mean radius and mean area of the nuclei of each tumour, f64[569] each."""
    data: Any = load_breast_cancer()
    column = {name: i for i, name in enumerate(data.feature_names)}
    return data.data[:, column["mean radius"]], data.data[:, column["mean area"]]


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Fit a power law with a compiled function.")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("curve_fit.png"),
        help="where to save the plot (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the example; 0 where parameters and standard errors agree with SciPy's."""
    options = parse_arguments(arguments)
    r, area = load()
    p, errors, steps = fit(r, area)
    print(f"{steps} steps")
    for name, value, error in zip(NAMES, p, errors, strict=True):
        print(f"{name} = {value:.5f} ± {error:.5f}")

    expected, covariance = curve_fit(lambda r, *p: model(p, r), r, area, p0=START)
    same = compare("parameters", p, expected)
    same_errors = compare("standard errors", errors, np.sqrt(np.diag(covariance)))

    plot(options.output, r, area, p)
    print(f"saved {options.output}")
    if same and same_errors:
        return 0
    print("curve_fit failed: see the lines above", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
