"""A bundle that the tests of this folder share, and bundles with something changed in them."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr.export import Exported, export
from xpr.export.writing import bundle_bytes
from xpr.runtimes.bundle.archive import MANIFEST

W = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
PARAMS = {"b": np.linspace(-1, 1, 16, dtype=np.float32), "scale": np.float32(0.5)}
KEY = b"a key of sixteen"


def network(params: Any, x: Any, *, shift: Any) -> Any:
    """A layer whose weights are closed over; some results are operands as they are."""
    y = jnp.tanh(x @ W) * params["scale"] + params["b"] + shift
    return {"y": y, "rest": (y.sum(), [params["b"]], None), "w": jnp.asarray(W)}


@functools.cache
def exported() -> Exported:
    """`network`, exported."""
    return export(xpr.jit(network), platforms=("cpu",))(PARAMS, X, shift=np.float32(1))


@functools.cache
def plain_bundle() -> bytes:
    """`network` as a bundle for this machine's CPU, with its derivative."""
    return bundle_bytes(exported(), vjp_order=1)


@functools.cache
def signed_bundle() -> bytes:
    """The same with a signature."""
    return bundle_bytes(exported(), hmac_key=KEY)


def changed(
    data: bytes,
    change: Callable[[dict[str, Any], dict[str, bytes]], None],
    *,
    digests: bool = True,
    compress: int = zipfile.ZIP_STORED,
) -> bytes:
    """A bundle after `change(manifest, members)`; digests follow the members if wanted."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop(MANIFEST))
    change(manifest, members)
    if digests:
        for name in set(members) & set(manifest["members"]):
            manifest["members"][name]["sha256"] = hashlib.sha256(members[name]).hexdigest()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compress) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest))
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()
