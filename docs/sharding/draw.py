"""Draw the pictures of these pages.

    python docs/sharding/draw.py

`specs.png`: where the parts of a matrix lie on a mesh of 2 x 4 devices, by six specs.
`manual.png`: the parts of both operands of a matrix product, and of the product.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import xpr
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

SPECS = (P("x", "y"), P("y", "x"), P("x"), P(None, "y"), P(("x", "y")), P())
PRODUCT = (("a", (8, 16), P("x", "y")), ("b", (16, 4), P("y")), ("a @ b", (8, 4), P("x")))


def main() -> None:
    """Draw them beside this file."""
    xpr.config.update("num_cpu_devices", 8)
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    mesh = Mesh(np.array(xpr.devices("cpu")).reshape(2, 4), ("x", "y"))
    figure, rows = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
    _draw(mesh, rows.flat, [(str(spec), (8, 8), spec) for spec in SPECS])
    figure.savefig(Path(__file__).parent / "specs.png", dpi=80)
    widths = [shape[1] + 4 for _, shape, _ in PRODUCT]
    figure, row = plt.subplots(1, 3, figsize=(9, 4), layout="constrained", width_ratios=widths)
    _draw(mesh, row, [(f"{name}: {spec}", shape, spec) for name, shape, spec in PRODUCT])
    figure.savefig(Path(__file__).parent / "manual.png", dpi=80)


def _draw(mesh: Mesh, places: Any, pictures: Sequence[tuple[str, tuple[int, int], P]]) -> None:
    for axes, (title, shape, spec) in zip(places, pictures, strict=True):
        xpr.debug.draw_sharding(shape, NamedSharding(mesh, spec), axes)
        axes.set_title(title)
        axes.set_aspect("equal")


if __name__ == "__main__":
    main()
