"""The archive: a ZIP file with a manifest, digests of all members and perhaps a signature."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib
import io
import json
import os
import re
import struct
import zipfile
from typing import Any

from xpr.runtimes.bundle.errors import BundleSignatureError, BundleVersionError, CorruptBundleError

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
