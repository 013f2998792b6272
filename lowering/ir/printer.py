"""A module as MLIR text: the one place where text is made.

Names are given here, in order: `%0`, `%1`, ... to the results in a function, `%arg0`, ... to its
arguments, and names with the region's number to those in a region. So a program has the same text
however it came about, which is the key of the disk cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from xpr.core.source_info import SourceInfo
from xpr.lowering.ir.attributes import attribute_text
from xpr.lowering.ir.graph import (
    TIED,
    Block,
    Executable,
    Function,
    Module,
    Op,
    PrebuiltKernel,
    Value,
)
from xpr.lowering.ir.traits import TRAITS

_STEP = "  "
NO_SLOTS: Mapping[Op, str] = {}
_ENDS = frozenset({"func.return", "stablehlo.return", "scf.yield"})
"""Their places say nothing."""


def print_module(
    module: Module,
    name: str,
    *,
    locations: bool = False,
    slots: Mapping[Op, str] = NO_SLOTS,
    unused: Collection[Op] = (),
) -> str:
    """The text of `module`; `locations` adds the user's line to each operation.

    `slots` are numbers of float32 that the compiler is not to see, each with the bits that are
    written for it. Of constants that are `unused` nothing is written that tells them apart.
    """
    about = f"attributes {{{module.attributes}}} " if module.attributes else ""
    out = [f"module @{name} {about}{{"]
    for symbol, (ins, outs) in module.declarations.items():
        out.append(f"  func.func private @{symbol}({', '.join(ins)}) -> ({', '.join(outs)})")
    out += [f"{_STEP}{line}" for text in module.sources.values() for line in text.splitlines()]
    printer = _Printer(locations)
    printer.slots, printer.unused = slots, unused
    for executable in module.executables:
        printer.executable(executable, out)
    for symbol, kernel in module.prebuilt.items():
        printer.prebuilt(symbol, kernel, out)
    for function in module.functions:
        printer.function(function, out)
    out.append("}")
    return "\n".join(out) + "\n"


class _Printer:
    """The names of a module's values, and how its operations are written."""

    def __init__(self, locations: bool) -> None:
        self.names: dict[Value, str] = {}
        self._locations = locations
        self._regions = 0
        self._layout = ""
        self._numbers = 0
        self._before: list[str] = []
        self.slots = NO_SLOTS
        self._slot_names: dict[Op, str] = {}
        self.unused: Collection[Op] = ()

    @property
    def layout(self) -> str:
        """The bindings of the executable that is being written."""
        return self._layout

    def function(self, function: Function, out: list[str]) -> None:
        arguments = function.body.arguments
        attributes = function.argument_attributes or [""] * len(arguments)
        self.names = {v: f"%arg{i}" for i, v in enumerate(arguments)}
        args = ", ".join(
            f"%arg{i}: {v.type}{a}"
            for i, (v, a) in enumerate(zip(arguments, attributes, strict=True))
        )
        out.append(
            f"  func.func {function.visibility} @{function.name}({args}) -> "
            f"({', '.join(function.result_types)}) {{"
        )
        out += self.unseen_numbers(function)
        out += self.block(function.body, "", "    ")
        out.append("  }")

    def executable(self, executable: Executable, out: list[str]) -> None:
        """A dispatch that is no function's but the module's."""
        bindings = ", ".join(
            f"#hal.pipeline.binding<storage_buffer{', ReadOnly' if r else ''}>"
            for r in executable.read_only
        )
        self._layout = f"#hal.pipeline.layout<bindings = [{bindings}]>"
        out += [
            f"  hal.executable.source private @{executable.name} {{",
            f"    hal.executable.export public @{executable.name} ordinal(0) "
            f"layout({self._layout}) "
            "count(%device: !hal.device) -> (index, index, index) {",
            "      %one = arith.constant 1 : index",
            f"      %count = arith.constant {executable.workgroups} : index",
            "      hal.return %count, %one, %one : index, index, index",
            "    }",
            "    builtin.module {",
            f"      func.func @{executable.name}() attributes {{translation_info = "
            "#iree_codegen.translation_info<pipeline = "
            '#iree_codegen.pass_pipeline<"canonicalize,cse">>} {',
            *self.block(executable.body, "", "        "),
            "      }",
            "    }",
            "  }",
        ]

    def prebuilt(self, symbol: str, kernel: PrebuiltKernel, out: list[str]) -> None:
        """A dispatch that calls a function of an object."""
        bindings = ["#hal.pipeline.binding<storage_buffer, ReadOnly>"] * kernel.operands
        bindings += ["#hal.pipeline.binding<storage_buffer>"] * kernel.results
        numbers = f"constants = {kernel.numbers}"
        layout = f"#hal.pipeline.layout<{numbers}, bindings = [{', '.join(bindings)}]>"
        memory = f"memref<1x{kernel.element}>"
        types = [*[memory] * len(bindings), *["i32"] * kernel.numbers, *["index"] * 3]
        values = [
            *(
                f"hal.interface.binding.subspan layout({layout}) binding({i}) alignment(64) "
                f"offset(%zero) : {memory}"
                for i in range(len(bindings))
            ),
            *(
                f"hal.interface.constant.load layout({layout}) ordinal({i}) : i32"
                for i in range(kernel.numbers)
            ),
            *(f"hal.interface.workgroup.id[{axis}] : index" for axis in range(3)),
        ]
        names = ", ".join(f"%{i}" for i in range(len(values)))
        # The short form of the operation has no place for objects.
        out += [
            f'  "hal.executable.source"() <{{sym_name = "{symbol}", sym_visibility = "private", '
            f"objects = #hal.executable.objects<{{{_CPU} = "
            f'[#hal.executable.object<{{path = "{kernel.object_path}"}}>]}}>}}> ({{',
            f"    hal.executable.export public @{symbol} ordinal(0) layout({layout}) "
            "count(%device: !hal.device, %x: index, %y: index, %z: index) "
            "-> (index, index, index) {",
            "      hal.return %x, %y, %z : index, index, index",
            "    }",
            "    builtin.module {",
            f"      func.func private @{kernel.function}({', '.join(types)}) "
            "attributes {hal.import.static, llvm.bareptr = true}",
            f"      func.func @{symbol}() attributes {{translation_info = "
            "#iree_codegen.translation_info<pipeline = "
            '#iree_codegen.pass_pipeline<"canonicalize,cse">>, '
            f'xpr.object = "{kernel.object_digest}"}} {{',
            "        %zero = arith.constant 0 : index",
            *(f"        %{i} = {text}" for i, text in enumerate(values)),
            f"        func.call @{kernel.function}({names}) : ({', '.join(types)}) -> ()",
            "        return",
            "      }",
            "    }",
            '    "hal.executable.source_end"() : () -> ()',
            "  }) : () -> ()",
        ]

    def number(self, value: int, type_: str) -> str:
        """The name of a constant, defined before the operation that is being written."""
        name = f"%number_{self._numbers}"
        self._numbers += 1
        self._before.append(f"{name} = arith.constant {value} : {type_}")
        return name

    def unseen_numbers(self, function: Function) -> list[str]:
        """The slots of a function, of whose values the compiler sees nothing.

        They come first: IREE splits what it gives to the device at each of them.
        """
        out: list[str] = []
        for op in function.body.ops:
            if op in self.slots:
                name = self._slot_names[op] = f"%slot_{len(self._slot_names)}"
                out += [
                    f"    {name}_bits = arith.constant {self.slots[op]} : i32",
                    f"    {name}_hidden = util.optimization_barrier {name}_bits : i32",
                    f"    {name} = arith.bitcast {name}_hidden : i32 to f32",
                ]
        return out

    def filled(self, op: Op) -> str:
        """An array that is filled with the number of a slot, which what reads it reads instead."""
        name, type_ = self._slot_names[op], op.result.type
        self._before.append(f"{name}_array = tensor.empty() : {type_}")
        return f"linalg.fill ins({name} : f32) outs({name}_array : {type_}) -> {type_}"

    def block(self, block: Block, prefix: str, indent: str) -> list[str]:
        """The operations of a block, each with all of its lines."""
        names, count, out = self.names, 0, []
        for op in block.ops:
            results = op.results
            if op in self.slots:
                text = self.filled(op)
            else:
                text = _FORMS[op.name](self, op, indent)
            if self._before:
                out += [indent + line for line in self._before]
                self._before = []
            if self._locations and op.source.code is not None and op.name not in _ENDS:
                text += _location(op.source)
            if not results:
                out.append(indent + text)
                continue
            name = f"%{prefix}{count}"
            count += 1
            if len(results) == 1:
                names[results[0]] = name
                out.append(f"{indent}{name} = {text}")
            else:
                for i, v in enumerate(results):
                    names[v] = f"{name}#{i}"
                out.append(f"{indent}{name}:{len(results)} = {text}")
        return out

    def enter(self, block: Block) -> str:
        """Names the arguments of a region; returns how its other names begin."""
        self._regions += 1
        number = self._regions
        for i, v in enumerate(block.arguments):
            self.names[v] = f"%a{number}_{i}"
        return f"r{number}_"

    def body(self, block: Block, prefix: str, indent: str) -> str:
        """The lines of a region that stand in braces of this depth."""
        return "\n".join(self.block(block, prefix, indent + _STEP))

    def region(self, block: Block, indent: str) -> str:
        """A region in MLIR's generic form, its operation standing at this depth."""
        prefix = self.enter(block)
        label = f"{indent}{_STEP}^bb0({self.typed(block.arguments)}):\n" if block.arguments else ""
        lines = self.block(block, prefix, indent + 2 * _STEP)
        return "{\n" + label + "\n".join(lines) + f"\n{indent}}}"

    def list(self, values: Sequence[Value]) -> str:
        names = self.names
        return ", ".join([names[v] for v in values])

    def typed(self, values: Sequence[Value]) -> str:
        names = self.names
        return ", ".join([f"{names[v]}: {v.type}" for v in values])

    def pairs(self, arguments: Sequence[Value], values: Sequence[Value]) -> str:
        names = self.names
        return ", ".join(
            [f"{names[a]} = {names[v]}" for a, v in zip(arguments, values, strict=True)]
        )


def _types(values: Sequence[Value]) -> str:
    return ", ".join([v.type for v in values])


def _mapped(op: Op) -> str:
    """The types of operands and of the result."""
    return f"({_types(op.operands)}) -> {op.results[0].type}"


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _location(source: SourceInfo) -> str:
    line, column = source.position()
    escaped = source.filename.replace("\\", "\\\\").replace('"', '\\"')
    return f' loc("{escaped}":{line}:{column})'


# ---- how operations are written

Form = Callable[[_Printer, Op, str], str]


def _generic(p: _Printer, op: Op, indent: str) -> str:
    inside = ", ".join([f"{k} = {attribute_text(v)}" for k, v in op.attributes.items()])
    props = f" <{{{inside}}}>" if inside else ""
    body = f" ({', '.join([p.region(r, indent) for r in op.regions])})" if op.regions else ""
    outs = op.results[0].type if len(op.results) == 1 else f"({_types(op.results)})"
    return f'"{op.name}"({p.list(op.operands)}){props}{body} : ({_types(op.operands)}) -> {outs}'


def _number(p: _Printer, op: Op, indent: str) -> str:
    if op in p.unused:
        return f"{op.name} dense<0.0> : {op.results[0].type}"
    return f"{op.name} {op.attributes['value']} : {op.results[0].type}"


def _iota(p: _Printer, op: Op, indent: str) -> str:
    return f"stablehlo.iota dim = {op.attributes['dim']} : {op.results[0].type}"


def _unary(p: _Printer, op: Op, indent: str) -> str:
    if op.operands[0].dtype != op.results[0].dtype:
        return _generic(p, op, indent)
    return f"{op.name} {p.names[op.operands[0]]} : {op.results[0].type}"


def _binary(p: _Printer, op: Op, indent: str) -> str:
    a, b = op.operands
    return f"{op.name} {p.names[a]}, {p.names[b]} : {a.type}"


def _ternary(p: _Printer, op: Op, indent: str) -> str:
    return f"{op.name} {p.list(op.operands)} : {op.results[0].type}"


def _compare(p: _Printer, op: Op, indent: str) -> str:
    direction, kind = op.attributes["direction"], op.attributes["kind"]
    return f"{op.name} {direction}, {p.list(op.operands)}, {kind} : {_mapped(op)}"


def _predicate(p: _Printer, op: Op, indent: str) -> str:
    a, b = op.operands
    return f"{op.name} {op.attributes['predicate']}, {p.names[a]}, {p.names[b]} : {a.type}"


def _select(p: _Printer, op: Op, indent: str) -> str:
    pred, a, _ = op.operands
    return f"{op.name} {p.list(op.operands)} : {pred.type}, {a.type}"


def _plain(p: _Printer, op: Op, indent: str) -> str:
    return f"{op.name} {p.list(op.operands)} : {_mapped(op)}"


def _to(p: _Printer, op: Op, indent: str) -> str:
    (x,) = op.operands
    return f"{op.name} {p.names[x]} : {x.type} to {op.results[0].type}"


def _along(p: _Printer, op: Op, indent: str) -> str:
    (x,) = op.operands
    dims = _numbers(op.attributes["dims"])
    return f"{op.name} {p.names[x]}, dims = [{dims}] : ({x.type}) -> {op.results[0].type}"


def _reverse(p: _Printer, op: Op, indent: str) -> str:
    (x,) = op.operands
    return f"{op.name} {p.names[x]}, dims = [{_numbers(op.attributes['dims'])}] : {x.type}"


def _slice(p: _Printer, op: Op, indent: str) -> str:
    (x,) = op.operands
    bounds = zip(*(op.attributes[k] for k in ("start", "limit", "strides")), strict=True)
    ranges = ", ".join([f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in bounds])
    return f"stablehlo.slice {p.names[x]} [{ranges}] : ({x.type}) -> {op.results[0].type}"


def _concatenate(p: _Printer, op: Op, indent: str) -> str:
    return f"{op.name} {p.list(op.operands)}, dim = {op.attributes['dim']} : {_mapped(op)}"


def _pad(p: _Printer, op: Op, indent: str) -> str:
    edges = ", ".join([f"{k} = [{_numbers(v)}]" for k, v in op.attributes.items()])
    return f"{op.name} {p.list(op.operands)}, {edges} : {_mapped(op)}"


def _dynamic_slice(p: _Printer, op: Op, indent: str) -> str:
    sizes = _numbers(op.attributes["sizes"])
    return f"{op.name} {p.list(op.operands)}, sizes = [{sizes}] : {_mapped(op)}"


def _dot_general(p: _Printer, op: Op, indent: str) -> str:
    if "dot_dimension_numbers" in op.attributes:
        return _generic(p, op, indent)
    (lhs_batch, rhs_batch), (lhs, rhs) = (op.attributes[k] for k in ("batching", "contracting"))
    batching = (
        f"batching_dims = [{_numbers(lhs_batch)}] x [{_numbers(rhs_batch)}], " if lhs_batch else ""
    )
    contracting = f"contracting_dims = [{_numbers(lhs)}] x [{_numbers(rhs)}]"
    return f"{op.name} {p.list(op.operands)}, {batching}{contracting} : {_mapped(op)}"


def _convolution(p: _Printer, op: Op, indent: str) -> str:
    """Unnamed, axes are batch, spatial, features; those of the kernel spatial, input, output."""
    about = op.attributes
    if "dimension_numbers" in about:
        return _generic(p, op, indent)
    places = _numbers(range(len(about["stride"])))
    operand, weights = f"[b, {places}, f]", f"[{places}, i, o]"
    window = (
        f"stride = [{_numbers(about['stride'])}], rhs_dilate = [{_numbers(about['rhs_dilate'])}]"
    )
    return (
        f"stablehlo.convolution({p.list(op.operands)}) dim_numbers = {operand}x{weights}->{operand}"
        f", window = {{{window}}} {{batch_group_count = 1 : i64, "
        f"feature_group_count = {about['feature_group_count']} : i64}} : {_mapped(op)}"
    )


def _listed(p: _Printer, op: Op, indent: str) -> str:
    return f"{op.name} {p.list(op.operands)} : {_types(op.operands)}"


def _terminator(p: _Printer, op: Op, indent: str) -> str:
    return _listed(p, op, indent) if op.operands else op.name


def _return(p: _Printer, op: Op, indent: str) -> str:
    return _terminator(p, op, indent).removeprefix("func.")


def _condition(p: _Printer, op: Op, indent: str) -> str:
    bit, *carried = op.operands
    values = f" {p.list(carried)} : {_types(carried)}" if carried else ""
    return f"{op.name}({p.names[bit]}){values}"


def _call(p: _Printer, op: Op, indent: str) -> str:
    return (
        f"func.call @{op.attributes['callee']}({p.list(op.operands)}) : "
        f"({_types(op.operands)}) -> ({_types(op.results)})"
    )


def _dispatch(p: _Printer, op: Op, indent: str) -> str:
    (block,) = op.regions
    body = p.body(block, p.enter(block), indent)
    return (
        f"flow.dispatch.region -> ({_types(op.results)}) {{\n{body}\n"
        f"{indent}}} count() -> (index, index, index) {{\n"
        f"{indent}  %one = arith.constant 1 : index\n"
        f"{indent}  flow.return %one, %one, %one : index, index, index\n"
        f"{indent}}}"
    )


def _for(p: _Printer, op: Op, indent: str) -> str:
    low, high, step, *starts = op.operands
    (block,) = op.regions
    prefix = p.enter(block)
    counter, *state = block.arguments
    bounds = f"{p.names[low]} to {p.names[high]} step {p.names[step]}"
    carried = f" iter_args({p.pairs(state, starts)}) -> ({_types(starts)})" if starts else ""
    return (
        f"scf.for {p.names[counter]} = {bounds}{carried} "
        f"{{\n{p.body(block, prefix, indent)}\n{indent}}}"
    )


def _loop(p: _Printer, op: Op, indent: str) -> str:
    before, after = op.regions
    prefix = p.enter(before)
    types = _types(op.operands)
    carried = f"({p.pairs(before.arguments, op.operands)}) " if op.operands else ""
    head = f"scf.while {carried}: ({types}) -> ({types}) {{\n"
    first = p.body(before, prefix, indent)
    prefix = p.enter(after)
    label = f"{indent}^bb0({p.typed(after.arguments)}):\n"
    return f"{head}{first}\n{indent}}} do {{\n{label}{p.body(after, prefix, indent)}\n{indent}}}"


def _if(p: _Printer, op: Op, indent: str) -> str:
    (bit,) = op.operands
    results = f" -> ({_types(op.results)})" if op.results else ""
    one, other = (p.body(block, p.enter(block), indent) for block in op.regions)
    return f"scf.if {p.names[bit]}{results} {{\n{one}\n{indent}}} else {{\n{other}\n{indent}}}"


_CPU = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">'


def _prebuilt(p: _Printer, op: Op, indent: str) -> str:
    symbol, numbers = op.attributes["symbol"], op.attributes["numbers"]
    groups = ", ".join([p.number(n, "index") for n in op.attributes["workgroups"]])
    given = ", ".join([*(p.number(n, "i32") for n in numbers), p.list(op.operands)])
    types = ", ".join([*["i32"] * len(numbers), _types(op.operands)])
    return (
        f"flow.dispatch @{symbol}::@{symbol}[{groups}]({given}) : ({types}) -> "
        f"({_types(op.results)})"
    )


def _executable(p: _Printer, op: Op, indent: str) -> str:
    symbol = op.attributes["symbol"]
    if "workgroups" in op.attributes:
        return _prebuilt(p, op, indent)
    tied: Sequence[int] = op.attributes[TIED]
    results = [*(p.names[op.operands[i]] for i in tied), *(v.type for v in op.results[len(tied) :])]
    return (
        f"flow.dispatch @{symbol}::@{symbol}({p.list(op.operands)}) : "
        f"({_types(op.operands)}) -> ({', '.join(results)})"
    )


def _extern(p: _Printer, op: Op, indent: str) -> str:
    x, y, z = op.attributes["workgroups"]
    data: bytes = op.attributes["data"]
    bindings = [
        *["#hal.pipeline.binding<storage_buffer, ReadOnly>"] * len(op.operands),
        *["#hal.pipeline.binding<storage_buffer>"] * len(op.results),
    ]
    form = op.attributes["target"]
    dense = f'dense<"0x{data.hex().upper()}"> : vector<{len(data)}xi8>'
    code = f"#hal.executable.object<{{data = {dense}}}>"
    if "threads" in op.attributes:
        return _extern_with_threads(p, op, indent, bindings, code)
    return (
        f'hal.dispatch.extern "{op.attributes["entry"]}"({p.list(op.operands)}) : '
        f"({_types(op.operands)}) -> ({_types(op.results)})\n"
        f"{indent}  count(%device: !hal.device) -> (index, index, index) {{\n"
        f"{indent}    %x = arith.constant {x} : index\n"
        f"{indent}    %y = arith.constant {y} : index\n"
        f"{indent}    %z = arith.constant {z} : index\n"
        f"{indent}    hal.return %x, %y, %z : index, index, index\n"
        f"{indent}  }}\n"
        f"{indent}  layout(#hal.pipeline.layout<bindings = [{', '.join(bindings)}]>)\n"
        f"{indent}  objects({{{form} ordinal(0) = [{code}]}})"
    )


def _extern_with_threads(p: _Printer, op: Op, indent: str, bindings: list[str], code: str) -> str:
    """The form that MLIR has for all operations: the short one has no place for the threads."""
    counts = "".join(
        f"{indent}    %{axis} = arith.constant {n} : index\n"
        for axis, n in zip("xyz", op.attributes["workgroups"], strict=True)
    )
    threads = ", ".join(f"{n} : index" for n in op.attributes["threads"])
    return (
        f'"hal.dispatch.extern"({p.list(op.operands)}) <{{'
        f'export_name = "{op.attributes["entry"]}", '
        f"layout = #hal.pipeline.layout<bindings = [{', '.join(bindings)}]>, "
        f"operandSegmentSizes = array<i32: 0, {len(op.operands)}, 0, 0>, "
        f"target_objects = [[{code}]], target_ordinals = [0 : index], "
        f"targets = [{op.attributes['target']}], "
        f"tied_operands = [{', '.join(['-1 : index'] * len(op.results))}], "
        f"workgroup_local_memory = {op.attributes['shared_bytes']} : index, "
        f"workgroup_size = [{threads}]}}> ({{\n"
        f"{indent}  ^bb0(%device: !hal.device):\n"
        f"{counts}"
        f"{indent}    hal.return %x, %y, %z : index, index, index\n"
        f"{indent}  }}, {{\n{indent}  }}) : "
        f"({_types(op.operands)}) -> ({_types(op.results)})"
    )


def _binding(p: _Printer, op: Op, indent: str) -> str:
    (offset,) = op.operands
    return (
        f"{op.name} layout({p.layout}) binding({op.attributes['binding']}) alignment(64) "
        f"offset({p.names[offset]}) : {op.results[0].type}"
    )


def _workgroup(p: _Printer, op: Op, indent: str) -> str:
    return f"{op.name}[0] : index"


def _view(p: _Printer, op: Op, indent: str) -> str:
    memory, offset = op.operands
    out = op.results[0]
    return f"{op.name} {p.names[memory]}[{p.names[offset]}][] : {memory.type} to {out.type}"


def _load(p: _Printer, op: Op, indent: str) -> str:
    memory, place = op.operands
    return f"{op.name} {p.names[memory]}[{p.names[place]}] : {memory.type}, {op.results[0].type}"


def _store(p: _Printer, op: Op, indent: str) -> str:
    x, memory, place = op.operands
    return f"{op.name} {p.names[x]}, {p.names[memory]}[{p.names[place]}] : {memory.type}, {x.type}"


def _elements(p: _Printer, op: Op, indent: str) -> str:
    return f"{op.name} {p.list(op.operands)} : {op.results[0].type}"


def _first(p: _Printer, op: Op, indent: str) -> str:
    (x,) = op.operands
    return f"{op.name} {p.names[x]}[0] : {op.results[0].type} from {x.type}"


def _shuffle(p: _Printer, op: Op, indent: str) -> str:
    places = _numbers(op.attributes["places"])
    return f"{op.name} {p.list(op.operands)} [{places}] : {_types(op.operands)}"


def _transfer_read(p: _Printer, op: Op, indent: str) -> str:
    source, offset, pad = op.operands
    return (
        f"{op.name} {p.names[source]}[{p.names[offset]}], {p.names[pad]} {{in_bounds = [true]}} : "
        f"{source.type}, {op.results[0].type}"
    )


def _transfer_write(p: _Printer, op: Op, indent: str) -> str:
    x, target, offset = op.operands
    return (
        f"{op.name} {p.names[x]}, {p.names[target]}[{p.names[offset]}] {{in_bounds = [true]}} : "
        f"{x.type}, {target.type}"
    )


def _empty(p: _Printer, op: Op, indent: str) -> str:
    return f"{op.name}() : {op.results[0].type}"


def _extract(p: _Printer, op: Op, indent: str) -> str:
    x, *places = op.operands
    return f"{op.name} {p.names[x]}[{p.list(places)}] : {x.type}"


def _insert(p: _Printer, op: Op, indent: str) -> str:
    item, x, place = op.operands
    return f"{op.name} {p.names[item]} into {p.names[x]}[{p.names[place]}] : {x.type}"


def _symbolic_reshape(p: _Printer, op: Op, indent: str) -> str:
    """The operands behind the first are the symbolic dimensions of that, and of the result."""
    x, *sizes = op.operands
    (out,) = op.results
    own = x.type.count("?")
    old, new = (f"{{{p.list(found)}}}" if found else "" for found in (sizes[:own], sizes[own:]))
    return f"{op.name} {p.names[x]} : {x.type}{old} -> {out.type}{new}"


def _window(p: _Printer, op: Op, values: Sequence[Value]) -> str:
    """Where a part lies: the values are where it starts, then the sizes that are not known."""
    sizes = op.attributes["sizes"]
    starts, dynamic = values[: len(sizes)], iter(values[len(sizes) :])
    extents = ", ".join([p.names[next(dynamic)] if n is None else str(n) for n in sizes])
    return f"[{p.list(starts)}] [{extents}] [{', '.join(['1'] * len(sizes))}]"


def _extract_slice(p: _Printer, op: Op, indent: str) -> str:
    x, *values = op.operands
    where = _window(p, op, values)
    return f"{op.name} {p.names[x]}{where} : {x.type} to {op.results[0].type}"


def _insert_slice(p: _Printer, op: Op, indent: str) -> str:
    part, x, *values = op.operands
    where = _window(p, op, values)
    return f"{op.name} {p.names[part]} into {p.names[x]}{where} : {part.type} into {x.type}"


_SYNTAX: dict[str, Form] = {
    "generic": _generic,
    "number": _number,
    "iota": _iota,
    "unary": _unary,
    "binary": _binary,
    "ternary": _ternary,
    "compare": _compare,
    "predicate": _predicate,
    "select": _select,
    "plain": _plain,
    "to": _to,
    "along": _along,
    "reverse": _reverse,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dot_general": _dot_general,
    "convolution": _convolution,
    "listed": _listed,
    "terminator": _terminator,
    "return": _return,
    "condition": _condition,
    "call": _call,
    "dispatch": _dispatch,
    "for": _for,
    "loop": _loop,
    "if": _if,
    "executable": _executable,
    "extern": _extern,
    "binding": _binding,
    "workgroup": _workgroup,
    "view": _view,
    "load": _load,
    "store": _store,
    "elements": _elements,
    "first": _first,
    "shuffle": _shuffle,
    "transfer_read": _transfer_read,
    "transfer_write": _transfer_write,
    "empty": _empty,
    "extract": _extract,
    "insert": _insert,
    "symbolic_reshape": _symbolic_reshape,
    "extract_slice": _extract_slice,
    "insert_slice": _insert_slice,
}
_FORMS: dict[str, Form] = {name: _SYNTAX[t.syntax] for name, t in TRAITS.items()}
