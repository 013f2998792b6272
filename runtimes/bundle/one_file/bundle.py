"""Runs exported bundles (`model.xpr`) with NumPy, ml_dtypes and IREE's runtime alone.

This one file is the whole loader: copy it beside a model and use it as a module or a program.
Where xpr is installed with its native part, that runs programs for the CPU, in place of IREE.

    python bundle.py model.xpr --input x.npy --output y.npy

Everything in a bundle is checked before a module is loaded, for a module for a CPU is native code
that can do whatever this process can: **run only bundles that you would run as a program.** Give
`hmac_key` or `public_key` to accept none but those that the owner of the key made.

Made by `python -m xpr.runtimes.bundle.assemble`: change the modules named below, not this file.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import base64
import binascii
import ctypes
import functools
import hashlib
import hmac
import importlib
import io
import json
import math
import operator
import os
import platform as host_platform
import re
import struct
import sys
import threading
import time
import zipfile
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import CodeType, FrameType
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

# ---- xpr/core/polynomials.py


Monomial = tuple[str, ...]
Terms = dict[Monomial, int]

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}
"""What names may stand for, beside sizes."""


def evaluate(terms: Mapping[Monomial, int], sizes: Mapping[str, int]) -> int:
    """The value of a polynomial.

    >>> evaluate({("a", "b"): 2, (): 1}, {"a": 3, "b": 4})
    25
    >>> evaluate({("b", "floordiv(b + 1, 2)"): 2}, {"b": 4})
    16
    """
    return sum(c * math.prod(_value_of_name(name, sizes) for name in m) for m, c in terms.items())


def _value_of_name(name: str, sizes: Mapping[str, int]) -> int:
    if not is_call(name):
        return sizes[name]
    found = sizes.get(name)
    if found is not None:
        return found
    function, *operands = parsed_call(name)
    return FUNCTIONS[function](*(evaluate(t, sizes) for t in operands))


def is_call(name: str) -> bool:
    """Whether a name stands for a function of two polynomials."""
    return name.endswith(")")


def variables(terms: Mapping[Monomial, int]) -> set[str]:
    """The sizes that a polynomial depends on.

    >>> sorted(variables({("a", "mod(b, 3)"): 1}))
    ['a', 'b']
    """
    found: set[str] = set()
    for monomial in terms:
        for name in monomial:
            if is_call(name):
                _, left, right = parsed_call(name)
                found |= variables(left) | variables(right)
            else:
                found.add(name)
    return found


@functools.lru_cache(1024)
def parsed_call(name: str) -> tuple[str, Terms, Terms]:
    """The function that a name stands for, and its two polynomials.

    >>> parsed_call("floordiv(2*b + 1, 3)")
    ('floordiv', {('b',): 2, (): 1}, {(): 3})
    """
    node = ast.parse(name, mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    left, right = map(_terms_of_node, node.args)
    return node.func.id, left, right


def _terms_of_node(node: ast.expr) -> Terms:
    match node:
        case ast.Constant(value=int(value)):
            return {(): value} if value else {}
        case ast.Name(id=name):
            return {(name,): 1}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return {m: -c for m, c in _terms_of_node(operand).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            sign = 1 if isinstance(op, ast.Add) else -1
            return added(_terms_of_node(left), _terms_of_node(right), sign)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return multiplied(_terms_of_node(left), _terms_of_node(right))
        case ast.Call():
            return {(ast.unparse(node),): 1}
        case _:
            raise ValueError(f"this is no polynomial: {ast.unparse(node)}")


def added(a: Mapping[Monomial, int], b: Mapping[Monomial, int], sign: int = 1) -> Terms:
    """The sum of two polynomials, or their difference for the sign -1."""
    total = dict(a)
    for monomial, factor in b.items():
        total[monomial] = total.get(monomial, 0) + sign * factor
    return {m: c for m, c in total.items() if c}


def multiplied(a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Terms:
    """The product of two polynomials."""
    total: Terms = {}
    for m, x in a.items():
        for n, y in b.items():
            key = tuple(sorted(m + n))
            total[key] = total.get(key, 0) + x * y
    return {m: c for m, c in total.items() if c}


def text_of(terms: Mapping[Monomial, int]) -> str:
    """A polynomial as one writes it: `2*b + 1`."""
    out = ""
    for monomial, factor in sorted(terms.items(), key=lambda t: (-len(t[0]), t[0])):
        names = "*".join(monomial)
        size = abs(factor)
        part = str(size) if not names else names if size == 1 else f"{size}*{names}"
        sign = "-" if factor < 0 else "+"
        out += f" {sign} {part}" if out else part if factor > 0 else f"-{part}"
    return out or "0"


def call_text(function: str, a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> str:
    """The name that stands for a function of two polynomials.

    >>> call_text("mod", {("b",): 1}, {(): 3})
    'mod(b, 3)'
    """
    return f"{function}({text_of(a)}, {text_of(b)})"


# ---- xpr/runtimes/shutdown.py


F = TypeVar("F", bound=Callable[..., object])

_PATIENCE = 10.0
"""Seconds that the end of the process waits for daemon threads."""

is_near = False
"""Whether no thread but the last may enter IREE any more."""

_entering: set[CodeType] = set()
_called: set[CodeType] = set()
_first: list[Callable[[], None]] = []
_when_near: list[Callable[[], None]] = []
_last_thread: int | None = None
_stopped: set[int] = set()
_never = threading.Event()


def enters_iree(function: F) -> F:
    """Marks a function that the end of the process waits for.

    It calls what gives up the interpreter's lock inside of IREE or another C++ library, or what
    runs Python code there, and begins with
    ``if shutdown.is_near: shutdown.stop_other_threads()``, or lets `when_near` see to that.
    """
    _entering.add(function.__code__)
    return function


def called_by_iree(function: F) -> F:
    """Marks a function that IREE calls: a thread that is in one must go on to leave IREE."""
    _called.add(function.__code__)
    return function


def at_first(function: Callable[[], None]) -> None:
    """Has a function called at the end of the process while threads may still enter IREE."""
    _first.append(function)


def when_near(function: Callable[[], None]) -> None:
    """Has a function called when other threads than the calling one are to be stopped."""
    _when_near.append(function)


def stop_other_threads() -> None:
    """In any thread but the last one: waits for ever, unless it is inside IREE already.

    Threads that are not daemons go on: Python has waited for all that were there, so that a
    function that atexit called has started this one, and waits for it.
    """
    thread = threading.get_ident()
    if thread == _last_thread or not threading.current_thread().daemon:
        return
    if not _is_in(_called, sys._getframe()):
        _stopped.add(thread)
        _never.wait()


def stop_if_near() -> None:
    """Called before IREE is entered: does not return once the end of the process is near."""
    if is_near:
        stop_other_threads()


def _is_in(functions: set[CodeType], frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in functions:
            return True
        frame = frame.f_back
    return False


def _at_exit() -> None:
    """Lets programs in queues and what is inside IREE finish, and starts no other."""
    global is_near, _last_thread
    for function in _first:
        function()
    _last_thread = threading.get_ident()
    is_near = True
    for function in _when_near:
        function()
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        others = sys._current_frames().items()
        waiting = {_last_thread, *_stopped}
        if not any(_is_in(_entering, frame) for t, frame in others if t not in waiting):
            return
        time.sleep(0.001)


atexit.register(_at_exit)


# ---- xpr/runtimes/extension.py


INTERFACE = 14
"""The number that the extension must have; one that was built from other sources is not used."""

RUNS_PROGRAMS = True
"""Whether the native part runs programs, and not only calls them, where `XPR_NATIVE` is not set."""

SHORT_COST = 2e4
"""Operations plus bytes of a program, a few hundred nanoseconds of work, up to which other threads
of Python may wait: to let them run meanwhile costs 50 ns."""

_CHOICES = ("", "0", "1", "calls", "check")


class Found:
    """The extension, or why there is none."""

    def __init__(self, module: Any, reason: str, choice: str = "") -> None:
        self.module = module
        self.reason = reason
        """Empty when there is one."""
        runs = choice in ("1", "check") or (choice == "" and RUNS_PROGRAMS)
        self.executor: Any = module if runs else None
        """The extension where it runs programs."""
        self.checks = choice == "check"
        """Whether programs are to run both ways."""

    def describe(self) -> str:
        """One line for reports."""
        if self.module is None:
            return f"not used: {self.reason}"
        how = ", checked against IREE" if self.checks else ""
        if self.executor is None:
            how = ", programs are run by IREE"
        return f"{self.module.build_info()}{how}"


def find(choice: str) -> Found:
    """What `XPR_NATIVE=choice` gives.

    Raises ValueError for a choice that does not exist, and ImportError when the extension is asked
    for and cannot be had.
    """
    if choice not in _CHOICES:
        raise ValueError(f"XPR_NATIVE must be 0, 1, calls or check, got {choice!r}")
    if choice == "0":
        return Found(None, "XPR_NATIVE=0")
    module, reason = None, ""
    try:
        module = _extension()
    except ImportError as error:
        reason = f"it was not built here ({error})"
    else:
        if module.interface != INTERFACE:
            reason = "it was built from other sources; install xpr again, or build it anew"
            module = None
    if module is None and choice:
        raise ImportError(f"XPR_NATIVE={choice} asks for the native part of xpr, but {reason}")
    return Found(module, reason, choice)


_EXTENSION = "xpr.runtimes._native"


def _extension() -> Any:
    """The extension, which needs nothing of xpr; ImportError where there is none.

    The loader of bundles uses it, too, in processes that do not import xpr: for these the file is
    looked for where xpr is installed.
    """
    if "xpr" in sys.modules or _EXTENSION in sys.modules:
        return importlib.import_module(_EXTENSION)
    from importlib.util import find_spec, module_from_spec  # noqa: PLC0415  bundles need them

    package = find_spec("xpr")
    if package is None or package.origin is None:
        raise ImportError("xpr is not installed")
    spec = PathFinder.find_spec(
        _EXTENSION, [os.path.join(os.path.dirname(package.origin), "runtimes")]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no module named {_EXTENSION}")
    # Under its name, so that xpr finds it when it is imported later: it can be loaded only once.
    module = sys.modules[_EXTENSION] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_EXTENSION]
        raise
    return module


_found: Found | None = None


def native() -> Found:
    """What there is in this process, looked for by the first call."""
    global _found
    if _found is None:
        _found = find(os.environ.get("XPR_NATIVE", ""))
    return _found


# ---- xpr/runtimes/bundle/errors.py


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


# ---- xpr/runtimes/bundle/archive.py


FORMAT = "xpr-bundle"
FORMAT_VERSION = 1
MANIFEST, SIGNATURE = "manifest.json", "signature.json"
_MAX_MANIFEST_BYTES = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*\Z")

# What zipfile raises for damaged archives, beside its own error.
_DAMAGED = (
    *(NotImplementedError, OSError, EOFError, RuntimeError),
    *(ValueError, OverflowError, struct.error),
)


def read_archive(data: bytes, *, hmac_key: bytes | None = None, public_key: Any = None) -> Members:
    """The members of a bundle, all of them checked; see `Bundle` for the keys and the errors."""
    try:
        members = _members(data)
    except CorruptBundleError:
        raise
    except (zipfile.BadZipFile, *_DAMAGED) as error:
        raise CorruptBundleError(f"not a bundle, or a damaged one: {error}") from error
    if MANIFEST not in members:
        raise CorruptBundleError(f"not a bundle: the archive has no {MANIFEST}")
    raw = members[MANIFEST]
    check_signature(raw, members.get(SIGNATURE), hmac_key, public_key)
    try:
        manifest = json.loads(raw)
        kind, version = manifest["format"], manifest["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptBundleError(f"{MANIFEST} is damaged: {error!r}") from error
    if kind != FORMAT or type(version) is not int:
        raise CorruptBundleError(f"{MANIFEST} describes {kind!r}, not an {FORMAT!r}")
    if version != FORMAT_VERSION:
        raise BundleVersionError(
            f"the bundle has format version {version}; this loader reads {FORMAT_VERSION}"
        )
    _check_digests(manifest, members)
    return Members(manifest, members)


class Members:
    """The manifest of a bundle, and its members by name."""

    def __init__(self, manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        self.manifest = manifest
        self.files = files


def _members(data: bytes) -> dict[str, bytes]:
    """All members; each must be stored uncompressed, so that none is larger than the file."""
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            name = info.filename
            if not _NAME.match(name) or ".." in name:
                raise CorruptBundleError(f"the archive has a member of a forbidden name: {name!r}")
            if name in found:
                raise CorruptBundleError(f"the archive has two members called {name!r}")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise CorruptBundleError(f"{name} is compressed, which no member of a bundle is")
            limit = _MAX_MANIFEST_BYTES if name == MANIFEST else len(data)
            if info.file_size > limit or info.flag_bits & 1:
                raise CorruptBundleError(f"{name} is encrypted or larger than it can be")
            content = archive.read(info)
            if len(content) != info.file_size:
                raise CorruptBundleError(f"{name} is cut short")
            found[name] = content
    return found


def _check_digests(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
    listed = manifest.get("members")
    if not isinstance(listed, dict):
        raise CorruptBundleError(f"{MANIFEST} lists no members")
    present = set(members) - {MANIFEST, SIGNATURE}
    if present != set(listed):
        odd = ", ".join(sorted(present ^ set(listed)))
        raise CorruptBundleError(f"the archive and {MANIFEST} name different members: {odd}")
    for name, entry in listed.items():
        wanted = entry.get("sha256") if isinstance(entry, dict) else None
        if hashlib.sha256(members[name]).hexdigest() != wanted:
            raise CorruptBundleError(f"{name} has been altered: its SHA-256 is not the manifest's")


def check_signature(
    manifest: bytes, signature: bytes | None, hmac_key: bytes | None, public_key: Any
) -> None:
    """Raises BundleSignatureError unless the manifest is signed by the keys that are given."""
    if hmac_key is None and public_key is None:
        return
    if signature is None:
        raise BundleSignatureError("the bundle is not signed, and a key to check it was given")
    try:
        given = json.loads(signature)
        if hmac_key is not None:
            wanted = hmac.new(hmac_key, manifest, hashlib.sha256).hexdigest()
            if not hmac.compare_digest(str(given.get("hmac-sha256", "")).encode(), wanted.encode()):
                raise BundleSignatureError("the bundle has no HMAC-SHA256 that fits the key")
        if public_key is not None:
            _check_ed25519(manifest, base64.b64decode(str(given.get("ed25519", ""))), public_key)
    except (AttributeError, binascii.Error, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BundleSignatureError(f"{SIGNATURE} is damaged: {error!r}") from error


def _check_ed25519(manifest: bytes, signature: bytes, public_key: Any) -> None:
    try:
        exceptions = importlib.import_module("cryptography.exceptions")
        ed25519 = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError as error:
        raise BundleSignatureError(
            "checking an Ed25519 signature requires the package cryptography"
        ) from error
    if isinstance(public_key, (bytes, bytearray)):
        public_key = ed25519.Ed25519PublicKey.from_public_bytes(bytes(public_key))
    try:
        public_key.verify(signature, manifest)
    except exceptions.InvalidSignature:
        raise BundleSignatureError(
            "the bundle has no Ed25519 signature that fits the key"
        ) from None


def open_bundle(
    source: str | os.PathLike[str] | bytes,
    *,
    hmac_key: bytes | None = None,
    public_key: Any = None,
) -> Members:
    """The checked members of the bundle in a file, or of its bytes."""
    if isinstance(source, (bytes, bytearray)):
        data = bytes(source)
    else:
        with open(source, "rb") as file:
            data = file.read()
    return read_archive(data, hmac_key=hmac_key, public_key=public_key)


# ---- xpr/runtimes/bundle/tensors.py


Array = np.ndarray[Any, Any]


SAFETENSORS_TYPES = {
    "BOOL": "bool",
    **{f"I{b}": f"int{b}" for b in (8, 16, 32, 64)},
    **{f"U{b}": f"uint{b}" for b in (8, 16, 32, 64)},
    **{f"F{b}": f"float{b}" for b in (16, 32, 64)},
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "C64": "complex64",
}


def named_dtype(name: str) -> np.dtype[Any]:
    """The dtype of that name, NumPy's own or one of ml_dtypes."""
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise CorruptBundleError(f"unknown dtype {name!r}") from None


def read_tensors(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a safetensors file, over the memory of `data`, and its metadata.

    Raises CorruptBundleError for anything that is no such file.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        metadata = header.pop("__metadata__", {})
        body = memoryview(data)[8 + size :]
        arrays = {}
        for name, entry in header.items():
            dtype = named_dtype(SAFETENSORS_TYPES[entry["dtype"]])
            shape = tuple(entry["shape"])
            low, high = entry["data_offsets"]
            if not 0 <= low <= high <= len(body) or high - low != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"the bytes of {name} are out of place")
            arrays[name] = np.frombuffer(body[low:high], np.uint8).view(dtype).reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptBundleError(f"damaged safetensors data: {error!r}") from error
    return arrays, metadata


# ---- xpr/runtimes/bundle/arguments.py


class ArgumentType:
    """One input or result: where it stands, its dtype, and its shape.

    An extent is a number, or a polynomial in the symbolic dimensions.
    """

    def __init__(self, entry: dict[str, Any]) -> None:
        self.path = str(entry["path"])
        self.given_no_values = entry["dtype"] == "float0"
        self.dtype = np.dtype(bool) if self.given_no_values else named_dtype(entry["dtype"])
        self.weak = bool(entry.get("weak_type"))
        self.extents = tuple(
            e if isinstance(e, int) else _terms(e["terms"]) for e in entry["shape"]
        )
        self.texts = tuple(str(e) if isinstance(e, int) else e["text"] for e in entry["shape"])
        self.fixed = all(isinstance(e, int) for e in self.extents)

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The shape for these symbolic dimensions."""
        return tuple(_value(e, sizes) for e in self.extents)

    def __str__(self) -> str:
        return f"{'float0' if self.given_no_values else self.dtype.name}[{','.join(self.texts)}]"


def _terms(written: Sequence[tuple[int, Sequence[str]]]) -> Mapping[Monomial, int]:
    """A polynomial as a manifest has it, `[[factor, [name, ...]], ...]`."""
    return {tuple(names): int(factor) for factor, names in written}


def _value(extent: int | Mapping[Monomial, int], sizes: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else evaluate(extent, sizes)


def _solve(extent: Mapping[Monomial, int], found: int, sizes: dict[str, int]) -> None:
    """Takes a symbolic dimension from an extent that has no other one, if that can be done
    exactly."""
    unknown = variables(extent) - set(sizes)
    if len(unknown) != 1:
        return
    (name,) = unknown
    linear = [names for names in extent if name in variables({names: 1})]
    if linear != [(name,)]:
        return
    rest = {names: f for names, f in extent.items() if names != (name,)}
    quotient, remainder = divmod(found - evaluate(rest, sizes), extent[(name,)])
    if remainder == 0:
        sizes[name] = quotient


def symbolic_sizes(
    types: Sequence[ArgumentType],
    shapes: Sequence[tuple[int, ...]],
    constraints: Sequence[dict[str, Any]],
) -> dict[str, int]:
    """The symbolic dimensions that the arguments' shapes tell, by name.

    Raises ArgumentValueError, naming the argument and the sizes, for shapes that do not fit.
    """
    sizes: dict[str, int] = {}
    for _ in range(2):  # extents of two symbolic dimensions may wait for one that comes later
        for kind, shape in zip(types, shapes, strict=True):
            if len(shape) == len(kind.extents):
                for extent, found in zip(kind.extents, shape, strict=True):
                    if not isinstance(extent, int):
                        _solve(extent, found, sizes)
    told = "".join(f", where {n} is {v}" for n, v in sorted(sizes.items()))
    for kind, shape in zip(types, shapes, strict=True):
        known = all(isinstance(e, int) or variables(e) <= set(sizes) for e in kind.extents)
        if len(shape) != len(kind.extents) or not known or kind.shape(sizes) != shape:
            found = ",".join(map(str, shape))
            raise ArgumentValueError(
                f"argument {kind.path}: expected {kind}, got shape [{found}]{told}"
            )
    for name, value in sizes.items():
        if value < 1:
            raise ArgumentValueError(
                f"the symbolic dimension {name} must be at least 1, got {value}"
            )
    for constraint in constraints:
        left, right = (
            evaluate(_terms(side), sizes) for side in (constraint["left"], constraint["right"])
        )
        if not _HOLDS[constraint["relation"]](left, right):
            values = ", ".join(f"{n} = {v}" for n, v in sorted(sizes.items()))
            raise ArgumentValueError(
                f"the constraint {constraint['text']} does not hold for {values}"
            )
    return sizes


_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    ">=": lambda a, b: a >= b,
    "mod": lambda a, b: a % b == 0,
}


def checked_argument(kind: ArgumentType, value: Any) -> Array:
    """An argument as an array of the right dtype.

    Python numbers take the dtype they stand for; arrays must have it.
    """
    if type(value) in (bool, int, float, complex) and not kind.extents:
        rank = "biufc".find(kind.dtype.kind)
        needs = {bool: 0, int: 1, float: 3, complex: 4}[type(value)]
        if (kind.dtype.kind == "b") == (needs == 0) and (rank < 0 or rank >= needs):
            return np.asarray(value, kind.dtype)
    array = value if type(value) is np.ndarray else np.asarray(value)
    if kind.given_no_values:
        return array
    if array.dtype != kind.dtype:
        raise ArgumentTypeError(
            f"argument {kind.path}: expected dtype {kind.dtype.name}, got {array.dtype.name}"
        )
    return array


# ---- xpr/runtimes/bundle/trees.py


Children = Callable[[str, Any], Sequence[Any] | None]

_SEQUENCES = ("tuple", "list", "custom")


def count_leaves(structure: Any) -> int:
    """How many leaves a structure has; CorruptBundleError if it is none."""
    kind = structure["type"]
    if kind == "leaf":
        return 1
    children = structure["children"]
    sound = type(children) is list
    if kind in ("dict", "namedtuple"):
        names = structure["keys" if kind == "dict" else "fields"]
        sound = sound and type(names) is list and len(set(names)) == len(names) == len(children)
        if sound and kind == "namedtuple":
            _named_tuple(structure["name"], tuple(names))
    elif kind == "none":
        sound = sound and not children
    elif kind not in _SEQUENCES:
        sound = False
    if not sound:
        raise CorruptBundleError(f"{MANIFEST} is damaged: a node of type {kind!r} is unsound")
    return sum(map(count_leaves, children))


def check_structure(in_tree: Any, out_tree: Any, inputs: int, outputs: int) -> None:
    """Raises CorruptBundleError unless these are a call's arguments and its result."""
    found = count_leaves(in_tree), count_leaves(out_tree)
    if found != (inputs, outputs):
        raise CorruptBundleError(
            f"{MANIFEST} is damaged: its structures have {found} inputs and results, its tables "
            f"{(inputs, outputs)}"
        )
    if [child["type"] for child in in_tree["children"]] != ["tuple", "dict"]:
        raise CorruptBundleError(f"{MANIFEST} is damaged: the inputs are no arguments of a call")


def flatten(
    structure: dict[str, Any], tree: Any, path: str = "", custom: Children | None = None
) -> list[Any]:
    """The leaves of `tree`, whose structure must be the given one.

    Nodes of types that only the exporting program knew are given as sequences of their children.
    Raises ArgumentTypeError that names the place where the structures differ.
    """
    kind, children = structure["type"], structure.get("children", ())
    if kind == "leaf":
        return [tree]
    if kind == "none":
        if tree is not None:
            raise ArgumentTypeError(f"argument {path or '()'}: expected None, got {type(tree)}")
        return []
    if kind == "dict":
        keys = structure["keys"]
        if not isinstance(tree, dict) or set(tree) != set(keys):
            shown = sorted(map(repr, tree)) if isinstance(tree, dict) else type(tree)
            raise ArgumentTypeError(
                f"argument {path or '()'}: expected a dict with the keys {keys}, got {shown}"
            )
        items, names = [tree[k] for k in keys], [f"[{k!r}]" for k in keys]
    else:
        items = custom(structure["name"], tree) if kind == "custom" and custom else None
        if items is None:
            wanted = {"list": list, "tuple": tuple}.get(kind, (list, tuple))
            if not isinstance(tree, wanted):
                raise ArgumentTypeError(
                    f"argument {path or '()'}: expected a {kind}, got {type(tree)}"
                )
            items = list(tree)
        names = [f"[{i}]" for i in range(len(items))]
        if len(items) != len(children):
            raise ArgumentTypeError(
                f"argument {path or '()'}: expected {len(children)} items, got {len(items)}"
            )
    leaves: list[Any] = []
    for child, item, name in zip(children, items, names, strict=True):
        leaves += flatten(child, item, path + name, custom)
    return leaves


def unflatten(structure: dict[str, Any], leaves: Sequence[Any]) -> Any:
    """The tree of that structure with these leaves; unknown types of nodes become tuples."""
    rest = iter(leaves)

    def build(node: dict[str, Any]) -> Any:
        kind = node["type"]
        if kind == "leaf":
            return next(rest)
        children = [build(child) for child in node.get("children", ())]
        if kind == "none":
            return None
        if kind == "dict":
            return dict(zip(node["keys"], children, strict=True))
        if kind == "list":
            return children
        if kind == "namedtuple":
            return _named_tuple(node["name"], tuple(node["fields"]))(*children)
        return tuple(children)

    return build(structure)


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def flatten_call(
    structure: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    custom: Children | None = None,
) -> list[Any]:
    """The leaves of a call's arguments; ArgumentTypeError for a wrong number or structure."""
    positional, named = structure["children"]
    wanted = positional["children"]
    if len(args) != len(wanted):
        raise ArgumentTypeError(
            f"the program takes {len(wanted)} positional arguments, got {len(args)}"
        )
    if set(kwargs) != set(named["keys"]):
        raise ArgumentTypeError(
            f"the program takes the keyword arguments {named['keys']}, got {sorted(kwargs)}"
        )
    leaves: list[Any] = []
    for i, (child, arg) in enumerate(zip(wanted, args, strict=True)):
        leaves += flatten(child, arg, f"args[{i}]", custom)
    for key, child in zip(named["keys"], named["children"], strict=True):
        leaves += flatten(child, kwargs[key], f"kwargs[{key!r}]", custom)
    return leaves


# ---- xpr/runtimes/bundle/iree.py


VULKAN_FLAGS = (
    "--vulkan_cached_bda_replay_instances=0",
    "--vulkan_retained_cached_bda_replay_instances=0",
)
"""For IREE's driver. What it records of a program, to submit it again with other buffers, it
submits with the earlier ones: loops that update an array in place lose updates."""


DRIVERS = {"vulkan": "vulkan", "cuda": "cuda", "rocm": "hip", "metal": "metal"}


# The integers that carry types which NumPy and IREE have no common name for.
_CARRIED = {
    "bfloat16": ("uint16", "BFLOAT_16"),
    "float8_e4m3fn": ("uint8", "FLOAT_8_E4M3_FN"),
    "float8_e4m3fnuz": ("uint8", "FLOAT_8_E4M3_FNUZ"),
    "float8_e5m2": ("uint8", "FLOAT_8_E5M2"),
    "float8_e5m2fnuz": ("uint8", "FLOAT_8_E5M2_FNUZ"),
    "float8_e8m0fnu": ("uint8", "FLOAT_8_E8M0_FNU"),
    "float4_e2m1fn": ("uint8", "UINT_8"),
    "float8_e3m4": ("uint8", "UINT_8"),
    "float8_e4m3": ("uint8", "UINT_8"),
    "float8_e4m3b11fnuz": ("uint8", "UINT_8"),
    "int2": ("int8", "SINT_8"),
    "int4": ("int8", "SINT_8"),
    "uint2": ("uint8", "UINT_8"),
    "uint4": ("uint8", "UINT_8"),
}
_KINDS = {"b": "BOOL", "i": "SINT", "u": "UINT", "f": "FLOAT", "c": "COMPLEX"}


def iree_version() -> str:
    """The version of the IREE runtime that is installed."""
    version = importlib.import_module("iree.runtime.version")
    return str(getattr(version, "VERSION", None) or getattr(version, "PACKAGE_VERSION", ""))


class _Iree:
    """The process's IREE instance and its devices, which live until the process ends."""

    def __init__(self) -> None:
        self.rt: Any = importlib.import_module("iree.runtime")
        binding: Any = importlib.import_module("iree.runtime._binding")
        shared = sys.modules.get("xpr.runtimes.hal")
        # A second instance in one process would end it: in a process of xpr's, use its own.
        if shared is not None:
            self.instance = shared.start().instance
        else:
            binding.disable_leak_checker()
            self.instance = self.rt.VmInstance()
        self.create_driver = binding.create_hal_driver
        self.pack = binding.ArgumentPacker(binding._invoke_statics, None).pack
        self.InvokeContext = binding.InvokeContext
        self._drivers: dict[str, Any] = {}
        self._devices: dict[str, tuple[Any, Any]] = {}
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def driver(self, name: str) -> Any:
        """One of IREE's drivers; RuntimeError or ValueError if it does not work here."""
        found = self._drivers.get(name)
        if found is None:
            if name == "vulkan":
                self.rt.flags.parse_flags(*VULKAN_FLAGS)
            found = self._drivers[name] = self.create_driver(name)
        return found

    def first_device(self, name: str) -> Any:
        """The number by which a driver knows its first device; RuntimeError if it has none."""
        devices = self.driver(name).query_available_devices()
        if not devices:
            raise RuntimeError(f"the driver {name} finds no device")
        return devices[0]["device_id"]

    def device(self, name: str) -> tuple[Any, Any]:
        """The first device of a driver, and the module bound to it."""
        found = self._devices.get(name)
        if found is None:
            found = self._devices[name] = self._shared_device(name) or self._open_device(name)
        return found

    def _shared_device(self, name: str) -> tuple[Any, Any] | None:
        """In a process of xpr's, the GPU that it has opened, or opens now, with this driver."""
        registry = sys.modules.get("xpr.runtimes.registry")
        runtime = next((r for r, driver in DRIVERS.items() if driver == name), None)
        if registry is None or runtime is None:
            return None
        try:
            return registry.devices(runtime)[0].hal_device()
        except RuntimeError:
            return None  # xpr is not to use it here; the loader may

    def _open_device(self, name: str) -> tuple[Any, Any]:
        made = self.driver(name)
        device = (
            made.create_default_device()
            if name.startswith("local")
            else made.create_device(self.first_device(name))
        )
        return device, self.rt.create_hal_module(self.instance, device)

    @functools.cache  # noqa: B019  there is one such object
    def element_type(self, dtype: np.dtype[Any]) -> tuple[int, str | None]:
        """IREE's number for a dtype, and the type that carries it where NumPy has no name."""
        carried = _CARRIED.get(dtype.name)
        name = carried[1] if carried else f"{_KINDS[dtype.kind]}_{8 * dtype.itemsize}"
        return int(getattr(self.rt.HalElementType, name)), carried[0] if carried else None


iree = functools.cache(_Iree)


def tell_of_gpu(runtime: str) -> str:
    """What IREE tells about the GPU that this process uses for a runtime."""
    found, name = iree(), DRIVERS[runtime]
    return str(found.driver(name).dump_device_info(found.first_device(name)))


# ---- xpr/runtimes/bundle/machine.py


_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


def host_architecture() -> str:
    """The architecture of this machine, as the first word of a target triple."""
    name = host_platform.machine().lower()
    return _ARCHITECTURES.get(name, name)


@functools.cache
def host_features() -> frozenset[str] | None:
    """The instruction sets of this CPU as Linux names them; None where nothing tells them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features"):
                    return frozenset(value.split())
                if key.strip() == "isa":
                    return frozenset(value.strip().lower().split("_"))
    except OSError:
        pass
    return None


def _major(version: str) -> str:
    return str(version).partition(".")[0]


def _why_cpu_unfit(entry: dict[str, Any]) -> str | None:
    """Why this machine's CPU cannot run a module; None if nothing speaks against it."""
    here, wanted = host_architecture(), entry["architecture"]
    if here != wanted:
        return f"it is for the architecture {wanted}, and this machine is {here}"
    features = set(entry["features"])
    if not features:
        return None
    known = host_features()
    if known is None:
        return (
            f"it needs the CPU features {', '.join(sorted(features))}, and this system does not "
            "tell which ones there are (check_machine=False skips this check)"
        )
    missing = sorted(features - known)
    return f"it needs CPU features that are missing here: {', '.join(missing)}" if missing else None


# What modules for Vulkan may need of a device: under which name IREE tells of it, and, where it
# does not, the place of the flag in Vulkan's own list, VkPhysicalDeviceFeatures.
_VULKAN_TOLD = {
    "float16": "shaderFloat16",
    "int8": "shaderInt8",
    "storage16": "storageBuffer16BitAccess",
    "storage8": "storageBuffer8BitAccess",
}
_VULKAN_ASKED = {"float64": 39, "int64": 40, "int16": 41}
_VULKAN_LIBRARIES = {"win32": "vulkan-1.dll", "darwin": "libvulkan.1.dylib"}


def gpu_abilities(runtime: str, told: str) -> frozenset[str] | None:
    """What a module may need of a GPU, from the text that IREE's driver tells about it.

    That is the architecture for CUDA and ROCm, the types for Vulkan; None if nothing is known.
    """
    if runtime == "cuda":
        found = re.search(r"gpu-compute-capability: (\d+)\.(\d+)", told)
        return frozenset({f"sm_{found[1]}{found[2]}"}) if found else None
    if runtime == "rocm":
        found = re.search(r"gpu-arch-name: (\w+)", told)  # settings may follow behind a colon
        return frozenset({found[1]}) if found else None
    name = re.search(r"^name: (.*)$", told, re.MULTILINE)
    asked = _asked_of_vulkan(name[1]) if runtime == "vulkan" and name else None
    if asked is None:
        return None
    return asked | {key for key, flag in _VULKAN_TOLD.items() if f" {flag}=yes" in told}


def _asked_of_vulkan(device_name: str) -> frozenset[str] | None:
    """The types of 64 and 16 bits that a device computes with; None if Vulkan does not tell.

    The structures are those of Vulkan 1.0, as rows of 32-bit words.
    """
    try:
        vulkan: Any = ctypes.CDLL(_VULKAN_LIBRARIES.get(sys.platform, "libvulkan.so.1"))
    except OSError:
        return None
    instance, count = ctypes.c_void_p(), ctypes.c_uint32()
    info = (ctypes.c_uint32 * 16)(1)  # VkInstanceCreateInfo: its type, and nothing asked for
    if vulkan.vkCreateInstance(info, None, ctypes.byref(instance)) != 0:
        return None
    try:
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        devices = (ctypes.c_void_p * count.value)()
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices)
        for device in map(ctypes.c_void_p, devices):
            properties, flags = ctypes.create_string_buffer(2048), (ctypes.c_uint32 * 64)()
            vulkan.vkGetPhysicalDeviceProperties(device, properties)
            if properties.raw[20:276].split(b"\0")[0].decode("utf-8", "replace") == device_name:
                vulkan.vkGetPhysicalDeviceFeatures(device, flags)
                return frozenset(key for key, place in _VULKAN_ASKED.items() if flags[place])
        return None
    finally:
        vulkan.vkDestroyInstance(instance, None)


def why_gpu_unfit(entry: dict[str, Any], abilities: frozenset[str] | None) -> str | None:
    """Why a GPU of these abilities cannot run a module; None if nothing speaks against it."""
    if abilities is None:
        return None
    if entry["runtime"] == "vulkan":
        missing = sorted(set(entry.get("needs", ())) - abilities)
        return f"it needs what this device lacks: {', '.join(missing)}" if missing else None
    (here,) = abilities
    if entry["runtime"] == "rocm":
        wanted = entry["architecture"]
        return None if here == wanted else f"it is for {wanted}, and this GPU is {here}"
    wanted = entry["compiled_for"]
    if int(here.removeprefix("sm_")) >= int(wanted.removeprefix("sm_")):
        return None
    return f"it is for GPUs from {wanted} on, and this one is {here}"


def _why_unfit(entry: dict[str, Any], tell: Callable[[str], str]) -> str | None:
    runtime = entry["runtime"]
    if runtime == "cpu":
        return _why_cpu_unfit(entry)
    if runtime not in DRIVERS:
        return None
    try:
        told = tell(runtime)
    except (RuntimeError, ValueError) as error:
        return f"{runtime} does not work here: {' '.join(str(error).split())}"
    return why_gpu_unfit(entry, gpu_abilities(runtime, told))


def choose_platform(
    manifest: dict[str, Any],
    platform: str | None,
    *,
    check_machine: bool = True,
    tell: Callable[[str], str] | None = None,
) -> str:
    """The key, in the manifest's table of platforms, of the module to run here.

    Without a name: the first module that fits this machine, those for CPUs before others.
    `tell` gives what IREE tells about the GPU of a runtime. Raises BundleTargetError with the
    reason for each module that does not fit.
    """
    table: dict[str, Any] = manifest["platforms"]
    names = [n for n, e in table.items() if platform in (None, n, e["runtime"])]
    if not names:
        raise BundleTargetError(
            f"the bundle has no module for the platform {platform!r}, only for {', '.join(table)}"
        )
    reasons = {}
    for name in sorted(names, key=lambda n: table[n]["runtime"] != "cpu"):
        reason = _why_unfit(table[name], tell or tell_of_gpu) if check_machine else None
        if reason is None:
            return name
        reasons[name] = reason
    said = "; ".join(f"the module {n!r}: {r}" for n, r in reasons.items())
    raise BundleTargetError(f"the bundle cannot run on this machine: {said}")


def check_versions(manifest: dict[str, Any]) -> None:
    """Raises BundleVersionError for a bundle of another major version of IREE."""
    made, here = manifest["iree"], iree_version()
    if _major(made) != _major(here):
        raise BundleVersionError(
            f"the bundle was compiled by IREE {made}, and the installed runtime is {here}: they "
            "must agree in the major version"
        )


# ---- xpr/runtimes/bundle/runner.py


PARALLEL_COST = 4e6
COPIED_BYTES = 4096
_ALIGNMENT = 64


def is_parallel(cost: float) -> bool:
    """Whether a program is worth several threads, and the process has them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cost >= PARALLEL_COST and (cores or 1) > 1


class Runner:
    """One module on one device: flat arrays in, flat arrays out."""

    def __init__(self, vmfb: bytes, runtime: str, cost: float, inputs: int) -> None:
        shared = iree()
        rt = shared.rt
        local = "local-task" if is_parallel(cost) else "local-sync"
        self.is_host = runtime not in DRIVERS
        try:
            self.device, hal_module = shared.device(DRIVERS.get(runtime, local))
        except (RuntimeError, ValueError) as error:
            raise BundleTargetError(f"{runtime} does not work here: {error}") from error
        try:
            module = rt.VmModule.copy_buffer(shared.instance, vmfb)
            self._context = rt.VmContext(shared.instance, [hal_module, module])
        except Exception as error:
            raise BundleTargetError(
                f"IREE {iree_version()} cannot load the module for {runtime}: {error}"
            ) from error
        self._function = module.lookup_function("main")
        if self._function is None:
            raise CorruptBundleError("the module has no function 'main'")
        declared = str(self._function.reflection.get("iree.abi.declaration", ""))
        taken = len(re.findall(r"%input\d+: ", declared))
        if declared and taken != inputs:
            raise CorruptBundleError(
                f"the module takes {taken} arrays, {MANIFEST} lists {inputs} weights and inputs"
            )
        self._pack_context = shared.InvokeContext(self.device)
        memory, usage = rt.MemoryType, rt.BufferUsage
        if self.is_host:
            self._memory = int(memory.HOST_LOCAL | memory.DEVICE_VISIBLE)
            self._usage = int(usage.DEFAULT | usage.MAPPING)
        else:
            self._memory, self._usage = int(memory.DEVICE_LOCAL), int(usage.DEFAULT)
        self._allocator = self.device.allocator
        self._element_type = shared.element_type
        self._pack = shared.pack
        self._results = rt.VmVariantList
        self._view = rt.HalBufferView

    def to_device(self, array: Array) -> Any:
        """A buffer view of an array's values, over its own memory where that can be."""
        element, carrier = self._element_type(array.dtype)
        if carrier is not None:
            array = array.view(carrier)
        size, contiguous = array.nbytes, array.flags.c_contiguous
        if size > COPIED_BYTES and self.is_host and array.flags.writeable and contiguous:
            address = array.__array_interface__["data"][0]
            if address % _ALIGNMENT == 0:
                view = self.device.from_dlpack_capsule(array.__dlpack__())
                if carrier is None:
                    return view
                return self._view(view.get_buffer(), array.shape, element)
        if size == 0:
            buffer = self._allocator.allocate_buffer(self._memory, self._usage, 1)
            return self._view(buffer, list(array.shape), element)
        if not contiguous:
            array = np.ascontiguousarray(array).reshape(array.shape)
        return self._allocator.allocate_buffer_copy(
            self._memory, self._usage, self.device, array, element
        )

    def _to_host(self, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        count = math.prod(shape) * dtype.itemsize
        if count == 0:
            return np.empty(shape, dtype)
        if self.is_host:
            raw = np.asarray(memoryview(view.map()).toreadonly())
            return raw[:count].view(dtype).reshape(shape)
        rt = iree().rt
        memory, usage = rt.MemoryType, rt.BufferUsage
        staging = self.device.allocator.allocate_buffer(
            int(memory.HOST_LOCAL | memory.DEVICE_VISIBLE),
            int(usage.DEFAULT | usage.MAPPING),
            count,
        )
        done = rt.HalFence.create_at(self.device.create_semaphore(0), 1)
        self.device.queue_copy(view.get_buffer(), staging, rt.HalFence(0), done)
        done.wait()
        return np.frombuffer(staging.map(), np.uint8, count).copy().view(dtype).reshape(shape)

    def span(self, view: Any) -> tuple[int, int]:
        """The addresses that a buffer view covers."""
        size = view.byte_length
        if size == 0:
            return 0, 0
        low = np.ndarray(size, np.uint8, view.map()).__array_interface__["data"][0]
        return low, low + size

    def shared_results(self, views: Sequence[Any], results: Sequence[Array]) -> frozenset[int]:
        """The results that lie in the memory of an operand or of an earlier result."""
        if not self.is_host:
            return frozenset()
        taken = [self.span(v) for v in views]
        found = set()
        for i, array in enumerate(results):
            low = array.__array_interface__["data"][0]
            high = low + array.nbytes
            if any(low < end and start < high for start, end in taken):
                found.add(i)
            taken.append((low, high))
        return frozenset(found)

    def __call__(
        self, views: list[Any], results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> list[Array]:
        """The results, each over the memory that the module gave it."""
        out = self._results(len(results))
        self._context.invoke(self._function, self._pack(self._pack_context, views, {}), out)
        arrays = []
        for i, (shape, dtype) in enumerate(results):
            view = out.get_as_object(i, self._view)
            if tuple(view.shape) != shape:
                raise BundleError(
                    f"the manifest promises shape {shape} as result {i}, the module returns "
                    f"{tuple(view.shape)}"
                )
            arrays.append(self._to_host(view, shape, dtype))
        return arrays


def aligned(array: Array) -> Array:
    """A writable copy in memory that compiled code can use as it is."""
    raw = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % _ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


# ---- xpr/runtimes/bundle/programs.py


# What reading a manifest raises where something in it is not what it should be.
_UNSOUND = (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError)


class Program:
    """One of a bundle's programs as its manifest describes it, with the module for one platform."""

    def __init__(
        self,
        members: Members,
        order: int,
        platform: str | None,
        check_machine: bool,
        tell: Callable[[str], str] | None = None,
    ) -> None:
        manifest = members.manifest
        try:
            check_versions(manifest)
            self.platform = choose_platform(
                manifest, platform, check_machine=check_machine, tell=tell
            )
            programs = manifest["programs"]
            if not 0 <= order < len(programs):
                raise BundleError(
                    f"the bundle holds derivatives up to order {len(programs) - 1}, got {order}"
                )
            data = programs[order]
            self.runtime = str(manifest["platforms"][self.platform]["runtime"])
            self.inputs = [ArgumentType(e) for e in data["inputs"]]
            self.outputs = [ArgumentType(e) for e in data["outputs"]]
            self.in_tree, self.out_tree = data["in_tree"], data["out_tree"]
            check_structure(self.in_tree, self.out_tree, len(self.inputs), len(self.outputs))
            self.cost = float(data["cost"])
            self.straight_line = data["straight_line"] is True
            self.constraints = manifest["constraints"]
            self.vmfb = members.files[data["modules"][self.platform]]
            stored = members.files.get("weights.safetensors")
            tensors = read_tensors(stored)[0] if stored is not None else {}
            self.weights = [tensors[name] for name in data["weights"]]
        except BundleError:
            raise
        except _UNSOUND as error:
            raise CorruptBundleError(f"{MANIFEST} is damaged: {error!r}") from error


# ---- xpr/runtimes/bundle/native_runner.py


class NativeRunner:
    """One module on the processor, without IREE's runtime: flat arrays in, flat arrays out.

    Raises the native part's `Refusal` for a module that IREE has to run.
    """

    def __init__(self, module: Any, program: Program) -> None:
        taken = [(w.shape, w.dtype.itemsize) for w in program.weights]
        taken += [(t.shape({}), t.dtype.itemsize) for t in program.inputs if not t.given_no_values]
        made = [(t.shape({}), t.dtype.itemsize) for t in program.outputs if not t.given_no_values]
        self._program = module.Program(program.vmfb, "main", taken, made, [False] * len(taken))
        self._parallel = is_parallel(program.cost)
        fixed = self._program.is_fixed and program.straight_line
        self._keeps_lock = fixed and program.cost < SHORT_COST
        self._block_over = module.Block.over

    def to_device(self, array: Array) -> Any:
        """A block with an array's values, over its own memory where that can be."""
        flat = np.ascontiguousarray(array).reshape(-1)
        return self._block_over(flat.view(np.uint8), COPIED_BYTES)

    def shared_results(self, views: Sequence[Any], results: Sequence[Array]) -> frozenset[int]:
        """The results that lie in the memory of an operand or of an earlier result: none."""
        return frozenset()

    def __call__(
        self, views: list[Any], results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> list[Array]:
        """The results, each over memory of its own."""
        blocks = self._program(views, self._parallel, self._keeps_lock)
        return [
            np.frombuffer(block, np.uint8).view(dtype).reshape(shape)
            if math.prod(shape)
            else np.empty(shape, dtype)
            for block, (shape, dtype) in zip(blocks, results, strict=True)
        ]


def runner(program: Program, count: int) -> Runner | NativeRunner:
    """What runs a program that takes so many arrays: the native part, or IREE.

    The native part runs programs of fixed shapes for the processor that hold nothing it does not
    know. Where `XPR_NATIVE` has programs run both ways, bundles are left to IREE.
    """
    fixed = all(t.fixed for t in (*program.inputs, *program.outputs))
    if program.runtime == "cpu" and fixed:
        try:
            found = native()
        except ImportError:  # asked for where there is none: a bundle does not need it
            found = None
        if found is not None and found.executor is not None and not found.checks:
            try:
                return NativeRunner(found.executor, program)
            except found.executor.Refusal:
                pass  # IREE runs it, or says what is wrong with it
    return Runner(program.vmfb, program.runtime, program.cost, count)


# ---- xpr/runtimes/bundle/loader.py


class Bundle:
    """An exported program, ready to be called with NumPy arrays.

    `source` is a path or the bytes of a bundle. `platform` names a runtime (`cpu`, `vulkan`, ...)
    or one of the bundle's own names of modules; without it the first that fits this machine is
    taken. `hmac_key` (bytes) and `public_key` (32 bytes, or a key object of `cryptography`) ask
    for a signature. `order` picks the function itself (0) or its derivatives (`vjp_order`).
    `check_machine=False` skips the comparison of the module's needs with this machine.

    Raises CorruptBundleError, BundleSignatureError, BundleVersionError or BundleTargetError, all of
    them BundleErrors and ValueErrors, before any of the bundle's code is loaded.
    """

    @enters_iree
    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        platform: str | None = None,
        hmac_key: bytes | None = None,
        public_key: Any = None,
        order: int = 0,
        check_machine: bool = True,
    ) -> None:
        stop_if_near()
        with naming(source):
            members = open_bundle(source, hmac_key=hmac_key, public_key=public_key)
            program = Program(members, order, platform, check_machine)
            passed = [i for i, t in enumerate(program.inputs) if not t.given_no_values]
            count = len(program.weights) + len(passed)
            self._runner = runner(program, count)
        self.manifest = members.manifest
        self.platform = program.platform
        self.inputs, self.outputs = program.inputs, program.outputs
        self._program = program
        self._passed = passed
        self._weights = [self._runner.to_device(aligned(w)) for w in program.weights]
        # The results to copy out of other memory, once that is known: where no branch of the
        # program decides about it, the first call shows it for all.
        self._shared: frozenset[int] | None = None
        self._fixed = all(t.fixed for t in (*self.inputs, *self.outputs))
        self._shapes = [t.shape({}) for t in self.inputs] if self._fixed else []
        self._kinds = self._result_kinds({}) if self._fixed else []

    def _result_kinds(self, sizes: dict[str, int]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        return [(t.shape(sizes), t.dtype) for t in self.outputs if not t.given_no_values]

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program; arguments and result have the structure of the exported function.

        Raises ArgumentTypeError for a wrong number, structure or dtype, ArgumentValueError for
        wrong shapes, both with the name of the argument.
        """
        leaves = flatten_call(self._program.in_tree, args, kwargs)
        return unflatten(self._program.out_tree, self.call_flat(leaves))

    __call__ = call

    @enters_iree
    def call_flat(self, leaves: Sequence[Any]) -> list[Array]:
        """Calls the program with its flat inputs and gives its flat results."""
        stop_if_near()
        types = self.inputs
        if len(leaves) != len(types):
            raise ArgumentTypeError(f"the program takes {len(types)} arrays, got {len(leaves)}")
        arrays = [checked_argument(t, x) for t, x in zip(types, leaves, strict=True)]
        shapes = [a.shape for a in arrays]
        sizes: dict[str, int] = {}
        if self._fixed and shapes == self._shapes:
            kinds = self._kinds
        else:
            sizes = symbolic_sizes(types, shapes, self.manifest["constraints"])
            kinds = self._result_kinds(sizes)
        run = self._runner
        views = [*self._weights, *(run.to_device(arrays[i]) for i in self._passed)]
        results = run(views, kinds)
        shared = self._shared
        if shared is None:
            shared = run.shared_results(views, results)
            if self._program.straight_line:
                self._shared = shared
        for i in shared:
            results[i] = results[i].copy()
        if len(results) == len(self.outputs):
            return results
        rest = iter(results)
        return [
            np.zeros(t.shape(sizes), bool) if t.given_no_values else next(rest)
            for t in self.outputs
        ]


# ---- xpr/runtimes/bundle/command.py


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


if __name__ == "__main__":
    sys.exit(main())
