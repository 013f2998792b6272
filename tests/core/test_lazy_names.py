"""Names of packages whose files are loaded when they are first used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("xpr", "xpr.numpy", "xpr.lax")


def _lazy_part(package: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What type checkers read of a package's lazy names, and what is done when it runs."""
    file = importlib.import_module(package).__file__
    assert file is not None
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    found = [n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    assert len(found) == 1
    return found[0].body, found[0].orelse


def _for_type_checkers(package: str) -> dict[str, str]:
    """The module of each lazy name, "" where the name is a submodule."""
    names: dict[str, str] = {}
    for statement in _lazy_part(package)[0]:
        assert isinstance(statement, ast.ImportFrom)
        assert statement.module is not None
        for alias in statement.names:
            assert alias.asname == alias.name
            names[alias.name] = "" if statement.module == package else statement.module
    return names


def _when_it_runs(package: str) -> dict[str, str]:
    calls = [
        node
        for statement in _lazy_part(package)[1]
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_lazy_names"
    ]
    assert len(calls) == 1
    table, *submodules = (ast.literal_eval(argument) for argument in calls[0].args[1:])
    names = {name: module for module, text in table.items() for name in text.split()}
    assert len(names) == sum(len(text.split()) for text in table.values())
    return names | {name: "" for found in submodules for name in found}


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_read_what_happens(package: str) -> None:
    assert _for_type_checkers(package) == _when_it_runs(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_name_is_that_of_its_module(package: str) -> None:
    loaded = importlib.import_module(package)
    for name, module in _when_it_runs(package).items():
        if module:
            expected = getattr(importlib.import_module(module), name)
        else:
            expected = importlib.import_module(f"{package}.{name}")
        found = getattr(loaded, name)
        if module:
            expected = getattr(importlib.import_module(module), name)  # by now its API boundary
        assert found is expected
        assert name in dir(loaded)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_stands_in_place_of_a_function(package: str) -> None:
    """Loading the file `unique` makes it the attribute `unique` of its package."""
    for name, module in _when_it_runs(package).items():
        assert module != f"{package}.{name}"


def _printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_import_loads_no_file_of_a_lazy_name() -> None:
    modules = sorted({m for p in PACKAGES for m in _when_it_runs(p).values() if m})
    program = f"import sys, xpr; print([m for m in {modules!r} if m in sys.modules])"
    # To put arrays on devices is a primitive of the first file; `jit` takes what is in the second.
    assert _printed(program) == "['xpr.primitives.convert', 'xpr.transforms.inline']"


def test_a_first_call_loads_no_file_that_it_does_not_use() -> None:
    program = (
        "import sys, xpr, numpy; print(xpr.jit(lambda x: x + 1)(numpy.zeros(2))); "
        "print([m for m in ('xpr.transforms.shard_map', 'xpr.transforms.jacobians', "
        "'xpr.numpy.windows') if m in sys.modules])"
    )
    assert _printed(program).splitlines() == ["[1. 1.]", "[]"]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("xpr.numpy.float32(3)", "3.0"),
        ("xpr.numpy.int8(np.ones(2))", "[1 1]"),
        ("xpr.device_put(np.arange(3)).sum()", "3"),
        ("xpr.device_put(np.arange(3))[1:]", "[1 2]"),
        ("xpr.device_put(np.arange(3)).at[0].set(7)", "[7 1 2]"),
        ("3 in xpr.device_put(np.arange(3))", "False"),
        ("xpr.lax.neg(np.int8(1))", "-1"),
        ("xpr.grad(lambda x: (x * np.ones(3)).sum())(2.0)", "3.0"),
        ("xpr.random.key_data(xpr.numpy.full((), xpr.random.key(5)))", "[0 5]"),
        ("xpr.jit(lambda tree: tree)({'b': [1, None], 'a': (2,)})['b'][1]", "None"),
        ("xpr.lax.fori_loop(0, 4, lambda i, x: x + i, 0)", "6"),
        ("xpr.tree_util.tree_leaves(xpr.ds(1, 2))", "[]"),
        ("xpr.jit(lambda x, s: x[s])(np.arange(4), xpr.ds(1, 2))", "[1 2]"),
    ],
)
def test_anything_may_be_used_first(program: str, expected: str) -> None:
    """What a file makes known to others must be known before the file is loaded."""
    assert _printed(f"import numpy as np, xpr; print({program})") == expected


def test_exported_functions_can_be_pickled() -> None:
    program = (
        "import pickle, types, xpr, xpr.lax, xpr.numpy\n"
        "for package in (xpr, xpr.lax, xpr.numpy):\n"
        "    for name in package.__all__:\n"
        "        value = getattr(package, name)\n"
        "        if isinstance(value, types.FunctionType):\n"
        "            assert pickle.loads(pickle.dumps(value)) is value, name\n"
        "print('all')"
    )
    assert _printed(program) == "all"


def test_import_star_takes_lazy_names_too() -> None:
    program = (
        "from xpr.numpy import *\nfrom xpr.lax import cond, scan\n"
        "print(hanning is __import__('xpr').numpy.hanning, callable(concatenate), callable(cond))"
    )
    assert _printed(program) == "True True True"


def test_what_the_user_put_there_stays() -> None:
    program = (
        "import xpr.numpy as jnp; jnp.hanning = 'mine'; jnp.hamming; "
        "print(jnp.hanning, callable(jnp.hamming))"
    )
    assert _printed(program) == "mine True"


def test_primitives_are_found_whose_files_are_not_loaded() -> None:
    program = (
        "import sys, xpr\nfrom xpr.core.primitive import find_primitive, get_primitive, registry\n"
        "before = 'conv_general_dilated' in registry\n"
        "print(before, get_primitive('conv_general_dilated').family, find_primitive('no such'), "
        "xpr.lax.psum_p.name)"
    )
    assert _printed(program) == "False conv None psum"


@pytest.mark.parametrize("package", PACKAGES)
def test_other_names_are_errors(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'absent'"):
        _ = importlib.import_module(package).absent


def test_high_types_are_looked_for_once_there_is_one() -> None:
    program = (
        "import sys, xpr\n"
        "from xpr.core.trace import Trace\n"
        "xpr.jit(lambda x: x + 1).lower(1.0).compile()(1.0)\n"
        "print([m for m in sys.modules if m.endswith('.high')], Trace.any_high)\n"
        "import xpr.core.high, xpr.interpreters.high\n"
        "print(Trace.any_high)\n"
        "xpr.core.high.register_high(type('Kind', (), {}), lambda x: None)\n"
        "print(Trace.any_high)\n"
    )
    assert _printed(program).splitlines() == ["[] False", "False", "True"]
