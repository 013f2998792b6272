"""Reads and runs exported bundles (`model.xpr`) with NumPy, ml_dtypes and IREE's runtime alone.

A bundle is a ZIP archive whose members are stored as they are: `manifest.json` (what the program
takes and gives, what it was compiled for, the SHA-256 of every other member), `modules/*.vmfb`,
`program.mlir` and perhaps `weights.safetensors` and `signature.json`. Everything is checked before
a module is loaded, for a module for a CPU is native code that can do whatever this process can:
**run only bundles that you would run as a program.** Give `hmac_key` or `public_key` to accept
none but those that the owner of the key made.

`LOADER_FILE` is the same as one file, for machines without xpr. `assemble.py` makes it from the
modules of this folder.
"""

from __future__ import annotations

from pathlib import Path

from xpr.runtimes.bundle.arguments import ArgumentType
from xpr.runtimes.bundle.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    BundleError,
    BundleSignatureError,
    BundleTargetError,
    BundleVersionError,
    CorruptBundleError,
)
from xpr.runtimes.bundle.loader import Bundle

__all__ = [
    "LOADER_FILE",
    "ArgumentType",
    "ArgumentTypeError",
    "ArgumentValueError",
    "Bundle",
    "BundleError",
    "BundleSignatureError",
    "BundleTargetError",
    "BundleVersionError",
    "CorruptBundleError",
]

LOADER_FILE = Path(__file__).resolve().parent / "one_file" / "bundle.py"
"""The loader as one file, to be copied beside a model."""
