"""Draw specs.png: where the parts of a matrix lie on a mesh of 2 x 4 devices.

python docs/sharding/draw.py
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

import xpr
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

SPECS = (P("x", "y"), P("y", "x"), P("x"), P(None, "y"), P(("x", "y")), P())


def main() -> None:
    """Draw the picture beside this file."""
    xpr.config.update("num_cpu_devices", 8)
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    mesh = Mesh(np.array(xpr.devices("cpu")).reshape(2, 4), ("x", "y"))
    figure, rows = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
    for axes, spec in zip(rows.flat, SPECS, strict=True):
        xpr.debug.draw_sharding((8, 8), NamedSharding(mesh, spec), axes)
        axes.set_title(str(spec))
    figure.savefig(Path(__file__).parent / "specs.png", dpi=80)


if __name__ == "__main__":
    main()
