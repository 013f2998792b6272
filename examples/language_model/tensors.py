"""Reads .safetensors files, mapped, and weights from both kinds of files under GGUF's names."""

from __future__ import annotations

import json
import math
import mmap
import struct
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import model
import numpy as np

import xpr.numpy as jnp

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_LONGEST_HEADER = 100_000_000


class SafetensorsError(ValueError):
    """A file is damaged, or holds what this reader does not know."""


def read(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a file, mapped. Raises SafetensorsError for one that is not whole."""
    with open(path, "rb") as file:
        try:
            return parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError as error:
            raise SafetensorsError(f"{path}: {error}") from error


def parse(data: Any) -> dict[str, np.ndarray[Any, Any]]:
    """What `read` gives, of bytes."""
    if len(data) < 8:
        raise SafetensorsError(f"the file has {len(data)} bytes; the header's length takes 8")
    (length,) = struct.unpack_from("<Q", data)
    if length > min(len(data) - 8, _LONGEST_HEADER):
        raise SafetensorsError(f"a header of {length} bytes does not fit into the file")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
    except (ValueError, RecursionError) as error:
        raise SafetensorsError(f"the header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise SafetensorsError("the header is no JSON object")
    found, end = {}, 8 + length
    entries = [(n, *_entry(n, e)) for n, e in header.items() if n != "__metadata__"]
    for name, dtype, shape, (first, last) in sorted(entries, key=lambda e: e[3]):
        # Arrays lie behind each other: none overlap, and nothing is hidden between them.
        if 8 + length + first != end or 8 + length + last > len(data):
            raise SafetensorsError(f"array {name!r} at {first} to {last} does not follow the last")
        if last - first != math.prod(shape) * dtype.itemsize:
            raise SafetensorsError(f"array {name!r} of {shape} {dtype} has {last - first} bytes")
        flat = np.frombuffer(data, dtype, math.prod(shape), end) if last > first else []
        found[name] = np.asarray(flat, dtype).reshape(shape)
        end = 8 + length + last
    return found


def _entry(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, int]]:
    try:
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape, (first, last) = tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise SafetensorsError(f"array {name!r} has no dtype, shape or place: {error}") from error
    if not all(type(n) is int and n >= 0 for n in (*shape, first, last)) or last < first:
        raise SafetensorsError(f"array {name!r} has the shape {shape} at {first} to {last}")
    return dtype, shape, (first, last)


# ---- weights


def config_of(metadata: dict[str, Any], arrays: dict[str, Any]) -> model.Config:
    """The configuration in a GGUF file. Raises ValueError for another family."""
    family = metadata.get("general.architecture")
    if family not in ("llama", "qwen2", "qwen3", "gemma", "gemma3"):
        raise ValueError(f"the model is of the unknown family {family!r}")

    def get(name: str, default: Any = None) -> Any:
        found = metadata.get(f"{family}.{name}", default)
        if found is None:
            raise ValueError(f"the model's metadata lack {family}.{name}")
        return found

    width, heads = get("embedding_length"), get("attention.head_count")
    return model.Config(
        vocabulary=arrays["token_embd.weight"].shape[0],
        width=width,
        layers=get("block_count"),
        heads=heads,
        kv_heads=get("attention.head_count_kv", heads),
        head=get("attention.key_length", width // heads),
        hidden=get("feed_forward_length"),
        theta=get("rope.freq_base", 10000.0),
        epsilon=get("attention.layer_norm_rms_epsilon"),
        window=get("attention.sliding_window", 0) or None,
        pattern=6 if family == "gemma3" else 1 << 30,
        halves=family != "llama",
        gelu=family.startswith("gemma"),
        scaled_embedding=family.startswith("gemma"),
        experts=get("expert_used_count", 0),
    )


def load(path: str | Path) -> tuple[model.Config, model.Params, dict[str, Any]]:
    """Configuration, weights and metadata of a GGUF file."""
    file = gguf.read(path)
    config = config_of(file.metadata, file.arrays)
    return config, params_of(file.arrays), file.metadata


def params_of(arrays: dict[str, Any]) -> model.Params:
    """Arrays by GGUF's names as the model takes them; narrow floats stay as they are."""
    params: model.Params = {}
    for name, x in arrays.items():
        x = (
            jnp.asarray(x)
            if isinstance(x, np.ndarray)
            else type(x)(map(jnp.asarray, x.parts), x.format)
        )
        layer, _, rest = name.removeprefix("blk.").partition(".")
        if name.startswith("blk."):
            params.setdefault(f"blk.{layer}", {})[rest] = x
        else:
            params[name] = x
    return params


# Names of the Hugging Face files of the Llama and Qwen families, and GGUF's.
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def renamed(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays of a Hugging Face file under GGUF's names. Rotations pair the halves of heads there.

    Raises ValueError for a name that has none.
    """
    found = {}
    for name, x in arrays.items():
        stem, _, kind = name.rpartition(".")
        prefix = ""
        if stem.startswith("model.layers."):
            layer, _, stem = stem.removeprefix("model.layers.").partition(".")
            prefix = f"blk.{layer}."
        if stem not in _NAMES:
            raise ValueError(f"the model has an array of the unknown name {name!r}")
        found[f"{prefix}{_NAMES[stem]}.{kind}"] = x
    return found
