"""Bundles: one file with a module for each platform and all that a loader must know."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import os
import re
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr import tree_util
from xpr.export.modules import compile_for, iree_text
from xpr.export.program_data import dtype_text
from xpr.export.spirv import spirv_needs
from xpr.export.symbolic import dim_data
from xpr.export.targets import ExportTarget, export_target
from xpr.export.tensors import has_name, write_tensors
from xpr.export.trees import tree_data
from xpr.lowering.iree import installed
from xpr.runtimes.bundle.archive import FORMAT, FORMAT_VERSION, MANIFEST, SIGNATURE
from xpr.version import __version__

if TYPE_CHECKING:
    from xpr.export.exported import Exported

WEIGHTS = "weights.safetensors"
# A fixed date, the first that a ZIP archive can hold: the same program gives the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def save(
    exported: Exported,
    path: str | os.PathLike[str],
    *,
    targets: Sequence[str] | str | None = None,
    vjp_order: int = 0,
    weights_above: int | None = 1024,
    hmac_key: bytes | None = None,
    signing_key: Any = None,
) -> None:
    """Writes an exported function as a bundle, compiled for each of `targets`.

    Without `targets`, they are the platforms it was exported for; see `export_target` for others.
    Arrays of more than `weights_above` bytes that the function closes over are kept outside of the
    code, once for all platforms; None writes all into the code. `vjp_order` derivatives come with
    the function. `hmac_key` (bytes) and `signing_key` (an Ed25519 private key of `cryptography`, or
    its 32 bytes) sign the manifest, and with it all that it lists.

    Raises ValueError for unknown targets, TypeError for dtypes that a target lacks,
    NotImplementedError for programs that call back into this process.
    """
    data = bundle_bytes(
        exported,
        targets=targets,
        vjp_order=vjp_order,
        weights_above=weights_above,
        hmac_key=hmac_key,
        signing_key=signing_key,
    )
    with open(path, "wb") as file:
        file.write(data)


def bundle_bytes(
    exported: Exported,
    *,
    targets: Sequence[str] | str | None = None,
    vjp_order: int = 0,
    weights_above: int | None = 1024,
    hmac_key: bytes | None = None,
    signing_key: Any = None,
) -> bytes:
    """The bytes of the bundle that `save` writes."""
    if vjp_order < 0:
        raise ValueError(f"vjp_order must not be negative, got {vjp_order}")
    if isinstance(targets, str):
        targets = (targets,)
    names = list(dict.fromkeys(exported.platforms if targets is None else targets))
    if not names:
        raise ValueError("a bundle needs at least one target")
    chosen = [export_target(name) for name in names]
    files: dict[str, bytes] = {}
    weights = _Weights()
    entries, current = [], exported
    for order in range(vjp_order + 1):
        current = current.vjp() if order else current
        entries.append(_write_program(current, order, chosen, weights, weights_above, files))
    if weights.arrays:
        files[WEIGHTS] = write_tensors(weights.arrays)
    scope = exported.program.scope
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "xpr": __version__,
        "iree": _compiler_version(),
        "name": exported.fun_name,
        "vjp_order": vjp_order,
        "symbols": [] if scope is None else scope.names,
        "constraints": [] if scope is None else [c.data() for c in scope.constraints],
        "platforms": {t.name: _described(t, entries, files) for t in chosen},
        "programs": entries,
        "members": {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in files.items()
        },
    }
    raw = json.dumps(manifest, indent=1).encode()
    members = {MANIFEST: raw, **files}
    signature = _signature(raw, hmac_key, signing_key)
    if signature:
        members[SIGNATURE] = json.dumps(signature).encode()
    return _zip(members)


def _described(
    target: ExportTarget, entries: Sequence[dict[str, Any]], files: dict[str, bytes]
) -> dict[str, Any]:
    """What the manifest says of a target, with what the modules for it ask of a device."""
    if target.runtime != "vulkan":
        return target.description
    needs = frozenset[str]().union(
        *(spirv_needs(files[e["modules"][target.name]]) for e in entries)
    )
    return {**target.description, "needs": sorted(needs)}


class _Weights:
    """The arrays outside of the code; equal ones have one name."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._names: dict[Any, str] = {}

    def name_of(self, array: np.ndarray[Any, Any]) -> str:
        content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
        key = (array.dtype.name, array.shape, content)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"weight{len(self.arrays)}"
            self.arrays[name] = array
        return name


def _write_program(
    exported: Exported,
    order: int,
    targets: Sequence[ExportTarget],
    weights: _Weights,
    weights_above: int | None,
    files: dict[str, bytes],
) -> dict[str, Any]:
    """Adds the modules and the text of one program to `files`; its entry in the manifest."""
    constants = exported.program.data()[1].values()
    if not all(has_name(np.asarray(c).dtype) for c in constants):
        weights_above = None
    suffix = f".vjp{order}" if order else ""
    files[f"program{suffix}.mlir"] = iree_text(exported, weights_above).encode()
    made = [compile_for(exported, t.target, weights_above) for t in targets]
    modules = {}
    for target, module in zip(targets, made, strict=True):
        file = f"modules/{re.sub(r'[^A-Za-z0-9_]', '-', target.name)}{suffix}.vmfb"
        files[file] = module.vmfb
        modules[target.name] = file
    return {
        "name": exported.fun_name,
        "inputs": _types(exported.in_avals, exported.input_names()),
        "outputs": _types(exported.out_avals, _output_names(exported)),
        "in_tree": tree_data(exported.in_tree, named=True),
        "out_tree": tree_data(exported.out_tree, named=True),
        "weights": [weights.name_of(w) for w in made[0].weights],
        "cost": max(m.cost for m in made),
        "straight_line": all(m.straight_line for m in made),
        "text": f"program{suffix}.mlir",
        "modules": modules,
    }


def _types(avals: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "path": name,
            "shape": [dim_data(d) for d in a.shape],
            "dtype": dtype_text(a.dtype),
            "weak_type": bool(a.weak_type),
        }
        for name, a in zip(names, avals, strict=True)
    ]


def _output_names(exported: Exported) -> list[str]:
    dummy = tree_util.tree_unflatten(exported.out_tree, range(exported.out_tree.num_leaves))
    paths = [p for p, _ in tree_util.tree_flatten_with_path(dummy)[0]]
    return ["result" + tree_util.keystr(p) for p in paths]


def _compiler_version() -> str:
    found = re.search(r"\d+\.\d+\.\d+\w*", installed.version())
    return found[0] if found else "unknown"


def _signature(manifest: bytes, hmac_key: bytes | None, signing_key: Any) -> dict[str, str]:
    made = {}
    if hmac_key is not None:
        if len(hmac_key) < 16:
            raise ValueError(f"hmac_key must have at least 16 bytes, got {len(hmac_key)}")
        made["hmac-sha256"] = hmac.new(hmac_key, manifest, hashlib.sha256).hexdigest()
    if signing_key is not None:
        if isinstance(signing_key, (bytes, bytearray)):
            from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  optional

            signing_key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(signing_key))
        made["ed25519"] = base64.b64encode(signing_key.sign(manifest)).decode()
    return made


def _zip(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return out.getvalue()
