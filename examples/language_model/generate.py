"""Continues a text with the model in a GGUF file whose tokens are characters.

python examples/language_model/generate.py model.gguf "The import statement" --temperature 0.7
"""

from __future__ import annotations

import argparse
import sys
import time

import model
import tensors


def main() -> int:
    parser = argparse.ArgumentParser(description="Continues a text.")
    parser.add_argument("model")
    parser.add_argument("prompt")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--min-p", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    config, params, metadata = tensors.load(chosen.model)
    if metadata.get("tokenizer.ggml.model") != "characters":
        print("the model's tokens are no characters; it needs a tokenizer", file=sys.stderr)
        return 1
    characters: list[str] = metadata["tokenizer.ggml.tokens"]
    number = {ch: i for i, ch in enumerate(characters)}
    unknown = sorted({ch for ch in chosen.prompt if ch not in number})
    if unknown:
        print(f"the model does not know these characters: {' '.join(unknown)}", file=sys.stderr)
        return 1
    how = model.Sampling(chosen.temperature, chosen.top_k, chosen.top_p, chosen.min_p)
    prompt = [number[ch] for ch in chosen.prompt]
    print(chosen.prompt, end="", flush=True)
    count, begin = 0, time.perf_counter()
    for token in model.generate(
        config, params, prompt, limit=chosen.limit, how=how, seed=chosen.seed
    ):
        print(characters[token], end="", flush=True)
        count += 1
    taken = time.perf_counter() - begin
    print(f"\n{count} tokens, {count / taken:.0f} a second", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
