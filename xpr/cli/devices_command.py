"""`xpr devices`: what there is to run on."""

from __future__ import annotations

import argparse

import xpr


def run(options: argparse.Namespace) -> int:
    """Prints the table of devices, with the reason for each runtime that does not work here."""
    xpr.print_devices()
    return 0
