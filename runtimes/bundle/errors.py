"""What is said of bundles that cannot be used, and of arguments that do not fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class BundleError(ValueError):
    """A bundle that cannot be used here."""


class CorruptBundleError(BundleError):
    """A file that is no bundle, or one whose bytes are not those that were written."""


class BundleSignatureError(BundleError):
    """A bundle without the signature that was asked for, or with a wrong one."""


class BundleVersionError(BundleError):
    """A bundle of another format, or for another version of IREE."""


class BundleTargetError(BundleError):
    """A bundle without a module for this machine, or for the platform that was asked for."""


class ArgumentValueError(BundleError):
    """An argument of a wrong shape."""


class ArgumentTypeError(TypeError):
    """Arguments of a wrong number, structure or dtype."""


@contextmanager
def naming(source: str | os.PathLike[str] | bytes) -> Iterator[None]:
    """Puts the file's name, if it is one, before what is wrong with a bundle."""
    try:
        yield
    except BundleError as error:
        if not isinstance(source, (bytes, bytearray)):
            error.args = (f"{os.fspath(source)}: {error}",)
        raise
