"""`model.mjs` and `model.d.ts`: a model's functions for JavaScript and TypeScript."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from xpr.lowering.no_runtime.c_files import MARK
from xpr.lowering.no_runtime.interface import Array, Entry, Item, Model
from xpr.lowering.no_runtime.memory import aligned
from xpr.lowering.no_runtime.wasm.body import SCRATCH_BYTES
from xpr.lowering.no_runtime.wasm.build import Built

_VIEWS = {
    **{"float": "Float32Array", "double": "Float64Array", "int8_t": "Int8Array"},
    **{"int16_t": "Int16Array", "int32_t": "Int32Array", "int64_t": "BigInt64Array"},
    **{"uint8_t": "Uint8Array", "uint16_t": "Uint16Array", "uint32_t": "Uint32Array"},
    "uint64_t": "BigUint64Array",
}

_SOURCE = """\
// @model@: typed arrays in, typed arrays out. @mark@ (@version@).
const ERRORS = { 5: 'a kernel reported an error', 6: 'the program ended with an error' };
const FREE = @free@;
const FUNCTIONS = @functions@;
const VIEWS = {@views@};

async function bytesOf(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  if (source.protocol === 'file:') {
    const { readFile } = await import('node:fs/promises');
    return readFile(source);
  }
  const response = await fetch(source);
  if (!response.ok) throw new Error(`${source}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

/** Loads the model: from the file beside this one, from another address, or from bytes. */
export async function load(source = new URL('@file@', import.meta.url)) {
  const { instance } = await WebAssembly.instantiate(await bytesOf(source), {});
  const { memory } = instance.exports;
  const model = {};
  for (const [name, entry] of Object.entries(FUNCTIONS)) {
    model[name] = (inputs = {}) => call(instance.exports[name], memory, name, entry, inputs);
  }
  return model;
}

function find(inputs, path, name) {
  let found = inputs;
  for (const step of path) {
    found = found === null || found === undefined ? undefined : found[step];
  }
  if (found === undefined) {
    throw new TypeError(`${name}: the argument ${path.join('.')} is missing`);
  }
  return found;
}

function call(run, memory, name, entry, inputs) {
  const arrays = entry.inputs.map(({ path, view, length, shape }) => {
    const place = path.join('.');
    let data = find(inputs, path, name);
    if (length === 1 && (typeof data === 'number' || typeof data === 'bigint')) {
      data = VIEWS[view].of(data);
    }
    if (!(data instanceof VIEWS[view])) {
      throw new TypeError(`${name}: ${place} must be a ${view}`);
    }
    if (data.length !== length) {
      const expected = `[${shape.join(', ')}], has ${length} elements`;
      throw new RangeError(`${name}: ${place}, ${expected}, got ${data.length}`);
    }
    return data;
  });
  const missing = FREE + entry.bytes - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  entry.inputs.forEach(({ view, offset, length }, i) => {
    new VIEWS[view](memory.buffer, FREE + offset, length).set(arrays[i]);
  });
  const places = [...entry.inputs, ...entry.outputs].map(({ offset }) => FREE + offset);
  const status = run(...places, FREE + entry.workspace);
  if (status !== 0) throw new Error(`${name}: ${ERRORS[status]}`);
  const results = {};
  for (const { path, view, offset, length } of entry.outputs) {
    let target = results;
    for (const step of path.slice(0, -1)) target = target[step] ??= {};
    target[path.at(-1)] = new VIEWS[view](memory.buffer, FREE + offset, length).slice();
  }
  return results.result;
}
"""


def _leaves(items: tuple[Item, ...], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Array]]:
    for item in items:
        if isinstance(item, Array):
            yield (*path, item.name), item
        else:
            yield from _leaves(item.members, (*path, item.name))


def _function(entry: Entry) -> dict[str, Any]:
    at = 0

    def described(items: tuple[Item, ...]) -> list[dict[str, Any]]:
        nonlocal at
        found = []
        for path, array in _leaves(items):
            view = _VIEWS[array.c_type]
            found.append(
                {
                    "path": list(path),
                    "view": view,
                    "shape": list(array.shape),
                    "length": array.count,
                    "offset": at,
                }
            )
            at = aligned(at + array.size)
        return found

    inputs, outputs = described(entry.inputs), described((entry.output,))
    return {
        "inputs": inputs,
        "outputs": outputs,
        "workspace": at,
        "bytes": at + entry.program.workspace + SCRATCH_BYTES,
    }


def source(model: Model, file: str, module: Built) -> str:
    """The text of `model.mjs`."""
    functions = {e.name: _function(e) for e in model.entries}
    used = {f["view"] for e in functions.values() for f in (*e["inputs"], *e["outputs"])}
    texts = {
        "model": model.name,
        "mark": MARK,
        "version": model.version,
        "free": str(module.free),
        "functions": json.dumps(functions, separators=(",", ":")),
        "views": ", ".join(sorted(used)),
        "file": f"./{file}",
    }
    made = _SOURCE
    for key, text in texts.items():
        made = made.replace(f"@{key}@", text)
    return made


def _type(item: Item) -> str:
    if isinstance(item, Array):
        single = math.prod(item.shape) == 1 and item.count == 1
        plain = " | bigint" if "64_t" in item.c_type else " | number"
        return f"{_VIEWS[item.c_type]}{plain if single else ''}"
    return "{ " + " ".join(f"{m.name}: {_type(m)};" for m in item.members) + " }"


def types(model: Model) -> str:
    """The text of `model.d.ts`."""
    lines = [f"// {MARK} ({model.version}).", "export interface Model {"]
    for entry in model.entries:
        described = [
            f"{'.'.join(path)}: {array.described}"
            for path, array in _leaves((*entry.inputs, entry.output))
        ]
        taken = " ".join(f"{i.name}: {_type(i)};" for i in entry.inputs)
        result = _type(entry.output).replace(" | number", "").replace(" | bigint", "")
        parameter = f"inputs: {{ {taken} }}" if taken else ""
        lines.append(f"  /** {'; '.join(described)} */")
        lines.append(f"  {entry.name}({parameter}): {result};")
    lines += [
        "}",
        "/** Loads the model: from the file beside this one, from an address, or from bytes. */",
        "export function load(source?: URL | ArrayBuffer | ArrayBufferView): Promise<Model>;",
        "",
    ]
    return "\n".join(lines)
