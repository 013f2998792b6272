"""`import xpr.compat.jax` makes JAX's name xpr's: each case in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "import xpr.compat.jax\n"


def run(*arguments: str, folder: Path | None = None, code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def test_modules_are_those_of_xpr() -> None:
    code = HEAD + (
        "import importlib.metadata, jax, xpr, jax.numpy as jnp, jax.scipy.special\n"
        "from jax import lax, random\n"
        "import jax.experimental.ode, jax.example_libraries.optimizers\n"
        "import xpr.experimental.ode\n"
        "assert jax.experimental.ode is xpr.experimental.ode\n"
        "from jax.experimental import multihost_utils\n"
        "import xpr.experimental.multihost_utils as ours\n"
        "assert jax.numpy is xpr.numpy and lax is xpr.lax and multihost_utils is ours\n"
        "assert jax.scipy.special is xpr.scipy.special and jax.jit is xpr.jit\n"
        "assert xpr.numpy.__spec__.name == 'xpr.numpy' and xpr.numpy.__name__ == 'xpr.numpy'\n"
        "assert jax.__version__ == '0.10.2' and jax.__version_info__ == (0, 10, 2)\n"
        "assert importlib.metadata.version('jax') == '0.10.2'\n"
        "assert importlib.metadata.version('numpy') == __import__('numpy').__version__\n"
        "print(jax.grad(lambda x: jnp.sum(x**3))(2.0))"
    )
    assert run("-c", code).strip() == "12.0"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import jax.experimental.pallas", "xpr has no jax.experimental.pallas"),
        ("from jax import no_such", "cannot import name 'no_such'"),
        ("import jax; jax.no_such", "no attribute 'no_such' in xpr: docs/jax_compat.md"),
        ("import jax; jax.dispatch", "no attribute 'dispatch'"),
        ("import jax.lowering", "xpr has no jax.lowering"),
        ("import jax.lax; jax.lax.no_such_p", "xpr has no primitive 'no_such_p'"),
    ],
)
def test_what_is_missing_raises(line: str, message: str) -> None:
    assert message in run("-c", HEAD + line, code=1)


def test_jax_that_is_loaded_already_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("real = True\n")
    code = "import sys; sys.path.insert(0, '.'); import jax; import xpr.compat.jax"
    found = run("-c", code, folder=tmp_path, code=1)
    assert "jax is loaded already, from" in found
    # Where it is only installed, xpr comes before it.
    code = (
        "import sys; sys.path.insert(0, '.')\n" + HEAD + "import jax; print(hasattr(jax, 'real'))"
    )
    assert run("-c", code, folder=tmp_path).strip() == "False"


SCRIPT = """
import multiprocessing, sys
import jax, jax.numpy as jnp

def slope(x):
    return float(jax.grad(lambda y: jnp.sin(y) * 2)(x)), jax.__version__

if __name__ == "__main__":
    print(sys.argv[1:], __name__)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(slope, [0.0]))
"""


@pytest.mark.parametrize("how", ["file", "module"])
def test_programs_that_stay_untouched(tmp_path: Path, how: str) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    named = ["program.py"] if how == "file" else ["-m", "program"]
    found = run("-m", "xpr.compat", *named, "a", "b", folder=tmp_path)
    assert found.splitlines() == ["['a', 'b'] __main__", "[(2.0, '0.10.2')]"]


def test_code_and_wrong_calls(tmp_path: Path) -> None:
    code = "import jax, sys; print(jax.numpy.arange(3), sys.argv); sys.exit(3)"
    assert "[0 1 2] ['-c', 'x']" in run("-m", "xpr.compat", "-c", code, "x", code=3)
    assert "no such file" in run("-m", "xpr.compat", "none.py", folder=tmp_path, code=2)
    for wrong in ([], ["-m"], ["--no-such"]):
        assert "usage: python -m xpr.compat" in run("-m", "xpr.compat", *wrong, code=2)


def test_tests_of_a_library(tmp_path: Path) -> None:
    test = "import jax, jax.numpy as jnp\ndef test_it():\n    assert jax.jit(jnp.sin)(0.0) == 0\n"
    (tmp_path / "test_lib.py").write_text(test)
    found = run(
        "-m", "pytest", "-q", "-p", "xpr.compat.pytest", "-p", "no:cacheprovider", folder=tmp_path
    )
    assert "1 passed" in found


def test_the_magic_of_notebooks() -> None:
    code = (
        "from xpr.compat import load_ipython_extension\nload_ipython_extension(None)\n"
        "import jax; print(jax.__version__)"
    )
    assert run("-c", code).strip() == "0.10.2"


def test_the_examples_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "jax_compat.md"
    code = (
        "import doctest, re, pathlib\n"
        f"text = pathlib.Path({str(page)!r}).read_text(encoding='utf-8')\n"
        "blocks = re.findall(r'^```python\\n(.*?)^```$', text, re.M | re.S)\n"
        "example = doctest.DocTestParser().get_doctest(''.join(blocks), {}, 'page', None, 0)\n"
        "result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)\n"
        "print(result.failed, result.attempted > 8)"
    )
    assert run("-c", code).strip() == "0 True"
