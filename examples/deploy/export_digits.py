"""Put the trained digits classifier into one file, and run it without xpr and without Python.

The classifier of `train_digits.py` is exported for the CPU and for Vulkan into one bundle,
`digits.xpr`, with its parameters beside the code. Then it runs in these ways on the same images:

- by `run_digits.py` with the loader, `bundle.py`, both copied beside the bundle: a process that
  has NumPy and IREE's runtime, and neither xpr nor a compiler;
- by `iree-run-module`, a program that holds no Python, with the module taken out of the bundle;
- both on Vulkan too, where a device is found.

All results are compared with those of the jitted function. What is left in the folder is all that
another machine needs.

    python examples/deploy/export_digits.py --parameters train_digits/digits.safetensors
    python examples/deploy/export_digits.py --epochs 5 --output deployed
"""

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import xpr
from xpr.runtimes.bundle import LOADER_FILE
from xpr.runtimes.bundle.archive import open_bundle
from xpr.runtimes.bundle.tensors import read_tensors

HERE = Path(__file__).resolve().parent
PLATFORMS = ("cpu", "vulkan")
DRIVERS = {"cpu": "local-task", "vulkan": "vulkan"}
LARGEST_CODE = 256_000
IMAGES = 64


def load_training() -> ModuleType:
    """The example that trains, which lies in the folder above this one."""
    sys.path.insert(0, str(HERE.parent))
    return importlib.import_module("train_digits")


def parameters(training: ModuleType, options: argparse.Namespace, key: Any, data: Any) -> Any:
    """The parameters that were saved, or those of a short training."""
    if options.parameters is not None:
        return training.load_parameters(options.parameters)
    params, _ = training.train(key, options.epochs, *data)
    return params


def usable(platform: str) -> bool:
    """Whether this machine has a device of a platform; says why if it has none."""
    try:
        xpr.devices(platform)
    except RuntimeError as error:
        print(f"{platform} is left out: {error}")
        return False
    return True


def show_sizes(path: Path) -> bool:
    """Print what the bundle holds; whether the code is as small as it should be."""
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    for name, size in sizes.items():
        print(f"  {name}: {size / 1000:.1f} kB")
    code = path.stat().st_size - sizes.get("weights.safetensors", 0)
    print(f"{path}: {path.stat().st_size / 1000:.1f} kB, {code / 1000:.1f} kB without weights")
    return code < LARGEST_CODE


def run_with_loader(folder: Path, platform: str) -> list[np.ndarray]:
    """Run the bundle in a process that never loads xpr, and print its times."""
    command = [sys.executable, "run_digits.py", "digits.xpr", "images.npy", platform]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"run_digits.py failed with {done.returncode}:\n{done.stderr}")
    report = json.loads(done.stdout)
    if report["foreign"]:
        raise RuntimeError(f"the loader should not have loaded {report['foreign']}")
    print(
        f"loader on {platform}: load and first call {1e3 * report['start']:.1f} ms, "
        f"later calls {1e3 * report['call']:.2f} ms"
    )
    return [np.load(folder / f"{name}.npy") for name in ("classes", "probabilities")]


def run_with_iree(folder: Path, platform: str) -> list[np.ndarray]:
    """Run the module of the bundle with `iree-run-module`; the weights are its first inputs."""
    program = shutil.which("iree-run-module", path=Path(sys.executable).parent)
    if program is None:
        raise FileNotFoundError("iree-run-module comes with the package iree-base-runtime")
    members = open_bundle(folder / "digits.xpr")
    entry = members.manifest["programs"][0]
    module = folder / f"digits_{platform}.vmfb"
    module.write_bytes(members.files[entry["modules"][platform]])
    weights, _ = read_tensors(members.files["weights.safetensors"])
    command = [program, f"--module={module.name}", "--function=main"]
    command.append(f"--device={DRIVERS[platform]}")
    for name in entry["weights"]:
        np.save(folder / f"{name}.npy", weights[name])
        command.append(f"--input=@{name}.npy")
    command += ["--input=@images.npy", "--output=@classes.npy", "--output=@probabilities.npy"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"iree-run-module failed with {done.returncode}:\n{done.stderr}")
    return [np.load(folder / f"{name}.npy") for name in ("classes", "probabilities")]


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Export the digits classifier and run it without xpr and without Python."
    )
    parser.add_argument(
        "--parameters", type=Path, help="digits.safetensors of train_digits.py; else it is trained"
    )
    parser.add_argument("--epochs", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the key (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, default=Path("deploy"), help="the folder (default: %(default)s)"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the example; 0 where the code is small and all results agree."""
    options = parse_arguments(arguments)
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    training = load_training()
    split_key, train_key = xpr.random.split(xpr.random.key(options.seed))
    data = training.split_digits(split_key)
    images = data[1].images[:IMAGES]
    params = parameters(training, options, train_key, data)
    predict = xpr.jit(partial(training.predict, params))
    expected = [np.asarray(part) for part in predict(images)]

    exported = xpr.export.export(predict, platforms=PLATFORMS)(images)
    exported.save(folder / "digits.xpr")
    small = show_sizes(folder / "digits.xpr")
    for file in (LOADER_FILE, HERE / "run_digits.py"):
        shutil.copy(file, folder)
    np.save(folder / "images.npy", np.asarray(images))

    agree = True
    for platform in filter(usable, PLATFORMS):
        for name, run in (("loader", run_with_loader), ("iree-run-module", run_with_iree)):
            found = run(folder, platform)
            agree &= training.compare(f"{name} on {platform}", found, expected)
    if small and agree:
        return 0
    print("export_digits failed: see the lines above", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
