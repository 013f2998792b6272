"""Placement with three CPU devices; `test_three_cpus.py` runs this in a process of its own.

The number of CPU devices is fixed when the first one is used, so that no other test can share it.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.sharding import SingleDeviceSharding

D0, D1, D2 = (xpr.devices() * 3)[:3]  # all the same where this file is only collected
DISAGREE = "Received incompatible devices for jitted computation"


def on(device: xpr.Device) -> SingleDeviceSharding:
    return SingleDeviceSharding(device)


def check_errors_name_arguments_and_devices() -> None:
    x, y = xpr.device_put(np.ones(4), D1), xpr.device_put(np.ones(4), D2)

    def total(a, b):
        return a + b

    def f(a):
        return a["k"] + a["z"]

    with pytest.raises(ValueError, match=rf"{DISAGREE}.*argument 0 of add.*\[1\].*\[2\]"):
        x + y
    with pytest.raises(ValueError, match=rf"{DISAGREE}.*argument a of total.*float32\[4\].*b of"):
        xpr.jit(total)(x, y)
    with pytest.raises(ValueError, match=rf"{DISAGREE}.*argument a\['k'\] of f"):
        xpr.jit(f)({"k": x, "z": y})


def check_calls_compiled_for_one_device_refuse_others() -> None:
    # Whatever was compiled before, arrays of two devices are never moved in silence.
    f = xpr.jit(lambda a, b: a - b)
    places = [xpr.device_put(np.arange(3.0), d) for d in (D0, D1)]
    for x in places:
        for _ in range(2):
            assert f(x, x).devices() == x.devices()
            assert f(x, np.ones(3, "f4")).devices() == x.devices()
    for x, y in [places, places[::-1]]:
        for _ in range(2):
            with pytest.raises(ValueError, match=DISAGREE):
                f(x, y)


def check_uncommitted_arrays_follow_the_default() -> None:
    with xpr.default_device(D2):
        u = jnp.arange(4.0)
        assert u.devices() == {D2}
        assert not u.committed
        assert jnp.sin(np.ones(2)).devices() == {D2}
        assert xpr.device_put(np.ones(2)).devices() == {D2}
        assert xpr.random.normal(xpr.random.key(0), (2,)).devices() == {D2}
    f = xpr.jit(lambda v: v + 1)
    assert f(xpr.device_put(u, D2)).devices() == {D2}
    for out in (u + 1, u[1:], u[0], f(u), f(u), u + jnp.ones(4), jnp.ones(4) + u):
        assert out.devices() == {D0}
        assert not out.committed
    with xpr.default_device(D1):
        assert f(u).devices() == (u * 2).devices() == {D1}
    xpr.config.update("jax_default_device", D1)
    try:
        assert jnp.zeros(2).devices() == f(u).devices() == {D1}
    finally:
        xpr.config.update("jax_default_device", None)
    with xpr.default_device("reference"):
        assert jnp.zeros(2).devices() == {xpr.devices("reference")[0]}


def check_like_functions_stay_with_their_operand() -> None:
    x = xpr.device_put(np.arange(4.0), D1)
    for out in (jnp.zeros_like(x), jnp.ones_like(x, shape=(2,)), jnp.full_like(x, 3, dtype=int)):
        assert out.devices() == {D1}
        assert out.committed
    assert jnp.ones_like(x, device=D2).devices() == {D2}
    assert not jnp.zeros_like(jnp.ones(2)).committed
    assert jnp.zeros(2, device=D1).committed
    assert jnp.arange(3, device=on(D1)).devices() == {D1}


def check_jit_with_a_device() -> None:
    f = xpr.jit(lambda a, b=0: a + b, device=D2)
    x = xpr.device_put(np.arange(3.0), D1)
    for arg in (x, np.ones(3), jnp.ones(3), xpr.device_put(1.0, D2)):
        for _ in range(2):
            out = f(arg)
            assert out.devices() == {D2}
            assert out.committed
    assert xpr.jit(lambda a: a, device=D2)(x).devices() == {D2}
    assert x.devices() == {D1}
    with pytest.raises(ValueError, match="a device or a backend, not both"):
        xpr.jit(f, device=D1, backend="cpu")


def check_shardings_of_arguments() -> None:
    def total(a, b):
        return a + b

    x = xpr.device_put(np.ones(4), D1)
    for spec in (on(D2), (on(D2), on(D2)), [on(D2), None]):
        out = xpr.jit(total, in_shardings=spec)(x, np.ones(4))
        assert out.devices() == {D2}
        assert out.committed
    by_key = xpr.jit(lambda d: d["k"] + d["z"], in_shardings=({"k": on(D2), "z": None},))
    assert by_key({"k": x, "z": np.ones(4)}).devices() == {D2}
    with pytest.raises(ValueError, match=rf"{DISAGREE}.*argument b of total.*ARG_SHARDING.*\[2\]"):
        xpr.jit(total, in_shardings=(on(D2), None))(np.ones(4), x)
    with pytest.raises(ValueError, match=DISAGREE):
        xpr.jit(total, in_shardings=(on(D2), on(D1)))
    with pytest.raises(ValueError, match=r"one entry for each positional argument.*got 3 for 2"):
        xpr.jit(total, in_shardings=(on(D2),) * 3)(x, x)
    with pytest.raises(ValueError, match="keyword arguments when in_shardings"):
        xpr.jit(total, in_shardings=on(D2))(x, b=x)
    with pytest.raises(TypeError, match=r"in_shardings takes shardings.*got 3"):
        xpr.jit(total, in_shardings=3)
    with pytest.raises(ValueError, match="in_shardings or a device"):
        xpr.jit(total, in_shardings=on(D2), device=D1)
    static = xpr.jit(lambda a, n: a * n, in_shardings=(on(D2),), static_argnums=1)
    assert static(x, 2).devices() == {D2}


def check_shardings_of_results() -> None:
    x = xpr.device_put(np.ones(4), D1)
    f = xpr.jit(lambda a: {"u": a + 1, "v": a}, out_shardings={"u": on(D2), "v": None})
    for _ in range(2):
        out = f(np.ones(4))
        assert out["u"].devices() == out["v"].devices() == {D2}
        assert out["v"].committed
        with pytest.raises(ValueError, match=rf"{DISAGREE}.*explicit output sharding"):
            f(x)
    with pytest.raises(ValueError, match=DISAGREE):
        xpr.jit(lambda a: a, in_shardings=on(D2), out_shardings=on(D1))
    with pytest.raises(ValueError, match="different types"):
        xpr.jit(lambda a: a, out_shardings=(on(D2), on(D2)))(1.0)
    compiled = xpr.jit(lambda a: a + 2, in_shardings=on(D2)).lower(np.ones(3)).compile()
    assert compiled.input_shardings == ((on(D2),), {})
    assert compiled.output_shardings == on(D2)


def check_stages_stay_on_their_device() -> None:
    x, y = xpr.device_put(np.ones(3), D1), xpr.device_put(np.ones(3), D2)
    compiled = xpr.jit(lambda a: a + 2).lower(x).compile()
    assert compiled.input_shardings == ((on(D1),), {})
    assert compiled(x).devices() == compiled(np.ones(3, "f4")).devices() == {D1}
    with pytest.raises(ValueError, match=r"compiled for CpuDevice\(id=1\)"):
        compiled(y)
    moving = xpr.jit(lambda a: a + 2, device=D2).lower(x).compile()
    assert moving(x).devices() == {D2}


def check_closed_over_arrays_are_taken_along() -> None:
    c = xpr.device_put(np.full(2, 3.0), D1)
    f = xpr.jit(lambda a: (a + c, c))
    for x, want in ((np.ones(2), D0), (xpr.device_put(np.ones(2), D2), D2)):
        added, same = f(x)
        assert added.devices() == same.devices() == {want}
        np.testing.assert_array_equal(np.asarray(added), [4, 4])
        np.testing.assert_array_equal(np.asarray(same), [3, 3])


def check_moved_arrays_live_on_their_own() -> None:
    x = xpr.device_put(np.arange(2048.0), D0)
    y = xpr.device_put(x, on(D1))
    z = x.to_device(D2)
    add = xpr.jit(lambda v: v + 1, donate_argnums=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = add(y)
    assert out.devices() == {D1}
    assert y.is_deleted()
    x.delete()
    np.testing.assert_array_equal(np.asarray(z), np.arange(2048.0))
    moved = xpr.device_put(z, D0, donate=True)
    assert z.is_deleted()
    np.testing.assert_array_equal(np.asarray(moved), np.arange(2048.0))


if __name__ == "__main__":
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            check()
            print(name)
