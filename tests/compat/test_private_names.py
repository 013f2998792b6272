"""Names that libraries import from JAX beside the documented ones."""

from __future__ import annotations

from tests.compat.names import PRIVATE, UNAVAILABLE, table
from tests.compat.test_jax_name import HEAD, run

TABLES = "from tests.compat.names import PRIVATE, UNAVAILABLE, table\n"


def test_names_that_libraries_import() -> None:
    code = HEAD + TABLES + (
        "import importlib\n"
        "missing = []\n"
        "for module, name in table(PRIVATE):\n"
        "    try:\n"
        "        exec(f'from {module} import {name}', {})\n"
        "        assert hasattr(importlib.import_module(module), name)\n"
        "    except (ImportError, AssertionError) as error:\n"
        "        missing.append((module, name, str(error)))\n"
        "print(missing)\n"
    )  # fmt: skip
    assert len(table(PRIVATE)) > 150
    assert run("-c", code).strip() == "[]"


def test_modules_that_cannot_be_used_can_be_imported() -> None:
    code = HEAD + TABLES + (
        "import importlib, typing\n"
        "wrong = []\n"
        "for module, name in table(UNAVAILABLE):\n"
        "    scope = {}\n"
        "    exec(f'import {module} as m\\nfrom {module} import {name} as found', scope)\n"
        "    found = scope['found']\n"
        "    if not isinstance(found, type):\n"
        "        continue  # a module below\n"
        "    assert not isinstance(3, found) and found | None and found.attribute\n"
        "    class Derived(found): ...\n"
        "    uses = [lambda: found(1), lambda: Derived(), lambda: found.attribute(x=2),\n"
        "            lambda: found + 1,\n"
        "            lambda: 2 * found, lambda: list(found), lambda: len(found)]\n"
        "    for i, use in enumerate(uses):\n"
        "        try:\n"
        "            use()\n"
        "        except NotImplementedError as error:\n"
        "            if 'docs/jax_compat.md' not in str(error) or name not in str(error):\n"
        "                wrong.append(str(error))\n"
        "        else:\n"
        "            wrong.append((module, name, i))\n"
        "print(wrong)\n"
    )  # fmt: skip
    assert len(table(UNAVAILABLE)) > 30
    assert run("-c", code).strip() == "[]"


def test_the_version_of_jaxlib() -> None:
    code = HEAD + (
        "import jaxlib, jaxlib.version, importlib.metadata, jax\n"
        "assert jaxlib.__version__ == jaxlib.version.__version__ == jax.__version__\n"
        "assert importlib.metadata.version('jaxlib') == jaxlib.__version__\n"
        "from jaxlib._jax import PjitFunction\n"
        "assert isinstance(jax.jit(len), PjitFunction)\n"
        "print(hasattr(jaxlib, 'no_such'))\n"
    )
    assert run("-c", code).strip() == "False"


def test_what_private_functions_do() -> None:
    code = HEAD + (
        "import inspect, jax, jax.numpy as jnp, numpy as np\n"
        "from jax._src import config, core, dtypes, util\n"
        "from jax._src.api_util import infer_argnums_and_argnames as infer\n"
        "from jax._src.public_test_util import check_close\n"
        "from jax._src.sharding_impls import canonicalize_sharding\n"
        "from jax._src.pjit import auto_axes\n"
        "from jax._src.clusters import SlurmCluster\n"
        "f = lambda x, y, /, z, *, w: 0\n"
        "assert infer(inspect.signature(f), None, ('z', 'w')) == ((2,), ('z', 'w'))\n"
        "assert infer(inspect.signature(f), (0, 2), None) == ((0, 2), ('z',))\n"
        "assert infer(inspect.signature(f), None, None) == ((), ())\n"
        "assert infer(inspect.signature(f), 1, 'w') == ((1,), ('w',))\n"
        "for a, b in ((np.int8, 'c8'), ('f4', 'c8'), ('f8', 'c16'), ('bfloat16', 'c8')):\n"
        "    assert dtypes.to_complex_dtype(jnp.dtype(a)) == np.dtype(b), a\n"
        "assert not config.enable_checks.value\n"
        "with config.enable_checks(True):\n"
        "    assert config.enable_checks.value\n"
        "check_close({'a': jnp.ones(2)}, {'a': np.ones(2, 'f') + 1e-7})\n"
        "for wrong in ({'a': np.ones(2) + 1e-3}, {'b': np.ones(2)}, {'a': np.ones(3)}):\n"
        "    try:\n"
        "        check_close({'a': jnp.ones(2)}, wrong)\n"
        "    except AssertionError:\n"
        "        pass\n"
        "    else:\n"
        "        print('close', wrong)\n"
        "P = jax.sharding.PartitionSpec\n"
        "assert canonicalize_sharding(None, 'f') is None\n"
        "for wrong, kind in ((P('x'), ValueError), (3, TypeError)):\n"
        "    try:\n"
        "        canonicalize_sharding(wrong, 'f')\n"
        "    except kind as error:\n"
        "        assert 'PartitionSpec' in str(error)\n"
        "mesh = jax.make_mesh((1,), ('x',), axis_types=(jax.sharding.AxisType.Explicit,))\n"
        "with jax.set_mesh(mesh):\n"
        "    found = canonicalize_sharding(P('x'), 'f')\n"
        "assert found.spec == P('x') and found.mesh == mesh.abstract_mesh\n"
        "assert auto_axes is jax.sharding.auto_axes and not SlurmCluster.is_env_present()\n"
        "assert util.split_list([1, 2, 3], [1]) == [[1], [2, 3]]\n"
        "no, yes = util.partition_list([True, False], 'ab')\n"
        "assert util.merge_lists([True, False], no, yes) == ['a', 'b']\n"
        "assert core.physical_aval(jax.typeof(jax.random.key(0))).shape == (2,)\n"
        "jaxpr = jax.make_jaxpr(jnp.sin)(1.0)\n"
        "assert isinstance(jaxpr, core.ClosedJaxpr) and core.jaxpr_as_fun(jaxpr)(0.0) == [0]\n"
        "print('done')\n"
    )
    assert run("-c", code).strip() == "done"


def test_core_under_xprs_own_name() -> None:
    """A program that says `import xpr as jax` finds in `jax.core` what JAX documents there."""
    code = (
        "import xpr as jax, xpr.numpy as jnp\n"
        "from xpr.core import Tracer, ShapedArray, eval_jaxpr\n"
        "def f(x):\n"
        "    assert isinstance(x, jax.core.Tracer) and isinstance(x.aval, jax.core.ShapedArray)\n"
        "    assert not jax.core.trace_state_clean()\n"
        "    with jax.core.ensure_compile_time_eval():\n"
        "        n = int(jnp.arange(3).sum())\n"
        "    return x * n\n"
        "jaxpr = jax.make_jaxpr(f)(2.0)\n"
        "print(jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, 5.0)[0])\n"
        "assert jax.core.trace_state_clean() and isinstance(jaxpr, jax.core.ClosedJaxpr)\n"
        "assert jax.core.get_aval(jnp.ones(2)).shape == (2,) and jax.core.max_dim(2, 3) == 3\n"
        "print(hasattr(jax.core, 'no_such'))\n"
    )
    assert run("-c", code).split() == ["15.0", "False"]
