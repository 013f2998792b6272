"""Decode and prefill beside llama.cpp: `python -m benchmarks.language_model --llama FOLDER`.

FOLDER is one in which `npm install node-llama-cpp` has been run; without it xpr is measured alone.
Weights are random, of a model of 0.43 billion, in one layout. The two take turns, so that what else
the machine does meets both; the table has the median, and what the
fastest tenth of all reads, prompts and tokens reached. A plain read of
memory, a sum of float32 over an array of the weights' size, is measured in each round, too.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr.nn.quantize import from_blocks

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = {"q8_0": (34, 40), "q4_0": (18, 3)}
SIZES = {
    "0.43": {
        "layers": 24,
        "width": 1024,
        "heads": 16,
        "kv": 4,
        "hidden": 4096,
        "vocabulary": 32000,
    },
    "1.5": {"layers": 28, "width": 1536, "heads": 12, "kv": 2, "hidden": 8960, "vocabulary": 32000},
}


def random_arrays(layout: str, size: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    block, spread = BLOCKS[layout]

    def matrix(rows: int, columns: int) -> Any:
        data = rng.integers(0, 256, (rows, columns // 32, block), dtype=np.uint8)
        scales = np.full((rows, columns // 32, 1), 0.02 / spread, "<f2")
        data[..., :2] = scales.view(np.uint8)
        return from_blocks(data.reshape(rows, -1), layout)

    width, hidden = size["width"], size["hidden"]
    kv = width // size["heads"] * size["kv"]
    arrays = {
        "token_embd.weight": matrix(size["vocabulary"], width),
        "output.weight": matrix(size["vocabulary"], width),
        "output_norm.weight": np.ones(width, np.float32),
    }
    for i in range(size["layers"]):
        own = {
            "attn_norm": np.ones(width, np.float32),
            "ffn_norm": np.ones(width, np.float32),
            "attn_q": matrix(width, width),
            "attn_k": matrix(kv, width),
            "attn_v": matrix(kv, width),
            "attn_output": matrix(width, width),
            "ffn_gate": matrix(hidden, width),
            "ffn_up": matrix(hidden, width),
            "ffn_down": matrix(width, hidden),
        }
        arrays |= {f"blk.{i}.{name}.weight": x for name, x in own.items()}
    return arrays


def metadata(size: dict[str, int]) -> dict[str, Any]:
    vocabulary = size["vocabulary"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    tokens += [f"t{i}" for i in range(len(tokens), vocabulary)]
    return {
        "general.architecture": "llama",
        "llama.block_count": size["layers"],
        "llama.context_length": 4096,
        "llama.embedding_length": size["width"],
        "llama.feed_forward_length": size["hidden"],
        "llama.attention.head_count": size["heads"],
        "llama.attention.head_count_kv": size["kv"],
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": size["width"] // size["heads"],
        "llama.vocab_size": vocabulary,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * vocabulary,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (vocabulary - 259)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


class Llama:
    """llama.cpp in a process of its own."""

    def __init__(self, folder: str, model: str, threads: int, context: int) -> None:
        script = Path(folder) / "llama.mjs"
        script.write_text((Path(__file__).parent / "llama.mjs").read_text())
        self.process = subprocess.Popen(
            ["node", script.name, model, str(threads), str(context)],
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        while self._line() != "ready":
            pass

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"llama.cpp ended with {self.process.wait()}")
        return line.strip()

    def run(self, prompt: int, count: int) -> list[float]:
        """Seconds of the prompt, and of each token."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{prompt} {count}\n")
        self.process.stdin.flush()
        return [float(t) / 1e3 for t in self._line().split()]


class Ours:
    def __init__(self, path: str, context: int, prompt: int) -> None:
        sys.path.insert(0, str(ROOT / "examples" / "language_model"))
        self.model: Any = importlib.import_module("model")
        tensors = importlib.import_module("tensors")
        self.config, self.params, _ = tensors.load(path)
        self.cache = self.model.new_cache(self.config, 1, context)
        self.tokens = np.array([[300 + i * 7919 % 30000 for i in range(prompt)]], np.int32)

    def run(self, count: int) -> list[float]:
        """Seconds of the prompt, and of each token."""
        m, zero = self.model, np.zeros(1, np.int32)
        last = np.array([self.tokens.shape[1] - 1], np.int32)
        begin = time.perf_counter()
        logits, self.cache = m.prefill(
            self.config, self.params, self.tokens, self.cache, zero, last
        )
        xpr.block_until_ready(logits)
        times = [begin, time.perf_counter()]
        token, at = jnp.array([5], jnp.int32), jnp.array(last + 1)
        key = xpr.random.key(0)
        for _ in range(count):
            token, self.cache, at, key = m.decode(
                self.config, m.Sampling(), self.params, token, self.cache, at, key
            )
            int(token[0])
            times.append(time.perf_counter())
        return [b - a for a, b in itertools.pairwise(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama", help="a folder with node-llama-cpp")
    parser.add_argument("--layout", choices=sorted(BLOCKS), default="q4_0")
    parser.add_argument("--size", choices=sorted(SIZES), default="0.43")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    context = chosen.prompt + chosen.count + 32
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/random.gguf"
        sys.path.insert(0, str(ROOT / "examples" / "language_model"))
        gguf = importlib.import_module("gguf")
        size = SIZES[chosen.size]
        gguf.write(path, metadata(size), random_arrays(chosen.layout, size))
        ours = Ours(path, context, chosen.prompt)
        weights = sum(x.nbytes for x in xpr.tree.leaves(ours.params))
        memory = jnp.ones(weights // 4)
        total = xpr.jit(jnp.sum)
        ours.run(2)
        total(memory).block_until_ready()
        theirs = None
        if chosen.llama:
            theirs = Llama(chosen.llama, path, chosen.threads, context)
            theirs.run(chosen.prompt, 2)
        figures: dict[str, list[float]] = {}

        def add(name: str, rate: float) -> None:
            figures.setdefault(name, []).append(rate)

        for _ in range(chosen.rounds):
            for _ in range(10):
                begin = time.perf_counter()
                total(memory).block_until_ready()
                add("read of memory, GB/s", weights / (time.perf_counter() - begin) / 1e9)
            runs = {"xpr": ours.run(chosen.count)}
            if theirs is not None:
                runs["llama.cpp"] = theirs.run(chosen.prompt, chosen.count)
            for name, (prefill, *tokens) in runs.items():
                add(f"{name}, prefill, tokens/s", chosen.prompt / prefill)
                for seconds in tokens:
                    add(f"{name}, decode, tokens/s", 1 / seconds)
                    add(f"{name}, decode, GB/s", weights / seconds / 1e9)
        print(f"{chosen.size} billion weights in {chosen.layout}, {weights / 1e6:.0f} MB")
        print("| | fastest tenth | median |\n| --- | --- | --- |")
        for name, found in figures.items():
            fast = sorted(found)[-1 - len(found) // 10]
            print(f"| {name} | {fast:.1f} | {statistics.median(found):.1f} |")


if __name__ == "__main__":
    main()
