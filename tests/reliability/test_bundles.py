"""Damaged and forged bundles: refused by name, or as right as before; never a crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp

from .scripts import cases, run

PRELUDE = """
import io, json, random, sys, zipfile
from pathlib import Path
import numpy as np
from tests.reliability.scripts import damaged
from xpr.runtimes.bundle import ArgumentTypeError, Bundle, BundleError
sound = Path(sys.argv[1]).read_bytes()
count = int(sys.argv[2])
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
expected = Bundle(sound).call({"x": x})

def outcome(data, **options):
    try:
        found = Bundle(data, **options).call({"x": x})
    except (BundleError, ArgumentTypeError) as error:
        assert str(error) and "\\n" not in str(error), error
        return type(error).__name__
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[key], expected[key]) for key in expected)
    return "right"
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bundle with weights outside of the code and a module for the CPU alone."""
    weights = np.random.default_rng(0).standard_normal((4, 100)).astype(np.float32)

    def f(d):
        y = d["x"] @ weights
        return {"y": xnp.tanh(y), "n": xnp.argmax(y, axis=1).astype("int32")}

    path = tmp_path_factory.mktemp("bundle") / "f.xpr"
    struct = xpr.ShapeDtypeStruct((3, 4), np.float32)
    exported = xpr.export.export(xpr.jit(f), platforms=("cpu",))({"x": struct})
    exported.save(path)
    return path


def test_damaged_bundles_are_refused(bundle: Path) -> None:
    """A few changes reach only what no loader reads, such as the date of a member."""
    body = """
rng = random.Random(5)
seen = [outcome(damaged(sound, rng)) for _ in range(count)]
assert set(seen) <= {"CorruptBundleError", "right"}, set(seen)
print(len(seen), seen.count("right") < count / 10)
"""
    count = cases(2000, 50_000)
    assert run(PRELUDE + body, bundle, count) == f"{count} True\n"


def test_a_truncated_bundle_is_refused_at_every_length(bundle: Path) -> None:
    body = """
step = max(1, len(sound) // count)
seen = {outcome(sound[:n]) for n in range(0, len(sound), step)}
print(seen)
"""
    assert run(PRELUDE + body, bundle, cases(60, 2000)) == "{'CorruptBundleError'}\n"


def test_forged_manifests_are_refused_or_change_nothing(bundle: Path) -> None:
    """The digests are right, for the manifest names them; what it says may be anything."""
    body = """
rng = random.Random(6)
with zipfile.ZipFile(io.BytesIO(sound)) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
ODD = [None, True, -1, 0, 7, 10**30, 1.5, "", "int8", "../f", [], [1, [2]], {}, {"a": 1}]

def places(node, path=()):
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items if isinstance(node, (dict, list)) else ():
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)

def forged():
    manifest = json.loads(members["manifest.json"])
    path = rng.choice([p for p in places(manifest) if p and p[0] != "members"])
    node = manifest
    for key in path[:-1]:
        node = node[key]
    if rng.random() < 0.3:
        del node[path[-1]]
    else:
        node[path[-1]] = rng.choice(ODD)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            raw = json.dumps(manifest).encode() if name == "manifest.json" else content
            archive.writestr(zipfile.ZipInfo(name), raw)
    return path, out.getvalue()

assert outcome(sound) == "right"
for _ in range(count):
    path, data = forged()
    try:
        outcome(data)
    except AssertionError:
        # Other names and types of results: that is what the manifest says.
        assert {"out_tree", "outputs"} & set(path), path
    except Exception as error:
        raise AssertionError(path, repr(error)) from error
    assert outcome(data, hmac_key=b"x" * 16) == "BundleSignatureError"
print("survived")
"""
    assert run(PRELUDE + body, bundle, cases(2000, 50_000)) == "survived\n"


SERIALIZED = """
import hashlib, random, re, sys
import numpy as np
import xpr, xpr.numpy as xnp
from tests.reliability.scripts import damaged
from xpr.export import CorruptExportError, deserialize
weights = np.random.default_rng(0).standard_normal((4, 10)).astype(np.float32)
def f(d):
    return {"y": xnp.tanh(d["x"] @ weights)}
struct = xpr.ShapeDtypeStruct((3, 4), np.float32)
blob = bytes(xpr.export.export(xpr.jit(f))({"x": struct}).serialize())
assert deserialize(blob).fun_name == "f"
rng, refused, count = random.Random(7), 0, int(sys.argv[1])
"""


def test_damaged_serialized_functions_are_refused() -> None:
    body = """
for _ in range(count):
    try:
        deserialize(damaged(blob, rng))
    except CorruptExportError as error:
        assert str(error)
        refused += 1
print(count - refused)
"""
    assert run(SERIALIZED + body, cases(2000, 50_000)) == "0\n"


def test_forged_serialized_functions_raise_value_errors() -> None:
    """Their digest is right: then any program may stand there, or anything else."""
    body = """
start = blob.index(b'"xpr-exported"')
end = 8 + int.from_bytes(blob[:8], "little")
for _ in range(count):
    middle = damaged(blob[start:end], rng)
    size = (start - 8 + len(middle)).to_bytes(8, "little")
    forged = size + blob[8:start] + middle + blob[end:]
    forged = re.sub(rb'(?<="sha256":")[0-9a-f]{64}', b"0" * 64, forged, count=1)
    digest = hashlib.sha256(forged).hexdigest().encode()
    try:
        deserialize(forged.replace(b"0" * 64, digest, 1))
    except ValueError as error:
        assert str(error) and "has been altered" not in str(error)
        refused += 1
print(refused > count / 2)
"""
    assert run(SERIALIZED + body, cases(2000, 50_000)) == "True\n"
