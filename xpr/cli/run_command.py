"""`xpr run`: a bundle or a module, once, on arrays from files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from xpr.cli.errors import UsageError
from xpr.cli.modules import type_text
from xpr.cli.opening import open_program
from xpr.cli.programs import counted, read_inputs


def run(options: argparse.Namespace) -> int:
    """Runs the program; saves or prints the results."""
    program = open_program(Path(options.program), options.runtime)
    inputs = read_inputs(program, options.input)
    files: list[str] = options.output
    count = len(program.output_names)
    if files and len(files) != count:
        has = counted(count, "result")
        raise UsageError(f"the program has {has}, got {counted(len(files), 'file')} for them")
    kept = [os.path.realpath(file) for file in files if not Path(file).is_char_device()]
    if len(set(kept)) < len(kept):
        raise UsageError("each result needs an --output file of its own")
    results = program(inputs)
    if not files:
        for name, result in zip(program.output_names, results, strict=True):
            print(f"{name} {type_text((result.shape, result.dtype))}\n{result}")
        return 0
    for file, result in zip(files, results, strict=True):
        with open(file, "wb") as opened:  # given a name, NumPy would add .npy to it
            np.save(opened, result)
        print(f"{file}: {type_text((result.shape, result.dtype))}")
    return 0
