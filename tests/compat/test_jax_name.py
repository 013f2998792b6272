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
        ("import jax.experimental.no_such", "xpr has no jax.experimental.no_such"),
        ("import jax._src.no_such", "xpr has no jax._src.no_such"),
        ("from jax._src.lax.lax import no_such", "cannot import name 'no_such'"),
        ("import jaxlib.no_such", "No module named 'jaxlib.no_such'"),
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


def test_private_modules_that_libraries_import() -> None:
    """What stands in the place of the compile function is asked before each compile."""
    code = HEAD + (
        "import jax, jax.numpy as jnp\n"
        "from jax._src import compiler, core, checkify\n"
        "from jax._src.state.types import AbstractRef\n"
        "from jax._src.tree_util import _registry, tree_map\n"
        "from jax.extend.core.primitives import call_p, closed_call_p, jit_p\n"
        "class Forbidden(Exception): pass\n"
        "asked = []\n"
        "def refuse(backend, *_):\n"
        "    asked.append(backend.platform)\n"
        "    raise Forbidden\n"
        "plain = compiler.backend_compile_and_load\n"
        "compiler.backend_compile_and_load = refuse\n"
        "f = jax.jit(lambda x: jnp.cos(x) * 3.25 + 17)\n"
        "try:\n"
        "    f(jnp.ones(7))\n"
        "except Forbidden:\n"
        "    print('refused', asked)\n"
        "compiler.backend_compile_and_load = plain\n"
        "print(f(jnp.zeros(1)))\n"
        "assert list in _registry and jax.Array not in _registry and len(_registry) > 6\n"
        "assert jax.tree_util.Partial in _registry\n"
        "assert isinstance(jax.typeof(jax.new_ref(1.0)), AbstractRef)\n"
        "assert core.trace_state_clean() and checkify.user_checks\n"
        "try:\n"
        "    call_p.bind(1.0)\n"
        "except NotImplementedError as error:\n"
        "    print(error)\n"
    )
    lines = run("-c", code).splitlines()
    assert lines[:2] == ["refused ['cpu']", "[20.25]"]
    assert "core_call" in lines[2]


def test_settings_by_jaxs_names() -> None:
    code = HEAD + (
        "import jax, warnings, xpr\n"
        "assert jax.config.jax_platforms is None and jax.config.jax_use_shardy_partitioner\n"
        "jax.config.update('jax_platforms', 'cpu')\n"
        "assert (jax.config.jax_platforms, xpr.config.default_device) == ('cpu', 'cpu')\n"
        "jax.config.update('jax_platform_name', None)\n"
        "jax.config.update('jax_transfer_guard', 'disallow')\n"
        "assert xpr.config.transfer_guard_device_to_host == 'disallow'\n"
        "jax.config.update('jax_transfer_guard', 'allow')\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(2):\n"
        "        jax.config.update('jax_compilation_cache_dir', '/nowhere')\n"
        "    jax.config.update('jax_enable_compilation_cache', True)\n"
        "print([str(w.message) for w in caught], jax.config.jax_compilation_cache_dir)\n"
        "try:\n"
        "    jax.config.update('jax_no_such', 1)\n"
        "except AttributeError as error:\n"
        "    print(str(error)[:41])\n"
    )
    said, unknown = run("-c", code).splitlines()
    text = "jax_compilation_cache_dir is a setting of JAX's that has no effect in xpr"
    assert said == f"[{text!r}] /nowhere"
    assert unknown == "Unrecognized config option: 'jax_no_such'"


def test_settings_of_jaxs_command_line(tmp_path: Path) -> None:
    """Flags of absl, which the program has, are settings."""
    pytest.importorskip("absl")
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, jax\n"
        "from absl import app\n"
        "if sys.argv[1] == 'parse':\n"
        "    jax.config.parse_flags_with_absl()\n"
        "    jax.config.parse_flags_with_absl()\n"
        "    print(jax.config.jax_enable_x64, jax.config.values['jax_numpy_rank_promotion'])\n"
        "else:\n"
        "    jax.config.update('jax_default_device', jax.devices()[0])\n"
        "    jax.config.config_with_absl()\n"
        "    app.run(lambda _: print(jax.config.jax_enable_x64, jax.config.jax_debug_nans))\n",
        encoding="utf-8",
    )
    flags = ["--jax_enable_x64", "--jax_numpy_rank_promotion=raise"]
    assert run("-m", "xpr.compat", str(script), "parse", *flags).strip() == "True raise"
    found = run("-m", "xpr.compat", str(script), "run", *flags, "--jax_debug_nans=1")
    assert found.strip() == "True True"


def test_modules_that_jax_has_loaded_are_found_by_libraries() -> None:
    code = HEAD + (
        "import jax, sys\n"
        "assert jax.tree_util is sys.modules['jax.tree_util']\n"
        "assert jax.interpreters is sys.modules['jax.interpreters']\n"
        "print(sorted(jax._src.xla_bridge._backends), end=' ')\n"
        "jax.devices()\n"
        "print(sorted(jax._src.xla_bridge._backends))\n"
    )
    assert run("-c", code).strip() == "[] ['cpu']"


def test_names_are_looked_for_once() -> None:
    code = HEAD + (
        "import importlib.util, jax\n"
        "names = ['jit', 'Array', 'numpy', 'nn', 'core', 'tree', 'block_until_ready']\n"
        "first = [getattr(jax, name) for name in names]\n"
        "importlib.util.find_spec = None\n"
        "assert all(getattr(jax, name) is x for name, x in zip(names, first))\n"
        "assert jax.jit is __import__('xpr').jit\n"
        "print('same')\n"
    )
    assert run("-c", code).strip() == "same"


def test_devices_by_xlas_flag() -> None:
    """Programs set it at their top, before the first device is used; xpr's own setting wins."""
    flags = "--xla_dump_to=x --xla_force_host_platform_device_count=3"
    program = f"import os; os.environ['XLA_FLAGS'] = '{flags}'\nimport jax\n"
    count = "print(len(jax.devices()))"
    assert run("-m", "xpr.compat", "-c", program + count) == "3\n"
    own = "jax.config.update('jax_num_cpu_devices', 2)\n"
    assert run("-m", "xpr.compat", "-c", program + own + count) == "2\n"
