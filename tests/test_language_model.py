"""The language model of the examples: its files, its layers against plain loops, its sampling."""

from __future__ import annotations

import importlib
import json
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import export
from xpr.nn.quantize import Gguf, QuantizedArray, dequantize, quantize

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "language_model"))
gguf, model, tensors = (importlib.import_module(n) for n in ("gguf", "model", "tensors"))

RNG = np.random.default_rng(3)
CONFIG = model.Config(
    vocabulary=50, width=32, layers=2, heads=4, kv_heads=2, head=8, hidden=64, halves=True
)


def weights(c: Any, *, experts: int = 0) -> dict[str, Any]:
    def normal(*shape: int) -> Any:
        return (RNG.standard_normal(shape) * 0.3).astype(np.float32)

    kv = c.kv_heads * c.head
    arrays = {"token_embd.weight": normal(c.vocabulary, c.width)}
    arrays["output_norm.weight"] = 1 + normal(c.width)
    for i in range(c.layers):
        sizes = {"q": (c.heads * c.head, c.width), "k": (kv, c.width), "v": (kv, c.width)}
        own = {f"attn_{n}.weight": normal(*s) for n, s in sizes.items()}
        own |= {f"attn_{n}.bias": normal(s[0]) for n, s in sizes.items()}
        own |= {"attn_output.weight": normal(c.width, c.heads * c.head)}
        own |= {f"{n}_norm.weight": 1 + normal(c.width) for n in ("attn", "ffn")}
        lead, end = ((experts,), "_exps") if experts else ((), "")
        if experts:
            own["ffn_gate_inp.weight"] = normal(experts, c.width)
        for n in ("gate", "up", "down"):
            shape = (c.width, c.hidden) if n == "down" else (c.hidden, c.width)
            own[f"ffn_{n}{end}.weight"] = normal(*lead, *shape)
        arrays |= {f"blk.{i}.{n}": x for n, x in own.items()}
    return arrays


# ---- the model as plain loops, in float64


def norm(x: Any, w: Any, epsilon: float) -> Any:
    return x / np.sqrt((x * x).mean() + epsilon) * w


def turned(x: Any, position: int, c: Any) -> Any:
    half = c.head // 2
    out = x.copy()
    for i in range(half):
        a, b = (i, i + half) if c.halves else (2 * i, 2 * i + 1)
        angle = position * c.theta ** (-2 * i / c.head)
        out[a] = x[a] * np.cos(angle) - x[b] * np.sin(angle)
        out[b] = x[b] * np.cos(angle) + x[a] * np.sin(angle)
    return out


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def mixed(c: Any, w: Any, x: Any) -> Any:
    def expert(gate: Any, up: Any, down: Any) -> Any:
        g = gate @ x
        return down @ (g / (1 + np.exp(-g)) * (up @ x))

    if "ffn_gate_inp.weight" not in w:
        return expert(*(w[f"ffn_{n}.weight"] for n in ("gate", "up", "down")))
    chances = softmax(w["ffn_gate_inp.weight"] @ x)
    best = np.argsort(-chances)[: c.experts]
    stacks = [w[f"ffn_{n}_exps.weight"] for n in ("gate", "up", "down")]
    return sum(chances[e] * expert(*(s[e] for s in stacks)) for e in best) / chances[best].sum()


def plain(c: Any, arrays: dict[str, Any], tokens: list[int]) -> Any:
    """The logits behind each token."""
    w = {name: np.asarray(x, np.float64) for name, x in arrays.items()}
    xs = [w["token_embd.weight"][t] for t in tokens]
    for i in range(c.layers):
        p = {n.removeprefix(f"blk.{i}."): x for n, x in w.items() if n.startswith(f"blk.{i}.")}
        keys: list[Any] = []
        values: list[Any] = []
        for at, x in enumerate(xs):
            y = norm(x, p["attn_norm.weight"], c.epsilon)
            q, k, v = (
                (p[f"attn_{n}.weight"] @ y + p[f"attn_{n}.bias"]).reshape(-1, c.head) for n in "qkv"
            )
            keys.append([turned(h, at, c) for h in k])
            values.append(v)
            first = 0
            if c.window is not None and (i + 1) % c.pattern:
                first = max(at - c.window + 1, 0)
            out = []
            for h, one in enumerate(q):
                one, kv = turned(one, at, c), h // (c.heads // c.kv_heads)
                scores = np.array([k[kv] @ one for k in keys[first:]]) / np.sqrt(c.head)
                out.append(softmax(scores) @ np.array([v[kv] for v in values[first:]]))
            x = x + p["attn_output.weight"] @ np.concatenate(out)
            xs[at] = x + mixed(c, p, norm(x, p["ffn_norm.weight"], c.epsilon))
    return np.array(
        [w["token_embd.weight"] @ norm(x, w["output_norm.weight"], c.epsilon) for x in xs]
    )


@pytest.mark.parametrize(
    ("case", "experts"),
    [
        (CONFIG, 0),
        (replace(CONFIG, halves=False, window=3, pattern=2), 0),
        (replace(CONFIG, experts=2), 4),
    ],
)
def test_prefill_in_chunks_and_decode_give_the_logits_of_plain_loops(
    case: Any, experts: int
) -> None:
    arrays = weights(case, experts=experts)
    params = tensors.params_of(arrays)
    tokens = RNG.integers(0, case.vocabulary, 9).tolist()
    wanted = plain(case, arrays, tokens)
    cache = model.new_cache(case, 1, 12)
    for start in (0, 4):
        part = np.array([tokens[start : start + 4]], np.int32)
        at, last = np.array([start], np.int32), np.array([3], np.int32)
        logits, cache = model.prefill(case, params, part, cache, at, last)
        np.testing.assert_allclose(np.asarray(logits)[0], wanted[start + 3], rtol=1e-4, atol=1e-4)
    last = np.array([tokens[8]], np.int32)
    at, key = np.array([8], np.int32), xpr.random.key(0)
    token, *_ = model.decode(case, model.Sampling(), params, last, cache, at, key)
    assert int(token[0]) == wanted[8].argmax()


def test_generation_is_the_same_as_a_stream_and_as_one_program() -> None:
    arrays = weights(CONFIG)
    params = tensors.params_of(arrays)
    prompt, count = [3, 1, 4, 1, 5], 6
    wanted = list(prompt)
    for _ in range(count):
        wanted.append(int(plain(CONFIG, arrays, wanted)[-1].argmax()))
    stream = list(model.generate(CONFIG, params, prompt, limit=count, context=16, chunk=4))
    assert stream == wanted[5:]
    cache = model.new_cache(CONFIG, 2, 16)
    # A second sequence, shorter than the first one, whose padding is not seen.
    both = np.array([[*prompt, 0, 0, 0], [9, 2, 6, 0, 0, 0, 0, 0]], np.int32)
    lengths = np.array([5, 3], np.int32)
    logits, cache = model.prefill(CONFIG, params, both, cache, np.zeros(2, np.int32), lengths - 1)
    first = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    found, _ = model.decode_many(
        CONFIG, model.Sampling(), params, first, cache, lengths, xpr.random.key(0), count - 1
    )
    assert [int(first[0]), *np.asarray(found)[0].tolist()] == wanted[5:]
    other = list(model.generate(CONFIG, params, [9, 2, 6], limit=count, context=16, chunk=4))
    assert [int(first[1]), *np.asarray(found)[1].tolist()] == other
    end = wanted[7]
    assert (
        list(model.generate(CONFIG, params, prompt, limit=count, context=16, chunk=4, end=end))
        == (wanted[5 : wanted.index(end, 5)])
    )


def test_exported_programs_give_the_same_tokens(tmp_path: Path) -> None:
    small = {n: quantize(x, "q8_0") if x.ndim == 2 else x for n, x in weights(CONFIG).items()}
    params, zero = tensors.params_of(small), np.zeros(1, np.int32)
    part, last = np.array([[4, 2, 1, 3]], np.int32), np.array([3], np.int32)
    how, key = model.Sampling(), xpr.random.key_data(xpr.random.key(0))

    def prefill(params: Any, tokens: Any, cache: Any, start: Any, last: Any) -> Any:
        return model.prefill(CONFIG, params, tokens, cache, start, last)

    def decode(params: Any, token: Any, cache: Any, at: Any, key: Any) -> Any:
        key = xpr.random.wrap_key_data(key)
        return model.decode(CONFIG, how, params, token, cache, at, key)[:2]

    def tokens(prefill: Any, decode: Any) -> list[int]:
        logits, cache = prefill(params, part, model.new_cache(CONFIG, 1, 8), zero, last)
        found = [int(np.argmax(logits))]
        for at in range(4, 7):
            given = np.array(found[-1:], np.int32), np.array([at], np.int32)
            token, cache = decode(params, given[0], cache, given[1], key)
            found.append(int(token[0]))
        return found

    programs: list[tuple[Any, Any]] = [
        (prefill, (params, part, model.new_cache(CONFIG, 1, 8), zero, last)),
        (decode, (params, last, model.new_cache(CONFIG, 1, 8), last, key)),
    ]
    for function, args in programs:
        export.export(xpr.jit(function))(*args).save(tmp_path / f"{function.__name__}.xpr")
    loaded = [export.load(tmp_path / f"{n}.xpr").call for n in ("prefill", "decode")]
    assert tokens(*loaded) == tokens(prefill, decode)


def test_requests_that_cannot_be_met_are_refused() -> None:
    params = tensors.params_of(weights(CONFIG))
    with pytest.raises(ValueError, match="at least one token"):
        next(model.generate(CONFIG, params, []))
    with pytest.raises(ValueError, match="exceed the context of 8"):
        next(model.generate(CONFIG, params, [1, 2, 3], limit=6, context=8))
    assert list(model.generate(CONFIG, params, [1], limit=0)) == []


def test_quantized_weights_and_adapters() -> None:
    arrays = weights(CONFIG)
    small = {n: quantize(x, "q8_0") if x.ndim == 2 else x for n, x in arrays.items()}
    wide = {n: dequantize(x) if isinstance(x, QuantizedArray) else x for n, x in small.items()}
    tokens = [7, 8, 9, 10]
    wanted = plain(CONFIG, wide, tokens)[-1]
    params = tensors.params_of(small)
    part, zero, last = np.array([tokens], np.int32), np.zeros(1, np.int32), np.array([3], np.int32)
    logits, _ = model.prefill(CONFIG, params, part, model.new_cache(CONFIG, 1, 4), zero, last)
    # Rounded to int8 in blocks, each number has an error of up to 1 / 254 of its block's greatest.
    error = np.asarray(logits)[0] - wanted
    assert np.sqrt((error**2).mean()) <= 4e-2 * np.sqrt((wanted**2).mean())
    exact = Gguf("q8_0", activations="float32")
    params = tensors.params_of(
        {n: quantize(x, exact) if x.ndim == 2 else x for n, x in arrays.items()}
    )
    logits, _ = model.prefill(CONFIG, params, part, model.new_cache(CONFIG, 1, 4), zero, last)
    np.testing.assert_allclose(np.asarray(logits)[0], wanted, rtol=1e-4, atol=1e-4)

    # Derivatives reach adapters through the quantized weights.
    a = (RNG.standard_normal((2, 32)) * 0.1).astype(np.float32)

    def loss(b: Any) -> Any:
        p = {**params, "blk.0": {**params["blk.0"]}}
        p["blk.0"]["attn_q.weight"] = {"base": params["blk.0"]["attn_q.weight"], "a": a, "b": b}
        x, _ = model.forward(CONFIG, p, part, model.new_cache(CONFIG, 1, 4), zero)
        return model.logits_of(p, x).sum()

    b = np.zeros((32, 2), np.float32)
    slope = np.asarray(xpr.jit(xpr.grad(loss))(b))
    direction = RNG.standard_normal(b.shape).astype(np.float32)

    def shifted(step: float) -> float:
        moved = dict(wide)
        moved["blk.0.attn_q.weight"] = (
            np.asarray(wide["blk.0.attn_q.weight"]) + step * direction @ a
        )
        return plain(CONFIG, moved, tokens).sum()

    difference = (shifted(1e-3) - shifted(-1e-3)) / 2e-3
    np.testing.assert_allclose((slope * direction).sum(), difference, rtol=1e-3)


def test_sampling_keeps_what_it_says() -> None:
    logits = jnp.log(jnp.array([0.4, 0.3, 0.2, 0.06, 0.04]))
    rows = jnp.tile(logits, (4000, 1))
    for how, kept in (
        (model.Sampling(1.0, top_k=2), [0.4, 0.3]),
        (model.Sampling(1.0, top_p=0.75), [0.4, 0.3, 0.2]),
        (model.Sampling(1.0, min_p=0.12), [0.4, 0.3, 0.2, 0.06]),
    ):
        found = np.asarray(model.sampled(how, rows, xpr.random.key(1)))
        counts = np.bincount(found, minlength=5) / len(found)
        wanted = np.zeros(5)
        wanted[: len(kept)] = np.array(kept) / sum(kept)
        assert (counts[wanted == 0] == 0).all()
        # Four standard deviations of a share.
        assert (np.abs(counts - wanted) <= 4 * np.sqrt(0.25 / 4000)).all(), how
    assert np.asarray(model.sampled(model.Sampling(), rows[:2], None)).tolist() == [0, 0]


# ---- files


def whole_file(folder: Path) -> Path:
    path = folder / "model.gguf"
    arrays = weights(CONFIG)
    arrays = {n: quantize(x, "q4_0") if x.ndim == 2 else x for n, x in arrays.items()}
    metadata = {
        "general.architecture": "qwen2",
        "qwen2.embedding_length": 32,
        "qwen2.block_count": 2,
        "qwen2.attention.head_count": 4,
        "qwen2.attention.head_count_kv": 2,
        "qwen2.feed_forward_length": 64,
        "qwen2.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.tokens": ["a", "é", "\udcff"],
        "tokenizer.ggml.scores": [0.5, -1.0],
        "negative": -3,
        "true": True,
    }
    gguf.write(path, metadata, arrays)
    return path


def test_gguf_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = whole_file(tmp_path)
    config, params, metadata = tensors.load(path)
    assert replace(config, pattern=1, epsilon=1e-5) == CONFIG
    assert config.epsilon == pytest.approx(1e-5)
    assert metadata["tokenizer.ggml.tokens"] == ["a", "é", "\udcff"]
    assert metadata["tokenizer.ggml.scores"] == [0.5, -1.0]
    assert (metadata["negative"], metadata["true"]) == (-3, True)
    w = params["blk.1"]["ffn_down.weight"]
    assert w.shape == (32, 64)
    assert str(w.format) == "q4_0"


def test_damaged_gguf_files_are_refused_or_read(tmp_path: Path) -> None:
    data = whole_file(tmp_path).read_bytes()
    head = data.index(b"blk.1.") + 2000
    said = set()
    for _ in range(1500):
        broken = bytearray(data)
        way = RNG.integers(3)
        if way == 0:
            del broken[int(RNG.integers(len(data))) :]
        for _ in range(int(RNG.integers(1, 4))):
            at = int(RNG.integers(min(head, max(len(broken) - 8, 1))))
            if way == 1:
                broken[at : at + 1] = bytes([int(RNG.integers(256))])
            elif way == 2:
                number = (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)[int(RNG.integers(6))]
                broken[at : at + 8] = struct.pack("<Q", number)
        try:
            found = gguf.parse(bytes(broken))
        except gguf.GgufError as error:
            said.add(str(error).split(" ")[0])
        else:
            assert all(np.asarray(p).size >= 0 for p in xpr.tree.leaves(found.arrays))
    assert len(said) > 2


def test_unknown_things_in_gguf_files_are_named() -> None:
    def file(*parts: bytes, arrays: int = 0, values: int = 0) -> bytes:
        return b"GGUF" + struct.pack("<IQQ", 3, arrays, values) + b"".join(parts)

    name = struct.pack("<Q", 1) + b"w"
    deep = name + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 6
    strange = name + struct.pack("<IQIQ", 1, 32, 10, 0)
    twice = (name + struct.pack("<IQIQ", 1, 1, 0, 0)) * 2 + bytes(100)
    for data, message in (
        (b"GGML", "does not begin with GGUF"),
        (b"GGUF\1\0\0\0", "has version 1"),
        (file(deep, values=1), "deep"),
        (file(strange, arrays=1), r"unknown type 10 \(Q2_K\)"),
        (file(twice, arrays=2), "two arrays"),
        (file(arrays=1 << 60), "the file ends"),
    ):
        with pytest.raises(gguf.GgufError, match=message):
            gguf.parse(data)
    with pytest.raises(ValueError, match="unknown family 'mamba'"):
        tensors.config_of({"general.architecture": "mamba"}, {})


def safetensors(header: Any, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def test_safetensors_files(tmp_path: Path) -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float16)
    entries = {
        "__metadata__": {"format": "pt"},
        "model.layers.1.mlp.up_proj.weight": {
            "dtype": "F32",
            "shape": [2, 3],
            "data_offsets": [0, 24],
        },
        "model.norm.weight": {"dtype": "F16", "shape": [3], "data_offsets": [24, 30]},
    }
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(entries, x.tobytes() + y.tobytes()))
    found = tensors.renamed(tensors.read(path))
    np.testing.assert_array_equal(found["blk.1.ffn_up.weight"], x)
    np.testing.assert_array_equal(found["output_norm.weight"], y)
    good = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for data, message in (
        (b"", "has 0 bytes"),
        (struct.pack("<Q", 1 << 60) + b"{}", "does not fit"),
        (safetensors(b"[" * 100_000), "no JSON"),
        (safetensors([]), "no JSON object"),
        (safetensors({"a": good}), "does not follow"),
        (safetensors({"a": good, "b": good}, bytes(16)), "does not follow"),
        (safetensors({"a": {**good, "shape": [3]}}, bytes(8)), "has 8 bytes"),
        (safetensors({"a": {**good, "shape": [-2]}}, bytes(8)), "has the shape"),
        (safetensors({"a": {**good, "dtype": "F4"}}, bytes(8)), "no dtype"),
    ):
        with pytest.raises(tensors.SafetensorsError, match=message):
            tensors.parse(data)
    with pytest.raises(ValueError, match=r"unknown name .x\.weight."):
        tensors.renamed({"x.weight": x})


def test_the_example_trains_saves_and_generates(tmp_path: Path) -> None:
    folder = Path(str(model.__file__)).parent
    path = str(tmp_path / "small.gguf")
    said = [
        subprocess.run(
            [sys.executable, str(folder / script), *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        for script, args in (
            ("train.py", ["--output", path, "--steps", "25"]),
            ("generate.py", [path, "The import", "--limit", "8", "--temperature", "0.5"]),
            ("generate.py", [path, "\N{SNOWMAN}"]),
        )
    ]
    assert [done.returncode for done in said] == [0, 0, 1], said
    # Characters drawn at random would have a loss of log(103) = 4.6.
    loss = re.search(r"^loss (\S+) after 25 steps$", said[0].stdout, flags=re.MULTILINE)
    assert loss is not None
    assert float(loss[1]) < 3.7
    assert said[1].stdout.startswith("The import")
    assert len(said[1].stdout.rstrip("\n")) >= len("The import") + 1
    assert "does not know these characters" in said[2].stderr
