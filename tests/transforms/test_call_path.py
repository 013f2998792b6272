"""Calls of jitted functions, many times in many forms: the same results, errors and memory.

All of it holds with the native part and without; `XPR_NATIVE=0` runs the same tests on the Python
path.
"""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import override
from xpr.runtimes.extension import native

Pair = namedtuple("Pair", "first second")


def _values(tree):
    return xpr.tree_util.tree_map(lambda x: np.asarray(x).tolist(), tree)


def test_trees_of_every_node_come_back_as_they_went_in() -> None:
    x = jnp.arange(3.0)
    f = xpr.jit(lambda t: xpr.tree_util.tree_map(lambda a: a + 1, t))
    want = [1.0, 2.0, 3.0]
    trees = [
        (x, [x, None], {"b": x, "a": (x,), "c": {}, "d": [], "e": {"z": {"y": [()]}}}),
        None,
        Pair(x, {"k": x, "l": OrderedDict(b=x, a=[x])}),
        (x,) * 200,
    ]
    for _ in range(3):
        for tree in trees:
            expected = xpr.tree_util.tree_map(lambda _: want, tree)
            found = f(tree)
            assert xpr.tree_util.tree_structure(found) == xpr.tree_util.tree_structure(tree)
            assert _values(found) == expected


def test_dictionaries_and_keywords_in_any_order_have_the_same_meaning() -> None:
    f = xpr.jit(lambda t, *, c, d: t["a"] - t["b"] * 10 + c * 100 + d["y"] * 1000 - d["x"] * 10000)
    traces = []
    g = xpr.jit(lambda t, **named: traces.append(0) or f(t, **named))
    one, two, three, four, five = (jnp.full((2,), float(i)) for i in range(1, 6))
    want = [1 - 20 + 300 + 4000 - 50000.0] * 2
    for call in (f, g, f, g):
        for t in ({"a": one, "b": two}, {"b": two, "a": one}):
            for d in ({"y": four, "x": five}, {"x": five, "y": four}):
                assert np.asarray(call(t, c=three, d=d)).tolist() == want
                assert np.asarray(call(t, d=d, c=three)).tolist() == want
    assert len(traces) == 1


def test_names_that_are_equal_but_not_the_same_object() -> None:
    f = xpr.jit(lambda t: t["layer1"] - t["layer2"])
    x, y = jnp.arange(3.0), jnp.ones(3)
    for _ in range(50):
        names = ["".join(["lay", "er", str(i)]) for i in (1, 2)]
        assert np.asarray(f(dict(zip(names, (x, y), strict=True)))).tolist() == [-1, 0, 1]
    if native().module is not None:
        assert len(f._cache.native) == 1


def test_other_types_are_other_programs() -> None:
    f = xpr.jit(lambda x, y: x + y)
    for _ in range(3):
        for x, y in (
            (jnp.ones(2), 1),
            (jnp.ones((1, 2)), 2.5),
            (np.ones(2, "f4"), True),
            (np.ones((1, 2), "f4"), jnp.asarray(5)),
            (jnp.ones(2, "int32"), np.float32(4)),
            (np.ones(3, "i2"), 7),
        ):
            want = np.asarray(x) + np.asarray(y)
            found = np.asarray(f(x, y))
            assert found.shape == want.shape
            np.testing.assert_array_equal(found, want.astype(found.dtype))


def test_static_values_are_compared_by_type_and_value() -> None:
    f = xpr.jit(lambda x, kind, *, scale=1: x * scale + {bool: 10, int: 20, float: 30}[type(kind)],
                static_argnums=1, static_argnames="scale")  # fmt: skip
    x = jnp.zeros(2)
    for _ in range(3):
        assert np.asarray(f(x, True)).tolist() == [10, 10]
        assert np.asarray(f(x, 1)).tolist() == [20, 20]
        assert np.asarray(f(x, 1.0)).tolist() == [30, 30]
        assert np.asarray(f(x + 1, 1, scale=5)).tolist() == [25, 25]
        assert np.asarray(f(x + 1, 1, scale=7)).tolist() == [27, 27]


class Awkward:
    """A static value whose comparison does something."""

    actions: ClassVar[list] = []

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        for action in self.actions:
            action()
        return True


def test_static_values_whose_comparison_raises_or_clears_the_caches(monkeypatch) -> None:
    f = xpr.jit(lambda x, t, s: x + t[0], static_argnums=2)
    x = jnp.zeros(2)
    assert np.asarray(f(x, [x + 1], Awkward())).tolist() == [1, 1]

    def fail() -> None:
        raise ZeroDivisionError("not today")

    monkeypatch.setattr(Awkward, "actions", [fail])
    with pytest.raises(ZeroDivisionError, match="not today"):
        f(x, [x + 1], Awkward())
    monkeypatch.setattr(Awkward, "actions", [f.clear_cache])
    for _ in range(3):
        assert np.asarray(f(x, [x + 1], Awkward())).tolist() == [1, 1]
    for _ in range(3):  # drops an array that the call has seen already
        t = [x + 1]
        monkeypatch.setattr(Awkward, "actions", [])
        assert np.asarray(f(x, t, Awkward())).tolist() == [1, 1]
        monkeypatch.setattr(Awkward, "actions", [t.clear])
        assert np.asarray(f(x, t, Awkward())).tolist() == [1, 1]


def test_settings_decide_too() -> None:
    f = xpr.jit(lambda x: x + jnp.arange(2).astype(float))
    x = np.zeros(2, "f4")
    for _ in range(2):
        assert f(jnp.asarray(x)).dtype == np.float32
        with override("enable_x64", True):
            assert f(jnp.asarray(x)).dtype == np.float64
        with override("disable_jit", True):
            assert f(jnp.asarray(x)).dtype == np.float32
        with override("debug_nans", True), pytest.raises(FloatingPointError, match="nan"):
            f(jnp.asarray(np.full(2, np.nan, "f4")))
    assert np.isnan(np.asarray(f(jnp.asarray(np.full(2, np.nan, "f4"))))).all()


def test_other_traces_see_the_call() -> None:
    f = xpr.jit(lambda x: x * x)
    x = jnp.arange(3.0)
    g = xpr.jit(xpr.grad(lambda x: f(f(x)).sum()))
    for _ in range(2):
        assert np.asarray(f(x)).tolist() == [0, 1, 4]
        assert np.asarray(g(x)).tolist() == [0, 4, 32]
        assert np.asarray(xpr.vmap(f)(x)).tolist() == [0, 1, 4]


def test_deleted_and_donated_arrays_are_refused_each_time() -> None:
    f = xpr.jit(lambda x, y: x + y)
    g = xpr.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(4), jnp.ones(4)
    for _ in range(3):
        assert np.asarray(f(x, y)).tolist() == [2] * 4
        given = x + 0
        assert np.asarray(g(given, y)).tolist() == [2] * 4
        assert given.is_deleted()
        for call in (f, g):
            with pytest.raises(RuntimeError, match="Array has been deleted with shape"):
                call(given, y)
    with pytest.raises(RuntimeError, match="arguments 0 and 1 are the same array"):
        g(y, y)
    assert np.asarray(y).tolist() == [1] * 4


def test_donated_memory_that_others_see_is_left_alone() -> None:
    f = xpr.jit(lambda x: x + 1, donate_argnums=0)
    same = xpr.jit(lambda x: (x + 0.0, x * 2))
    x, kept = jnp.zeros(4), []
    for n in range(5):
        x = f(x)  # nobody else sees it
        view = np.asarray(x)
        kept.append((view, n * 3 + 1.0))
        x = f(x)  # somebody does
        alias = xpr.device_put(x)
        others = same(x)
        kept += [(np.asarray(alias), n * 3 + 2.0), (np.asarray(others[0]), n * 3 + 2.0)]
        x = f(x)
        assert not others[1].is_deleted()
        for values, want in kept:
            assert values.tolist() == [want] * 4
    assert np.asarray(x).tolist() == [15] * 4


def test_numbers_that_do_not_fit_their_type_are_refused_each_time() -> None:
    f = xpr.jit(lambda x, n: x * n)
    x = jnp.arange(3)
    for _ in range(3):
        assert np.asarray(f(x, 2**31 - 1)).tolist() == [0, 2147483647, -2]
        with pytest.raises(OverflowError, match="too large to convert to int32"):
            f(x, 2**31)
        with override("transfer_guard_host_to_device", "disallow"):
            with pytest.raises(RuntimeError, match="host-to-device transfer"):
                f(x, 3)
            assert np.asarray(f(x, x)).tolist() == [0, 1, 4]


def test_commitment_follows_the_arguments() -> None:
    f = xpr.jit(lambda x, y: (x + y, x))
    device = xpr.devices()[0]
    loose = jnp.ones(2)
    fixed = xpr.device_put(loose, device)
    for _ in range(3):
        assert not any(a.committed for a in f(loose, loose))
        assert all(a.committed for a in f(fixed, loose))
        assert all(a.committed for a in f(loose, fixed))


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list = []
    loop.append(loop)
    with pytest.raises(RecursionError, match="recursion depth"):
        xpr.jit(lambda x: x)(loop)


def test_a_function_and_what_it_compiled_can_be_collected() -> None:
    class Owner:
        pass

    owner = Owner()
    owner.call = xpr.jit(functools.partial(lambda me, x: x + len(vars(me)), owner))
    for _ in range(3):
        assert np.asarray(owner.call(jnp.ones(2))).tolist() == [2, 2]
    found = weakref.ref(owner)
    del owner
    gc.collect()
    assert found() is None


def test_calls_keep_no_references() -> None:
    f = xpr.jit(lambda t, y: {"a": t["a"] + y, "b": [t["b"][0] * 2]})
    x = jnp.arange(4.0)
    tree = {"a": x, "b": [jnp.ones(3)]}
    f(tree, 2.0)
    watched = [x, x.aval, x._buffers, x._buffers[0], x.device, tree, f, f._cache, f._fun]
    counts = []
    for _ in range(2):
        for _ in range(1000):
            f(tree, 2.0)
        gc.collect()
        counts.append([sys.getrefcount(o) for o in watched])
    assert counts[0] == counts[1]


def test_threads_share_a_function() -> None:
    f = xpr.jit(lambda x, t: x * 2 + t["a"])
    failures = []

    def work(n: int) -> None:
        for size in (n % 2 + 1, 3):
            x = jnp.full((size,), float(n))
            for _ in range(30):
                if np.asarray(f(x, {"a": x})).tolist() != [3.0 * n] * size:
                    failures.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


_ROOT = Path(__file__).resolve().parents[2]


def _run(program: str, **env: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=120, cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT)} | env,
    )  # fmt: skip
    assert found.returncode == 0, f"exit {found.returncode}\n{found.stdout}\n{found.stderr}"
    return found.stdout


def test_calls_in_flight_when_python_ends_or_forks_or_is_interrupted() -> None:
    program = """
import os, signal, threading, time
import numpy as np, xpr, xpr.numpy as jnp
from xpr.runtimes.extension import native
f = xpr.jit(lambda x, t: x * 2 + (t["a"] if isinstance(t, dict) else t))
x = jnp.arange(4.0)
# Python cannot end a thread inside of optree, which takes trees apart where C++ of ours does not.
tree = x if native().module is None else {"a": x}
def check(): assert np.asarray(f(x, tree)).tolist() == [0, 3, 6, 9]
check(); check()
def forever():
    while True: check()
def ring(*_): raise InterruptedError
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
if hasattr(os, "fork"):
    import warnings
    warnings.simplefilter("ignore")  # of threads in a process that forks
    child = os.fork()
    if not child:
        check()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    interrupts = 0
    signal.signal(signal.SIGALRM, ring)
    for _ in range(5):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            forever()
        except InterruptedError:
            interrupts += 1
    assert interrupts == 5
    check()
class Last:
    def __del__(self): check()
last = Last()
last.me = last  # collected when the interpreter ends
print("done")
"""
    assert _run(program).endswith("done\n")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_the_same_over_many_calls() -> None:
    count = 10**7 if os.environ.get("XPR_LONG_TESTS") else 10_000
    program = f"""
import resource
import xpr, xpr.numpy as jnp
f = xpr.jit(lambda x, t: (x * 2, [t["a"] + x]))
g = xpr.jit(lambda x: x + 1, donate_argnums=0)
x = jnp.arange(16.0)
tree, z = {{"a": x}}, x + 0
def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
def work(count):
    global z
    for _ in range(count):
        f(x, tree)
        z = g(z)
work({count} // 4)
before = size()
work({count})
print(size() - before)
"""
    assert int(_run(program)) < 1 << 20
