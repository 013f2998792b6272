"""Bytes of exported functions that somebody made by hand: refused, or computed as they say."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.reliability.random_documents import mutated
from tests.reliability.scripts import cases, run
from xpr import export
from xpr.export.program_limits import MOST_DEPTH
from xpr.export.serialization import BLANK, DIGEST, FORMAT
from xpr.export.tensors import write_tensors
from xpr.runtimes.bundle.tensors import read_tensors


def document_of(blob: bytes | bytearray) -> tuple[Any, dict[str, Any]]:
    """The document in the bytes of an exported function, and its arrays."""
    tensors, metadata = read_tensors(bytes(blob))
    return json.loads(metadata[FORMAT]), tensors


def bytes_of(document: Any, tensors: dict[str, Any]) -> bytes:
    """The bytes of a document, with the digest that fits."""
    text = json.dumps(document, separators=(",", ":"))
    data = bytearray(write_tensors(tensors, {DIGEST: BLANK, FORMAT: text}))
    place = data.index(BLANK.encode())
    data[place : place + len(BLANK)] = hashlib.sha256(data).hexdigest().encode()
    return bytes(data)


WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def network(x: Any, i: Any, key: Any) -> Any:
    """Products, a loop, a branch, indices, a sort, random numbers and closed-over arrays."""
    y = xpr.jit(jnp.tanh)(x @ WEIGHTS)
    y = xpr.lax.fori_loop(0, 3, lambda n, c: c + xpr.jit(jnp.sin)(c) * n, y)
    y = xpr.lax.cond(i[0] > 0, lambda v: v[::-1], lambda v: v * 2, y)
    total, rows = xpr.lax.scan(lambda c, v: (c + v, v[i % 4]), jnp.zeros(4), y)
    return {"y": jnp.sort(y, axis=1), "more": (total, rows.at[i].add(xpr.random.normal(key)))}


ARGS = (np.ones((2, 3), np.float32), np.array([1, 0, 5], np.int32), xpr.random.key(1))


@pytest.fixture(scope="module")
def documents() -> list[tuple[Any, dict[str, Any]]]:
    fixed = export.export(xpr.jit(network))(*ARGS)
    (n,) = export.symbolic_shape("n", constraints=["n >= 2"])
    shape = xpr.ShapeDtypeStruct((n, 3), np.float32)
    symbolic = export.export(xpr.jit(lambda x: jnp.cumsum(x, 0).reshape(-1) / x.shape[0]))(shape)
    blobs = [fixed.serialize(), fixed.serialize(vjp_order=1), symbolic.serialize()]
    return [document_of(blob) for blob in blobs]


def test_a_document_written_again_is_the_same(documents: Any) -> None:
    for document, tensors in documents:
        restored = export.deserialize(bytes_of(document, tensors))
        assert restored.fun_name == document["programs"][0]["name"]


@pytest.mark.parametrize("seed", range(cases(4, 40)))
def test_changed_documents_are_refused_or_read(seed: int, documents: Any) -> None:
    """Reading raises ValueError, of which CorruptExportError is one, and nothing else."""
    rng = random.Random(seed)
    refused = 0
    for _ in range(100):
        document, tensors = rng.choice(documents)
        changed = mutated(document, rng)
        try:
            export.deserialize(bytes_of(changed, tensors))
        except ValueError:
            refused += 1
    assert refused > 30


CALLS = """
import json, random, resource, sys, warnings
import numpy as np
import xpr
from tests.export.test_hostile import ARGS, bytes_of, document_of, mutated, network
from xpr import export
warnings.simplefilter("ignore")
seed, count = map(int, sys.argv[1:])
rng = random.Random(seed)
document, tensors = document_of(export.export(xpr.jit(network))(*ARGS).serialize())
resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
read = computed = 0
with xpr.disable_jit():
    for _ in range(count):
        try:
            found = export.deserialize(bytes_of(mutated(document, rng), tensors))
        except ValueError:
            continue
        read += 1
        try:
            xpr.block_until_ready(found.call(*ARGS))
        except Exception:
            continue
        computed += 1
print(read, computed)
"""


def test_what_is_read_can_be_called() -> None:
    """A changed program computes something or raises: the process stays whole."""
    read, computed = map(int, run(CALLS, 1, cases(60, 2000)).split())
    assert read >= computed > 0


# ---- what the writer refuses, the reader refuses


def _with_operation(document: Any, name: str, params: dict[str, Any]) -> Any:
    changed = json.loads(json.dumps(document))
    table = changed["programs"][0]["program"]["tables"][-1]
    table["eqns"].append([name, [0], [table["in_types"][0]], params])
    return changed


def _aval(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return {"aval": [list(shape), dtype, 0]}


FFI = {"target_name": "xpr_solve", "result_avals": {"tuple": [_aval((2, 3))]}}


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        ("ffi_call", FFI, "ffi_call is a foreign function of this process"),
        ("ffi_call", {}, "ffi_call is a foreign function of this process"),
        ("pure_callback", {"callback": "os.system"}, "pure_callback is a Python function"),
        ("io_callback", {"callback": "os.system", "ordered": True}, "is a Python function"),
        ("debug_callback", {"callback": "print"}, "debug_callback is a Python function"),
        ("c_kernel", {"code": "int main"}, "c_kernel is a kernel of this process"),
        ("device_kernel", {"code": "module {}"}, "device_kernel is a kernel of this process"),
        ("new_ref", {}, "new_ref is a reference of this process"),
        ("get", {}, "get is a reference of this process"),
        ("check", {"error": "x"}, "check is a check that may raise"),
        ("inspect_sharding", {"callback": "print"}, "has an effect on this process"),
        ("custom_jvp_call", {"call_jaxpr": {"closed": 0}}, "a call 'custom_jvp_call' of another"),
        ("remat2", {"jaxpr": {"closed": 0}}, "a call 'remat2' of another form"),
        ("jit", {"jaxpr": {"closed": 0}}, "a call 'jit' of another form"),
        ("no_such_operation", {}, "an operation that this version does not know"),
        ("neg", {"x": 1}, "unsound|damaged"),
        ("sin", {"accuracy": {"closed": -1}}, "calls number -1"),
        ("cos", {"accuracy": {"closed": 99}}, "calls number 99"),
    ],
)
def test_operations_that_no_program_is_written_with(
    name: str, params: dict[str, Any], match: str, documents: Any
) -> None:
    document, tensors = documents[0]
    with pytest.raises(ValueError, match=match):
        export.deserialize(bytes_of(_with_operation(document, name, params), tensors))


def test_the_writer_refuses_the_same() -> None:
    def calls_back(x: Any) -> Any:
        return xpr.pure_callback(np.sin, xpr.ShapeDtypeStruct(x.shape, x.dtype), x)

    exported = export.export(xpr.jit(calls_back))(np.ones(2, np.float32))
    with pytest.raises(NotImplementedError, match="pure_callback is a Python function of this"):
        exported.serialize()


def test_types_of_equations_are_checked(documents: Any) -> None:
    """A result that is larger than its operation makes would be memory of somebody else."""
    document, tensors = documents[0]
    table = document["programs"][0]["program"]["tables"][-1]
    for at, (name, _, types, _) in enumerate(table["eqns"]):
        if not types or not types[0][0]:
            continue
        changed = json.loads(json.dumps(document))
        shape = changed["programs"][0]["program"]["tables"][-1]["eqns"][at][2][0][0]
        shape[0] += 1000
        with pytest.raises(ValueError, match=f"{name} gives|unsound|damaged"):
            export.deserialize(bytes_of(changed, tensors))


def test_literals_and_constants_have_their_types(documents: Any) -> None:
    document, tensors = documents[0]
    changed = json.loads(json.dumps(document))
    for table in changed["programs"][0]["program"]["tables"]:
        for eqn in table["eqns"]:
            for operand in eqn[1]:
                if isinstance(operand, list):
                    operand[0] = "text"
    with pytest.raises(ValueError, match="a literal 'text'"):
        export.deserialize(bytes_of(changed, tensors))
    changed = json.loads(json.dumps(document))
    for table in changed["programs"][0]["program"]["tables"]:
        for const in table["const_types"]:
            const[0] = [1000, 1000]
    with pytest.raises(ValueError, match=r"is float32\[3, 4\], not float32\[1000,1000\]"):
        export.deserialize(bytes_of(changed, tensors))


# ---- programs that grow


def _nested(document: Any, levels: int, calls: int) -> Any:
    """A program of `levels`, each of which calls the one before it `calls` times."""
    kind = [[2, 3], "float32", 0]
    base = {"name": "f", "const_types": [], "in_types": [kind], "consts": []}
    tables = [{**base, "eqns": [["neg", [0], [kind], {}]], "outs": [1]}]
    for level in range(levels):
        params = {
            "jaxpr": {"closed": level},
            "name": "f",
            "donated_invars": {"tuple": [False]},
            "inline": False,
            "keep_unused": False,
        }
        eqns = [["jit", [i], [kind], params] for i in range(calls)]
        tables.append({**base, "eqns": eqns, "outs": [calls]})
    leaf = {"type": "leaf"}
    arguments = {"type": "tuple", "children": [leaf]}
    keywords = {"type": "dict", "keys": [], "children": []}
    entry = {
        "name": "f",
        "in_tree": {"type": "tuple", "children": [arguments, keywords]},
        "out_tree": leaf,
        "types": {},
        "program": {"scope": None, "tables": tables},
        "layout": None,
    }
    return {**document, "programs": [entry]}


def test_programs_that_double_are_refused(documents: Any) -> None:
    document, _ = documents[0]
    for levels, calls in ((60, 2), (8, 10), (30, 3)):
        with pytest.raises(ValueError, match=r"a program of \d+ operations, .* may have 1000000"):
            export.deserialize(bytes_of(_nested(document, levels, calls), {}))
    for levels in (MOST_DEPTH + 1, 5000):
        with pytest.raises(ValueError, match="programs inside each other 65 deep"):
            export.deserialize(bytes_of(_nested(document, levels, 1), {}))
    x = jnp.ones((2, 3))
    np.testing.assert_array_equal(
        export.deserialize(bytes_of(_nested(document, MOST_DEPTH, 1), {})).call(x), -np.ones((2, 3))
    )
    np.testing.assert_array_equal(
        export.deserialize(bytes_of(_nested(document, 5, 3), {})).call(x), -np.ones((2, 3))
    )


def test_the_writer_has_the_same_budget() -> None:
    f = jnp.sin
    for _ in range(14):
        f = xpr.jit(lambda x, f=f: f(f(f(x))))
    exported = export.export(xpr.jit(f))(np.float32(1))
    with pytest.raises(ValueError, match=r"a program of \d+ operations"):
        exported.serialize()


def test_trees_and_texts_that_are_deep(documents: Any) -> None:
    document, tensors = documents[0]
    deep: Any = {"type": "leaf"}
    for _ in range(300):
        deep = {"type": "list", "children": [deep]}
    changed = json.loads(json.dumps(document))
    changed["programs"][0]["out_tree"] = deep
    with pytest.raises(ValueError, match=r"unsound|damaged"):
        export.deserialize(bytes_of(changed, tensors))
    blob = bytes_of(document, tensors)
    size = int.from_bytes(blob[:8], "little")
    for text in (b"[" * 100_000, b'{"a":' * 50_000, b"1" * 10_000):
        whole = len(text).to_bytes(8, "little") + text + blob[8 + size :]
        with pytest.raises(export.CorruptExportError, match="this is no exported function"):
            export.deserialize(whole)
