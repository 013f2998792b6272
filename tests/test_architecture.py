"""Layers import one way; every primitive is complete; what `import xpr` must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.op_table import WITHOUT_ROWS, all_rows
from xpr.core.primitive import Absent, registry
from xpr.lowering import rules
from xpr.lowering.registry import rules as lowering_rules
from xpr.primitives import FAMILIES, PRIMITIVES, load_all

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "xpr": ROOT / "xpr",
    "xpr.lowering": ROOT / "lowering",
    "xpr.runtimes": ROOT / "runtimes",
}

# What a folder may import of xpr, at any level of its code. `xpr.dispatch` reaches the compile path
# through one module of its own, loaded when a program is first compiled.
ALLOWED = {
    "xpr.core": {"xpr.core"},
    # What is put together as one file holds no second way to evaluate polynomials.
    "xpr.runtimes.bundle": {"xpr.runtimes", "xpr.core.polynomials"},
    "xpr.runtimes": {"xpr.runtimes"},
    "xpr.tree_util": {"xpr.tree_util"},
    "xpr.distributed": {"xpr.distributed", "xpr.core", "xpr.runtimes"},
    "xpr.interpreters": {"xpr.core", "xpr.interpreters"},
    # What devices do together is described where they do it.
    "xpr.primitives.group_collective": {"xpr.core", "xpr.primitives", "xpr.runtimes.collectives"},
    # What a forked child has to make anew is registered in one place.
    "xpr.primitives._blas_threads": {"xpr.core", "xpr.primitives", "xpr.runtimes.fork"},
    # Small matrices, many at a time, are factored without Python between them.
    "xpr.primitives._linalg_stacks": {"xpr.primitives", "xpr.runtimes.lapack"},
    # SciPy's compiled functions, without its packages.
    "xpr.primitives._linalg_host": {
        "xpr.core",
        "xpr.primitives",
        "xpr.runtimes.lapack",
        "xpr.runtimes.scipy_parts",
    },
    "xpr.primitives.fft": {
        "xpr.core",
        "xpr.primitives",
        "xpr.runtimes.cores",
        "xpr.runtimes.scipy_parts",
    },
    # Foreign functions are called here, as NumPy is called elsewhere.
    "xpr.primitives.ffi": {
        "xpr.core",
        "xpr.interpreters",
        "xpr.primitives",
        "xpr.runtimes.foreign",
    },
    "xpr.primitives": {
        "xpr.core",
        "xpr.interpreters",
        "xpr.primitives",
        "xpr.tree_util",
        # What a shard_map is cut over; these files import nothing of primitives.
        "xpr.sharding.context",
        "xpr.sharding.mesh",
        "xpr.sharding.named",
        "xpr.sharding.spec",
    },
    "xpr.sharding.rules": {"xpr.sharding", "xpr.core", "xpr.primitives"},
    "xpr.sharding": {
        "xpr.sharding",
        "xpr.core",
        "xpr.primitives",
        "xpr.runtimes",
        "xpr.tree_util",
    },
    "xpr.dispatch": {
        "xpr.core",
        "xpr.interpreters",
        "xpr.primitives",
        "xpr.dispatch",
        "xpr.sharding",
        "xpr.runtimes",
        "xpr.lowering",
        "xpr.tree_util",
    },
    # A command, which reads programs as all commands do.
    "xpr.lowering.__main__": {
        "xpr.cli",
        "xpr.core",
        "xpr.export",
        "xpr.interpreters",
        "xpr.lowering",
    },
    "xpr.lowering": {
        "xpr.core",
        "xpr.interpreters",
        "xpr.primitives",
        "xpr.lowering",
        "xpr.runtimes",
    },
    "xpr.transforms": {
        "xpr.core",
        "xpr.interpreters",
        "xpr.primitives",
        "xpr.dispatch",
        "xpr.sharding",
        "xpr.runtimes",
        "xpr.lowering",
        "xpr.tree_util",
        "xpr.transforms",
    },
}


# What each folder and each file at the top of `lowering/` may import of the others, types included.
# The order is that of the layers: none imports one further down.
LAYERS_OF_LOWERING: dict[str, set[str]] = {
    "boundary_bytes": set(),
    "cache": set(),
    "cache_archive": {"cache"},
    "ir": set(),
    "prebuilt": set(),
    "targets": {"prebuilt"},
    "registry": {"targets"},
    "traced_rules": {"registry", "targets"},
    "emitter": {"ir", "registry", "targets"},
    "context": {"ir", "emitter"},
    "facts": {"ir", "targets"},
    "templates": {"ir", "facts"},
    "numerics": {"ir", "registry", "context"},
    "passes": {"ir", "targets", "numerics"},
    "loops": {"ir", "targets", "registry", "emitter", "context", "numerics"},
    "iree": {"cache", "prebuilt", "targets", "templates", "passes"},
    "rules": {"ir", "prebuilt", "registry", "context", "numerics", "loops", "iree"},
    "plain": {"ir", "registry", "context", "numerics", "rules"},
    "module": {
        *("boundary_bytes", "ir", "targets", "context", "facts", "templates", "loops"),
        *("passes", "iree"),
    },
    "host_fallback": {"targets", "iree", "module"},
    "pipeline": {"registry", "targets", "passes", "iree", "rules", "plain", "module"},
    "__main__": {"targets", "pipeline"},
}


def _modules() -> list[tuple[str, Path]]:
    found = []
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            relative = path.relative_to(folder)
            if package == "xpr" and relative.parts[0] in ("lowering", "runtimes"):
                continue
            parts = [p for p in relative.with_suffix("").parts if p != "__init__"]
            found.append((".".join([package, *parts]), path))
    return found


def _imports(path: Path) -> list[tuple[str, bool]]:
    """Modules that a file imports, and whether at its top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If)
        and isinstance(block.test, ast.Name)
        and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    top = {id(node) for node in tree.body}
    out = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            out += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            out += [(f"{node.module}.{alias.name}", id(node) in top) for alias in node.names]
            assert all(alias.name != "*" for alias in node.names), f"star import in {path}"
    return out


@pytest.mark.parametrize(
    ("module", "path"), _modules(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_layers_import_one_way(module: str, path: Path) -> None:
    layer = next(
        (name for name in ALLOWED if module == name or module.startswith(name + ".")), None
    )
    if layer is None:
        return
    for name, top in _imports(path):
        if not name.startswith("xpr."):
            continue
        assert any(name.startswith(a + ".") or name == a for a in ALLOWED[layer]), (
            f"{module} imports {name}"
        )
        if not module.startswith("xpr.lowering") and module not in (
            "xpr.dispatch.compiled",
            "xpr.dispatch.compiling",
            "xpr.dispatch.known_programs",
            "xpr.transforms.stages",
        ):
            assert not (top and name.startswith("xpr.lowering")), (
                f"{module} imports {name} at its top level"
            )


def _parts_imported(path: Path) -> set[str]:
    """The parts of lowering that a file imports, also for the sake of types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[2] for name in names if name.startswith("xpr.lowering.")}
    return found


@pytest.mark.parametrize("part", LAYERS_OF_LOWERING)
def test_parts_of_lowering_import_one_way(part: str) -> None:
    top = ROOT / "lowering"
    files = sorted((top / part).rglob("*.py")) or [top / f"{part}.py"]
    imported = {name for path in files for name in _parts_imported(path)} - {part}
    assert imported == LAYERS_OF_LOWERING[part]


def test_parts_of_lowering_form_layers() -> None:
    top = ROOT / "lowering"
    parts = {p.stem for p in top.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert parts - {"__init__"} == set(LAYERS_OF_LOWERING)
    known: set[str] = set()
    for part, imported in LAYERS_OF_LOWERING.items():
        assert imported <= known, part
        known.add(part)


def test_layout_says_which_folder_imports_which() -> None:
    """The column "may import" of docs/layout.md: names, then a semicolon and remarks."""
    table = [
        line.split(" | ")
        for line in (ROOT / "docs/layout.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and line.count(" | ") == 3
    ]
    said = {}
    for folders, _, _, column in table:
        names = column.rstrip(" |").split(";")[0].split(", ")
        for folder in folders.removeprefix("| ").split(", "):
            said["xpr." + folder.strip("`/").removeprefix("xpr/").replace("/", ".")] = set(names)
    outside = {"NumPy", "Python's own library"}
    for layer, allowed in ALLOWED.items():
        if layer.count(".") == 1:  # rows are for folders
            found = {"xpr." + n for n in said[layer] - outside}
            assert found == {".".join(a.split(".")[:2]) for a in allowed} - {layer}, layer


def _loaded_module(name: str, modules: set[str]) -> str | None:
    """The module that `import name`, or `from` its parent `import` its last part, asks for."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def _cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of two modules and more that import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        found: set[str] = set()
        todo = list(graph[start])
        while todo:
            module = todo.pop()
            if module not in found:
                found.add(module)
                todo += graph[module]
        reached[start] = found
    out: list[set[str]] = []
    for module in graph:
        if module in reached[module] and not any(module in c for c in out):
            out.append({m for m in reached[module] if module in reached[m]})
    return out


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert _cycles(graph) == [{"b", "c"}, {"e", "f"}]


def test_no_import_cycles() -> None:
    """Lazy imports count: they hide a cycle, and do not make it less of one."""
    modules = dict(_modules())
    names = set(modules)
    graph = {
        module: {
            found
            for name, _ in _imports(path)
            if (found := _loaded_module(name, names)) is not None and found != module
        }
        for module, path in modules.items()
    }
    assert not [sorted(c) for c in _cycles(graph)]


def test_core_needs_numpy_only() -> None:
    allowed = {"numpy", "ml_dtypes", "xpr", *sys.stdlib_module_names}
    for module, path in _modules():
        if module.startswith("xpr.core"):
            for name, _ in _imports(path):
                assert name.split(".")[0] in allowed, f"{module} imports {name}"


def test_families_have_the_same_files_in_each_layer() -> None:
    def public(folder: str) -> set[str]:
        return {p.stem for p in (ROOT / folder).glob("*.py") if not p.stem.startswith("_")}

    helpers = {"families", "rules"}
    assert public("xpr/primitives") - helpers == set(FAMILIES)
    assert public("lowering/rules") == set(FAMILIES)
    assert public("xpr/sharding/rules") == set(FAMILIES)
    assert public("tests/op_rows") == set(FAMILIES) - set(WITHOUT_ROWS)


# A pass over the jaxpr replaces these by others (`xpr/interpreters/physical.py`).
GONE_BEFORE_LOWERING = {"random_clone", "random_seed", "random_unwrap", "random_wrap"}
# So are these (`xpr/interpreters/references.py`).
GONE_BEFORE_LOWERING |= {"addupdate", "freeze", "get", "new_ref", "swap"}


def test_every_primitive_is_complete() -> None:
    load_all()
    rules.load_all()
    tested = {row.primitive for rows in all_rows().values() for row in rows}
    families = {p.family for p in registry.values()}
    assert families == set(FAMILIES)
    for name, primitive in registry.items():
        assert primitive.doc, f"{name} has no documentation"
        assert not primitive.abstract.__qualname__.startswith("_no_rule"), (
            f"{name} has no abstract rule"
        )
        assert not primitive.reference.__qualname__.startswith("_no_rule"), (
            f"{name} has no reference rule"
        )
        for kind in ("jvp", "transpose", "batch"):
            rule = getattr(primitive, kind)
            assert callable(rule) or isinstance(rule, Absent), f"{name} has no {kind} rule"
            assert not isinstance(rule, Absent) or rule.reason, f"{name}: why has it no {kind}?"
        if name in GONE_BEFORE_LOWERING:
            continue
        assert name in lowering_rules, f"{name} has no lowering rule"
        if primitive.family not in WITHOUT_ROWS:
            assert name in tested, f"{name} has no row in the operation table"


def test_each_primitive_is_listed_with_its_family() -> None:
    """By this list the file is found of a primitive that no program has used yet."""
    load_all()
    found: dict[str, set[str]] = {}
    for primitive in registry.values():
        found.setdefault(primitive.family, set()).add(primitive.name)
    assert found == {family: set(names.split()) for family, names in PRIMITIVES.items()}


def test_import_loads_neither_compiler_nor_heavy_scipy() -> None:
    code = (
        "import sys, xpr, xpr.numpy, xpr.lax; "
        "print([m for m in sys.modules if m.split('.')[0] in ('iree', 'jax') "
        "or m.startswith(('xpr.lowering.', 'scipy.linalg', 'scipy.special', "
        "'xpr.dispatch.compiled', 'xpr.dispatch.spmd', 'xpr.runtimes.collectives', "
        "'xpr.sharding.partition', 'xpr.sharding.rule', 'xpr.export', 'xpr.scipy.', "
        "'importlib.metadata', 'numpy.ma.', 'logging'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_eager_work_needs_no_compiler() -> None:
    code = (
        "import sys, xpr.numpy as jnp; x = jnp.arange(6.0).reshape(2, 3); "
        "print(float((x @ x.T).sum()), [m for m in sys.modules if m.startswith('iree')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "83.0 []"


# A loader that is copied beside a model has to be one file.
ONE_FILE = ("xpr.runtimes.bundle.one_file.bundle",)


def test_source_files_stay_small() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for module, p in _modules()
        if module not in ONE_FILE and (n := len(p.read_text().splitlines())) > 700
    }
    assert not long
