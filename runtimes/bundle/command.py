"""The program: runs a bundle on arrays in files."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

from xpr.runtimes.bundle.errors import ArgumentTypeError
from xpr.runtimes.bundle.loader import Bundle
from xpr.runtimes.bundle.tensors import Array


def main(arguments: list[str] | None = None) -> int:
    """Runs a bundle on arrays in `.npy` files; 0 on success, 1 with the reason on failure."""
    parser = argparse.ArgumentParser(description="Run an exported bundle on arrays in .npy files.")
    parser.add_argument("bundle", help="the model.xpr file")
    parser.add_argument("--input", action="append", default=[], help="one .npy for each input")
    parser.add_argument("--output", action="append", default=[], help="one .npy for each result")
    parser.add_argument("--platform", help="cpu, vulkan, ... (default: the first that fits)")
    parser.add_argument("--hmac-key", help="a file with the key that the bundle is signed with")
    options = parser.parse_args(arguments)
    try:
        key = None
        if options.hmac_key is not None:
            with open(options.hmac_key, "rb") as file:
                key = file.read()
        bundle = Bundle(options.bundle, platform=options.platform, hmac_key=key)
        types = bundle.inputs
        if len(options.input) != len(types):
            taken = ", ".join(f"{t.path}: {t}" for t in types) or "none"
            raise ArgumentTypeError(
                f"the program takes {len(types)} inputs ({taken}), got {len(options.input)}"
            )
        if len(options.output) > len(bundle.outputs):
            raise ArgumentTypeError(f"the program has {len(bundle.outputs)} results")
        inputs = [read_npy(n, t.dtype) for n, t in zip(options.input, types, strict=True)]
        results = bundle.call_flat(inputs)
        for i, result in enumerate(results):
            if i < len(options.output):
                with open(options.output[i], "wb") as file:  # NumPy would add .npy to a name
                    np.save(file, result, allow_pickle=False)
            else:
                print(f"{bundle.outputs[i].path}: {result.dtype.name}{list(result.shape)}")
                print(result)
        print(end="", flush=True)
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does. Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def read_npy(name: str, dtype: np.dtype[Any]) -> Array:
    """The array in a `.npy` file, whose values may be in either order of bytes.

    Such files have no names for the types of ml_dtypes: values without a type, of the size of
    `dtype`, are taken for these. Raises ArgumentTypeError for what holds no array.
    """
    try:
        array = np.load(name, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ArgumentTypeError(f"{name} is no .npy file with an array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(f"{name} holds several arrays: one in a .npy file is needed")
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    native = array.dtype.newbyteorder("=")
    return array.astype(native) if native != array.dtype else array
