"""Run the exported classifier where there is no xpr: `bundle.py` lies beside this file.

    python run_digits.py digits.xpr images.npy cpu

It saves the classes and the probabilities of the images, and prints as JSON how long it took to
load the bundle and call it once, and to call it again.
"""

import importlib
import json
import statistics
import sys
import time

import numpy as np

MOST_CALLS = 50
SECONDS = 0.5


def main(path: str, images_path: str, platform: str) -> int:
    """Load, call, and save the results; 0 when done."""
    bundle_module = importlib.import_module("bundle")
    images = np.load(images_path)
    start = time.perf_counter()
    bundle = bundle_module.Bundle(path, platform=platform)
    classes, probabilities = bundle.call(images)
    report = {"start": time.perf_counter() - start}
    times: list[float] = []
    while len(times) < MOST_CALLS and sum(times) < SECONDS:
        begin = time.perf_counter()
        bundle.call(images)
        times.append(time.perf_counter() - begin)
    np.save("classes.npy", classes)
    np.save("probabilities.npy", probabilities)
    foreign = sorted(sys.modules.keys() & {"xpr", "iree.compiler"})
    print(json.dumps({**report, "call": statistics.median(times), "foreign": foreign}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
