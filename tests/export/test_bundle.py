"""Bundles: what is in them, what they compute, and what is refused before anything runs."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import warnings
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device, skip_unless_usable
from tests.export.bundles import (
    KEY,
    PARAMS,
    W,
    X,
    changed,
    exported,
    network,
    plain_bundle,
    signed_bundle,
)
from tests.lowering.vulkan_util import UPDATE_IN_A_LOOP, compile_on, vulkan_device
from xpr.export import export, load, symbolic_shape
from xpr.export.targets import export_target
from xpr.export.writing import bundle_bytes
from xpr.runtimes import extension
from xpr.runtimes.bundle import (
    LOADER_FILE,
    ArgumentTypeError,
    ArgumentValueError,
    Bundle,
    BundleError,
    BundleSignatureError,
    BundleTargetError,
    BundleVersionError,
    CorruptBundleError,
    machine,
)
from xpr.runtimes.bundle.archive import read_archive
from xpr.runtimes.bundle.command import main
from xpr.runtimes.bundle.iree import iree_version
from xpr.runtimes.vulkan import VulkanDevice

SHIFT = np.float32(1)


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_a_bundle_holds():
    members = members_of(plain_bundle())
    assert list(members) == [
        "manifest.json",
        "program.mlir",
        "modules/cpu.vmfb",
        "program.vjp1.mlir",
        "modules/cpu.vjp1.vmfb",
        "weights.safetensors",
    ]
    manifest = json.loads(members["manifest.json"])
    assert (manifest["format"], manifest["format_version"]) == ("xpr-bundle", 1)
    assert (manifest["xpr"], manifest["vjp_order"]) == (xpr.__version__, 1)
    assert manifest["iree"].split(".")[:2] == iree_version().split(".")[:2]
    program = manifest["programs"][0]
    assert [(i["path"], i["shape"], i["dtype"]) for i in program["inputs"]] == [
        ("args[0]['b']", [16], "float32"),
        ("args[0]['scale']", [], "float32"),
        ("args[1]", [4, 64], "float32"),
        ("kwargs['shift']", [], "float32"),
    ]
    assert [o["path"] for o in program["outputs"]] == [
        "result['rest'][0]",
        "result['rest'][1][0]",
        "result['w']",
        "result['y']",
    ]
    # The weights are stored once for all programs, in a file that others read too.
    tensors = safetensors.numpy.load(members["weights.safetensors"])
    assert list(tensors) == ["weight0"]
    np.testing.assert_array_equal(tensors["weight0"], W)
    assert b"stablehlo.dot_general" in members["program.mlir"]


def test_the_same_program_gives_the_same_bytes():
    assert bundle_bytes(exported(), vjp_order=1) == plain_bundle()


def test_loaded_bundles_compute_what_the_function_computes(tmp_path):
    path = tmp_path / "model.xpr"
    path.write_bytes(plain_bundle())
    expected = network(PARAMS, X, shift=SHIFT)
    on_device = xpr.tree.map(jnp.asarray, PARAMS)
    results = [
        load(path).call(PARAMS, X, shift=1.0),
        load(path, platform="cpu")(on_device, jnp.asarray(X), shift=SHIFT),
        load(plain_bundle(), device=xpr.devices()[0]).call(PARAMS, X, shift=SHIFT),
        Bundle(path).call(PARAMS, X, shift=1.0),
        Bundle(plain_bundle())(PARAMS, X, shift=SHIFT),
    ]
    for i, found in enumerate(results):
        assert xpr.tree.structure(found) == xpr.tree.structure(expected)
        kind = np.ndarray if i > 2 else xpr.Array
        for a, b in zip(xpr.tree.leaves(found), xpr.tree.leaves(expected), strict=True):
            assert isinstance(a, kind)
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def test_derivatives_in_bundles():
    flat = [PARAMS["b"], PARAMS["scale"], X, SHIFT]
    cts = [np.float32(1), np.zeros(16, "f4"), np.zeros(W.shape, "f4"), np.zeros((4, 16), "f4")]
    expected = xpr.grad(lambda p: network(p, X, shift=SHIFT)["rest"][0])(PARAMS)
    for model in (Bundle(plain_bundle(), order=1), load(plain_bundle(), order=1)):
        found = model.call(*flat, *cts)
        np.testing.assert_allclose(np.asarray(found[0]), expected["b"], rtol=1e-5)
        np.testing.assert_allclose(np.asarray(found[1]), expected["scale"], rtol=1e-4)
    with pytest.raises(BundleError, match="derivatives up to order 1, got 2"):
        Bundle(plain_bundle(), order=2)


def test_results_share_no_memory_with_arguments_or_weights():
    model = Bundle(plain_bundle())
    params = {"b": np.array(PARAMS["b"]), "scale": PARAMS["scale"]}
    first = model.call(params, X, shift=SHIFT)
    params["b"][:] = 99
    np.testing.assert_array_equal(first["rest"][1][0], PARAMS["b"])
    if first["w"].flags.writeable:
        first["w"][:] = 0
    np.testing.assert_array_equal(model.call(params, X, shift=SHIFT)["w"], W)


def test_integers_and_results_without_values():
    e = export(xpr.jit(lambda x, n: (x * n, n + 1)))(np.ones(3, np.float32), np.int32(2))
    model = Bundle(bundle_bytes(e, vjp_order=1), order=1)
    one, nothing = np.ones(3, np.float32), np.zeros((), xpr.float0)
    found = model.call(one, np.int32(5), one, nothing)
    np.testing.assert_array_equal(found[0], 5 * one)
    restored = load(bundle_bytes(e, vjp_order=1), order=1).call(one, np.int32(5), one, nothing)
    np.testing.assert_array_equal(restored[0], 5 * one)
    assert restored[1].dtype == xpr.float0


def test_small_types_cross_the_boundary():
    def f(x, flags):
        return x * 2, ~flags, x.astype("float8_e5m2")

    x, flags = np.asarray(jnp.ones(3, "bfloat16")), np.array([True, False])
    data = bundle_bytes(export(xpr.jit(f))(x, flags))
    for model in (Bundle(data), load(data)):
        found = [np.asarray(r) for r in model.call(x, flags)]
        assert [r.dtype.name for r in found] == ["bfloat16", "bool", "float8_e5m2"]
        np.testing.assert_array_equal(found[0].astype("f4"), np.full(3, 2, "f4"))
        np.testing.assert_array_equal(found[1], ~flags)


# ---- a machine with the loader alone

ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "xpr" or name.startswith("iree.compiler"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Blocked())
"""


def run_alone(folder: Path, code: str) -> str:
    shutil.copy(LOADER_FILE, folder / "bundle.py")
    (folder / "model.xpr").write_bytes(plain_bundle())
    (folder / "alone.py").write_text(ALONE + code)
    done = subprocess.run(
        [sys.executable, "alone.py"], cwd=folder, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_loader_needs_neither_xpr_nor_the_compiler(tmp_path):
    np.savez(tmp_path / "in.npz", b=PARAMS["b"], x=X)
    code = """
import bundle, numpy as np
given = np.load("in.npz")
model = bundle.Bundle("model.xpr")
out = model.call({"b": given["b"], "scale": 0.5}, given["x"], shift=1)
np.save("y.npy", out["y"])
print([m for m in sys.modules if m.startswith(("xpr", "iree.compiler", "scipy", "jax"))])
"""
    assert run_alone(tmp_path, code).strip() == "[]"
    expected = network(PARAMS, X, shift=SHIFT)["y"]
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-5)


BESIDE_XPR = """
import sys
import bundle, numpy as np
given = np.load("in.npz")
model = bundle.Bundle("model.xpr")
for _ in range(2):
    out = model.call({"b": given["b"], "scale": 0.5}, given["x"], shift=1)
    flat = [v for v in (out["y"], *out["rest"]) if isinstance(v, np.ndarray)]
np.savez(sys.argv[1], *flat)
print(type(model._runner).__name__, [m for m in sys.modules if m.startswith("xpr")])
import xpr, xpr.numpy as xnp
assert float(xpr.jit(lambda x: x + 1)(xnp.ones(3))[1]) == 2     # the same process may use both
again = model.call({"b": given["b"], "scale": 0.5}, given["x"], shift=1)
np.testing.assert_array_equal(again["y"], out["y"])
"""


@pytest.mark.skipif(
    find_spec("xpr.runtimes._native") is None, reason="the native part was not built here"
)
def test_the_loader_uses_the_native_part_where_xpr_is_installed(tmp_path):
    np.savez(tmp_path / "in.npz", b=PARAMS["b"], x=X)
    shutil.copy(LOADER_FILE, tmp_path / "bundle.py")
    (tmp_path / "model.xpr").write_bytes(plain_bundle())
    (tmp_path / "beside.py").write_text(BESIDE_XPR)
    told = {}
    for choice in ("", "1", "calls", "check", "0"):
        done = subprocess.run(
            [sys.executable, "beside.py", f"out{choice}.npz"],
            cwd=tmp_path,
            env={**os.environ, "XPR_NATIVE": choice, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        told[choice] = done.stdout.strip()
    native = "NativeRunner ['xpr.runtimes._native']"
    assert told["1"] == native
    assert told[""] == (native if extension.RUNS_PROGRAMS else told["calls"])
    assert told["calls"] == told["check"] == "Runner ['xpr.runtimes._native']"
    assert told["0"] == "Runner []"
    with np.load(tmp_path / "out1.npz") as mine, np.load(tmp_path / "out0.npz") as other:
        assert len(mine.files) >= 2
        for name in mine.files:
            assert mine[name].tobytes() == other[name].tobytes()
            assert mine[name].dtype == other[name].dtype


def test_the_loader_as_a_program(tmp_path):
    inputs = {"b": PARAMS["b"], "scale": PARAMS["scale"], "x": X, "shift": SHIFT}
    for name, value in inputs.items():
        np.save(tmp_path / f"{name}.npy", value)
    arguments = [part for name in inputs for part in ("--input", f"{name}.npy")]
    arguments = ["model.xpr", *arguments, "--output", "total.npy"]
    run = f"""
sys.argv = {["bundle.py", *arguments]!r}
import runpy
try:
    runpy.run_path("bundle.py", run_name="__main__")
except SystemExit as end:
    assert end.code == 0, end.code
"""
    printed = run_alone(tmp_path, run)
    assert "result['y']: float32[4, 16]" in printed
    expected = network(PARAMS, X, shift=SHIFT)["rest"][0]
    np.testing.assert_allclose(np.load(tmp_path / "total.npy"), expected, rtol=1e-5)


def test_the_program_tells_why_it_fails(tmp_path, capsys):
    path = tmp_path / "model.xpr"
    path.write_bytes(b"nothing of the kind")
    assert main([str(path)]) == 1
    assert "not a bundle" in capsys.readouterr().err
    path.write_bytes(plain_bundle())
    assert main([str(path)]) == 1
    told = capsys.readouterr().err
    assert "the program takes 4 inputs (args[0]['b']: float32[16], " in told
    assert told.endswith("), got 0\n")
    inputs = {"b": PARAMS["b"], "scale": PARAMS["scale"], "x": X, "shift": SHIFT}
    for name, value in inputs.items():
        np.save(tmp_path / f"{name}.npy", value)
    (tmp_path / "empty.npy").touch()
    files = [str(tmp_path / f"{name}.npy") for name in inputs]

    def arguments(files: list[str]) -> list[str]:
        return [str(path), *(part for file in files for part in ("--input", file))]

    assert main(arguments(files)) == 0
    assert capsys.readouterr().out.startswith("result['rest'][0]: float32[]\n")
    assert main(arguments([*files[:3], str(tmp_path / "empty.npy")])) == 1
    assert "empty.npy is no .npy file with an array: " in capsys.readouterr().err
    assert main([*arguments(files), *["--output", "a"] * 5]) == 1
    assert "the program has 4 results" in capsys.readouterr().err


# ---- what is refused


@pytest.mark.parametrize("length", [0, 10, 3000, -1, -30])
def test_truncated_files(length):
    with pytest.raises(CorruptBundleError, match="not a bundle"):
        Bundle(plain_bundle()[:length])


@pytest.mark.parametrize("opened", [Bundle, load])
def test_errors_name_the_file(tmp_path, opened):
    path = tmp_path / "short.xpr"
    path.write_bytes(plain_bundle()[:3000])
    with pytest.raises(CorruptBundleError, match=r"short\.xpr: not a bundle"):
        opened(path)
    path.write_bytes(plain_bundle())
    with pytest.raises(BundleTargetError, match=r"short\.xpr: .* no module for .* 'rocm'"):
        opened(path, platform="rocm")


def test_altered_bytes():
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(plain_bundle()), 40):
        data = bytearray(plain_bundle())
        data[place] ^= 0x10
        try:
            read_archive(bytes(data))
        except BundleError:
            continue
        # What no digest covers: times, attributes and such in the archive's own records.
        assert members_of(bytes(data)) == members_of(plain_bundle())


def test_members_that_differ_from_the_manifest():
    def alter(manifest, members):
        members["modules/cpu.vmfb"] = members["modules/cpu.vmfb"][:-1] + b"?"

    def add(manifest, members):
        members["more.bin"] = b"more"

    def remove(manifest, members):
        del members["weights.safetensors"]

    for change, message in (
        (alter, r"modules/cpu\.vmfb has been altered"),
        (add, r"name different members: more\.bin"),
        (remove, r"name different members: weights\.safetensors"),
    ):
        with pytest.raises(CorruptBundleError, match=message):
            Bundle(changed(plain_bundle(), change, digests=False))


def test_archives_with_tricks():
    for name in ("../evil", "/evil", "a/../evil", "C:evil", "a\\evil", "a//b"):
        with pytest.raises(CorruptBundleError, match="a forbidden name"):
            Bundle(
                changed(plain_bundle(), lambda _, members, name=name: members.update({name: b""}))
            )
    with pytest.raises(CorruptBundleError, match="is compressed"):
        Bundle(changed(plain_bundle(), lambda *_: None, compress=zipfile.ZIP_DEFLATED))
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("manifest.json", b"{}")
        archive.writestr("manifest.json", b"{}")
    with pytest.raises(CorruptBundleError, match="two members called"):
        Bundle(out.getvalue())
    # A directory that promises a gigabyte.
    data = bytearray(plain_bundle())
    entry = data.find(b"PK\x01\x02")
    struct.pack_into("<II", data, entry + 20, 1 << 30, 1 << 30)
    with pytest.raises(CorruptBundleError):
        Bundle(bytes(data))


def test_manifests_of_other_kinds():
    for change, error, message in (
        (lambda m: m.update(format="zoo"), CorruptBundleError, "describes 'zoo'"),
        (lambda m: m.update(format_version=2), BundleVersionError, "has format version 2"),
        (lambda m: m.update(iree="9.1.0"), BundleVersionError, r"compiled by IREE 9\.1\.0"),
        (lambda m: m.pop("programs"), CorruptBundleError, "manifest.json is damaged"),
        (lambda m: m.update(platforms={}), BundleTargetError, "no module for the platform"),
    ):
        data = changed(plain_bundle(), lambda m, _, change=change: change(m))
        with pytest.raises(error, match=message):
            Bundle(data)


def test_modules_for_other_machines():
    def entry(**fields):
        return lambda m, _: m["platforms"]["cpu"].update(fields)

    here = machine.host_architecture()
    data = changed(plain_bundle(), entry(architecture="z80"))
    for open_it in (Bundle, load):
        with pytest.raises(
            BundleTargetError, match=f"architecture z80, and this machine is {here}"
        ):
            open_it(data)
    data = changed(plain_bundle(), entry(features=["warp_drive"]))
    with pytest.raises(BundleTargetError, match="CPU features that are missing here: warp_drive"):
        Bundle(data)
    assert Bundle(data, check_machine=False).platform == "cpu"
    with pytest.raises(
        BundleTargetError, match="no module for the platform 'vulkan', only for cpu"
    ):
        Bundle(plain_bundle(), platform="vulkan")


def test_arguments_that_do_not_fit():
    for model in (Bundle(plain_bundle()), load(plain_bundle())):
        with pytest.raises(ArgumentTypeError, match="takes 2 positional arguments, got 1"):
            model.call(PARAMS, shift=SHIFT)
        with pytest.raises(ArgumentTypeError, match=r"keyword arguments \['shift'\], got \[\]"):
            model.call(PARAMS, X)
        with pytest.raises(ArgumentTypeError, match=r"args\[0\]: expected a dict with the keys"):
            model.call({"b": PARAMS["b"]}, X, shift=SHIFT)
        with pytest.raises(
            ArgumentTypeError, match=r"args\[1\]: expected dtype float32, got int32"
        ):
            model.call(PARAMS, X.astype(np.int32), shift=SHIFT)
        message = r"args\[1\]: expected float32\[4,64\], got shape \[3,64\]"
        with pytest.raises(ArgumentValueError, match=message):
            model.call(PARAMS, X[:3], shift=SHIFT)
        with pytest.raises(ArgumentTypeError, match=r"kwargs\['shift'\]: expected dtype float32"):
            model.call(PARAMS, X, shift=1j)
        with pytest.raises(ArgumentTypeError, match="takes 4 arrays, got 1"):
            model.call_flat([X])
    with pytest.raises(ArgumentTypeError, match=r"argument args\[1\]: Value \[1.0\] with type"):
        load(plain_bundle()).call(PARAMS, [1.0], shift=SHIFT)
    with pytest.raises(TypeError, match=r"argument args\[1\] is traced"):
        xpr.jit(lambda x: load(plain_bundle()).call(PARAMS, x, shift=SHIFT))(X)


# ---- signatures


def test_hmac_signatures():
    assert Bundle(signed_bundle(), hmac_key=KEY).platform == "cpu"
    assert Bundle(signed_bundle()).platform == "cpu"
    with pytest.raises(BundleSignatureError, match="no HMAC-SHA256 that fits the key"):
        load(signed_bundle(), hmac_key=KEY[::-1])
    with pytest.raises(BundleSignatureError, match="is not signed"):
        Bundle(plain_bundle(), hmac_key=KEY)

    def replace(manifest, members):
        members["program.mlir"] += b"// more"

    with pytest.raises(BundleSignatureError, match="no HMAC-SHA256"):
        Bundle(changed(signed_bundle(), replace), hmac_key=KEY)
    with pytest.raises(ValueError, match="at least 16 bytes, got 3"):
        bundle_bytes(exported(), hmac_key=b"abc")


def test_ed25519_signatures():
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = ed25519.Ed25519PrivateKey.generate()
    data = bundle_bytes(exported(), signing_key=key)
    assert bundle_bytes(exported(), signing_key=key.private_bytes_raw()) == data
    for public in (key.public_key(), key.public_key().public_bytes_raw()):
        assert Bundle(data, public_key=public).platform == "cpu"
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    with pytest.raises(BundleSignatureError, match="no Ed25519 signature that fits"):
        Bundle(data, public_key=other)
    with pytest.raises(BundleSignatureError, match="no Ed25519 signature that fits"):
        Bundle(signed_bundle(), public_key=other)


# ---- targets

ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}


def test_every_target_compiles():
    names = ["x86_64", "x86_64-v3", "aarch64-linux", "riscv64-linux", "vulkan", "vulkan:minimum"]
    names += ["cuda:sm_90", "rocm:gfx942", "metal", "vmvx"]
    e = export(xpr.jit(lambda x: jnp.tanh(x) @ x.T), platforms=("cpu", "vulkan"))(X)
    data = bundle_bytes(e, targets=names)
    members = members_of(data)
    manifest = json.loads(members["manifest.json"])
    assert list(manifest["platforms"]) == names
    for name, entry in manifest["platforms"].items():
        module = members[manifest["programs"][0]["modules"][name]]
        if entry["runtime"] == "cpu":
            header = module[module.index(b"\x7fELF") :]
            assert header[18] == ELF_MACHINES[entry["architecture"]]
    assert manifest["platforms"]["x86_64"]["features"] == []
    assert "avx2" in manifest["platforms"]["x86_64-v3"]["features"]
    assert Bundle(data, platform="vmvx").platform == "vmvx"
    found = Bundle(data, platform="vmvx").call(X)
    np.testing.assert_allclose(found, np.tanh(X) @ X.T, rtol=1e-4, atol=1e-4)
    if machine.host_architecture() in ELF_MACHINES:
        name = f"{machine.host_architecture()}"
        assert Bundle(data).platform.startswith(name)
        np.testing.assert_allclose(Bundle(data).call(X), np.tanh(X) @ X.T, rtol=1e-4, atol=1e-4)


def test_vulkan_where_there_is_a_device():
    skip_unless_usable("vulkan")

    def f(x):
        return jnp.tanh(x @ W), x

    for rows in (X, xpr.ShapeDtypeStruct(symbolic_shape("b, 64"), jnp.float32)):
        e = export(xpr.jit(f), platforms=("cpu", "vulkan"))(rows)
        data = bundle_bytes(e, targets=["cpu", "vulkan:device"])
        assert Bundle(data).platform == "cpu"
        for model in (Bundle(data, platform="vulkan"), load(data, platform="vulkan")):
            assert model.platform == "vulkan:device"
            y, x = model.call(X)
            np.testing.assert_allclose(np.asarray(y), f(X)[0], rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(np.asarray(x), X)


TOLD = {
    "cuda": "\n- gpu-compute-capability: {}\n\n- launch-max-block-dims: (1024, 1024, 64)",
    "rocm": "\n- gpu-compute-capability: 9.4\n- gpu-arch-name: {}\n",
}


@pytest.mark.parametrize(
    ("target", "here", "reason"),
    [
        ("cuda:sm_80", "8.0", None),
        ("cuda:sm_80", "9.0", None),
        ("cuda:sm_80", "12.0", None),
        ("cuda:sm_80", "7.5", "it is for GPUs from sm_80 on, and this one is sm_75"),
        # IREE knows none between sm_89 and sm_90, and what it makes for sm_89 runs on both.
        ("cuda:sm_90", "8.9", None),
        ("cuda:sm_90", "8.6", "it is for GPUs from sm_89 on, and this one is sm_86"),
        ("rocm:gfx942", "gfx942:sramecc+:xnack-", None),
        ("rocm:gfx942", "gfx90a", "it is for gfx942, and this GPU is gfx90a"),
        ("rocm:gfx90a", "gfx1100", "it is for gfx90a, and this GPU is gfx1100"),
    ],
)
def test_modules_for_other_gpus(target: str, here: str, reason: str | None) -> None:
    entry = export_target(target).description
    runtime = entry["runtime"]
    manifest = {"platforms": {target: entry}}

    def tell(asked: str) -> str:
        assert asked == runtime
        return TOLD[runtime].format(here)

    if reason is None:
        assert machine.choose_platform(manifest, None, tell=tell) == target
    else:
        with pytest.raises(BundleTargetError, match=f"the module '{target}': {reason}"):
            machine.choose_platform(manifest, runtime, tell=tell)
    assert machine.choose_platform(manifest, None, check_machine=False) == target
    # What a driver does not tell speaks against nothing.
    assert machine.choose_platform(manifest, None, tell=lambda _: "") == target


VULKAN = """
name: {}
features: shaderInt8=yes storageBuffer8BitAccess=yes storageBuffer16BitAccess=no shaderFloat16=no
"""


def test_what_modules_for_vulkan_need() -> None:
    def needs(f, *args) -> list[str]:
        data = bundle_bytes(export(xpr.jit(f), platforms=("vulkan",))(*args))
        return json.loads(members_of(data)["manifest.json"])["platforms"]["vulkan"]["needs"]

    assert needs(lambda x: jnp.tanh(x) @ x.T, X) == []
    assert needs(lambda x: x > 0, X) == ["int8", "storage8"]
    half, byte = jnp.ones(4, "float16"), jnp.ones(4, "int8")
    assert needs(lambda x, y: (x + 1, y * 2), half, byte) == [
        *("float16", "int8", "storage16", "storage8")
    ]
    with xpr.enable_x64(True):
        assert needs(lambda x: x * 2 + 1, np.ones(4)) == ["float64"]

    entry = {"runtime": "vulkan", "needs": ["float64", "int8"]}
    assert machine.why_gpu_unfit(entry, frozenset({"float64", "int8", "int64"})) is None
    assert machine.why_gpu_unfit(entry, None) is None
    reason = "it needs what this device lacks: float64"
    assert machine.why_gpu_unfit(entry, frozenset({"int8"})) == reason
    assert machine.gpu_abilities("vulkan", VULKAN.format("no such device")) is None


def test_platforms_that_do_not_work_here() -> None:
    def tell(runtime: str) -> str:
        raise RuntimeError(f"no driver\nfor {runtime}")

    manifest = {"platforms": {"cuda": {"runtime": "cuda"}, "vmvx": {"runtime": "vmvx"}}}
    assert machine.choose_platform(manifest, None, tell=tell) == "vmvx"
    with pytest.raises(BundleTargetError, match="'cuda': cuda does not work here: no driver for"):
        machine.choose_platform(manifest, "cuda", tell=tell)
    if any(device.platform == "metal" for device in xpr.devices()):
        pytest.skip("Metal works here")
    data = bundle_bytes(exported(), targets="metal")
    for open_it in (Bundle, load):
        with pytest.raises(BundleTargetError, match="the module 'metal': metal does not work here"):
            open_it(data)


LOOP_ON_VULKAN = """
import sys
import bundle, numpy as np
found = bundle.Bundle("loop.xpr", platform="vulkan").call(np.arange(1, 13, dtype=np.int32))
print(found[3])
"""


def test_the_loader_keeps_the_updates_of_loops_on_vulkan(tmp_path: Path) -> None:
    """With Vulkan's driver as it is, some are lost: see the hazards of the target."""
    x = np.arange(1, 13, dtype=np.int32)
    module = compile_on(vulkan_device(), UPDATE_IN_A_LOOP, [x], x)

    def replace(manifest, members):
        members[manifest["programs"][0]["modules"]["vulkan:device"]] = module

    data = bundle_bytes(export(xpr.jit(lambda x: x * 2))(x), targets="vulkan:device")
    (tmp_path / "loop.xpr").write_bytes(changed(data, replace))
    assert run_alone(tmp_path, LOOP_ON_VULKAN) == "256\n"


def test_a_vulkan_device_that_lacks_a_type(monkeypatch, tmp_path) -> None:
    device = first_device("vulkan")

    def more(manifest, members):
        manifest["platforms"]["vulkan:device"]["needs"].append("float128")

    data = bundle_bytes(exported(), targets="vulkan:device")
    assert isinstance(device, VulkanDevice)
    told = device.told()
    able = machine.gpu_abilities("vulkan", told)
    assert able is not None
    assert able & {"float64", "int64"} == device.capabilities.types & {"float64", "int64"}
    message = r"the module 'vulkan:device': it needs what this device lacks: float128"
    for open_it in (Bundle, load):
        assert open_it(data).platform == "vulkan:device"
        with pytest.raises(BundleTargetError, match=message):
            open_it(changed(data, more))
        assert open_it(changed(data, more), check_machine=False).platform == "vulkan:device"

    # The same where the driver says that the device cannot do what the module needs.
    flags = export(xpr.jit(lambda x: x > 0), platforms=("vulkan",))(X)
    data = bundle_bytes(flags, targets=["vulkan:device", "vmvx"])
    lesser = told.replace("shaderInt8=yes", "shaderInt8=no")
    monkeypatch.setattr(type(device), "told", lambda _: lesser)
    monkeypatch.setattr(machine, "tell_of_gpu", lambda _: lesser)
    for open_it in (Bundle, load):
        with pytest.raises(BundleTargetError, match="what this device lacks: int8"):
            open_it(data, platform="vulkan")
        assert open_it(data).platform == "vmvx"


def test_unknown_targets():
    names = ("abacus", "x86_64-v9", "aarch64-v2", "vulkan:moon", "cuda:gfx942", "metal:x")
    for name in (*names, "rocm:mi300", "rocm:sm_80"):
        with pytest.raises(ValueError, match="target"):
            export_target(name)
    e = export(xpr.jit(lambda x: x * 2))(jnp.ones(2, "float16"))
    with pytest.raises(TypeError, match="target vulkan has no float16: mul takes"):
        bundle_bytes(e, targets="vulkan:minimum")
    with pytest.raises(ValueError, match="at least one target"):
        bundle_bytes(e, targets=())
