"""Programs over the devices of several processes, against NumPy."""

from __future__ import annotations

import textwrap

import pytest

from .spread import HERE

WORLDS = pytest.mark.parametrize(("processes", "each"), [(2, 2), (4, 1)])


@WORLDS
def test_auto_mode(run_processes, processes, each):
    program = """
        rng = np.random.default_rng(0)
        a = rng.integers(-4, 5, (8, 12)).astype(np.float32)
        b = rng.integers(-4, 5, (12, 8)).astype(np.float32)
        x, w = spread(a, "x", "y", mesh=grid), spread(b, "y", None, mesh=grid)

        # products, sums, reductions along cut axes
        check(xpr.jit(lambda x, w: jnp.maximum(x @ w, 0))(x, w), np.maximum(a @ b, 0))
        total = xpr.jit(lambda x: (x.sum(), x.max(0), x.argmin(1)))(x)
        assert float(total[0]) == a.sum()
        check(total[1], a.max(0))
        check(total[2], a.argmin(1))
        value, slope = xpr.jit(xpr.value_and_grad(lambda w, x: ((x @ w) ** 2).sum()))(w, x)
        assert float(value) == ((a @ b) ** 2).sum()
        check(slope, 2 * a.T @ (a @ b))
        assert slope.sharding.is_equivalent_to(w.sharding, 2)

        # what neighbours have
        row = np.arange(16, dtype=np.float32)
        v = spread(row, "x")
        both = xpr.jit(lambda v: (v[::-1], jnp.cumsum(v), jnp.roll(v, 3), jnp.sort(-v)))(v)
        for found, wanted in zip(
            both, (row[::-1], np.cumsum(row), np.roll(row, 3), np.sort(-row)), strict=True
        ):
            check(found, wanted)

        # operations outside of jit
        check(x @ w, a @ b)
        check(x.T, a.T)
        assert float(jnp.sum(x)) == a.sum() and bool((x < 5).all()) and int(v[3]) == 3
        check(v[2:10], row[2:10])
        check(jnp.concatenate([v, v]), np.concatenate([row, row]))
        with pytest.raises(RuntimeError, match="spans non-addressable"):
            list(v)
        check(xpr.vmap(lambda r: r - r.mean())(x), a - a.mean(1, keepdims=True), rtol=1e-6)

        # loops in which devices meet
        def step(c):
            i, v = c
            return i + 1, v + v.sum() / 128

        i, out = xpr.jit(lambda v: lax.while_loop(lambda c: c[1].sum() < 1e4, step, (0, v)))(v)
        wanted, n = row.copy(), 0
        while wanted.sum() < 1e4:
            wanted, n = wanted + wanted.sum() / np.float32(128), n + 1
        assert int(i) == n
        check(out, wanted, rtol=1e-5)
        carried, sums = xpr.jit(
            lambda v: lax.scan(lambda c, k: (c * 2, (c * k).sum()), v, jnp.arange(3.0))
        )(v)
        check(carried, row * 8)
        check(sums, [0, 2 * row.sum(), 8 * row.sum()])
        check(
            xpr.jit(lambda v: lax.cond(v.sum() > 0, lambda v: v - v.max(), lambda v: v, v))(v),
            row - 15,
        )

        # the same bits, whatever runs the program
        key = xpr.random.key(3)
        one = np.asarray(xpr.jit(lambda k: xpr.random.normal(k, (8, 4)))(key))
        check(
            xpr.jit(lambda k: xpr.random.normal(k, (8, 4)), out_shardings=named("x"))(key), one
        )

        # arguments from elsewhere
        double = xpr.jit(lambda a: a * 2, in_shardings=named("x"))
        check(double(jnp.arange(8.0)), np.arange(8) * 2)
        with pytest.raises(ValueError, match="non-trivial shardings for numpy inputs"):
            double(np.arange(8, dtype=np.float32))
        check(xpr.jit(lambda a: a * 2, in_shardings=named())(row), row * 2)
        check(xpr.jit(lambda v, k, s: v * k + s)(v, row, 2), row * row + 2)
        table = np.arange(16, dtype=np.float32)
        check(xpr.jit(lambda v: v + table)(v), row * 2)
        with pytest.raises(RuntimeError, match="Closing over xpr.Array that spans non-addressable"):
            xpr.jit(lambda k: k + v)(1.0)

        # donation, stages
        given = spread(row, "x")
        check(xpr.jit(lambda v: v + 1, donate_argnums=0)(given), row + 1)
        assert given.is_deleted()
        lowered = xpr.jit(lambda v: v - v.sum()).lower(v)
        (transfer,) = lowered.communication().transfers
        assert (transfer.kind, transfer.devices) == ("all_reduce", 4)
        compiled = lowered.compile()
        check(compiled(v), row - row.sum())
        assert compiled.output_shardings.is_equivalent_to(named("x"), 1)
        assert compiled.memory_analysis()["argument_size_in_bytes"] > 0
        struct = xpr.ShapeDtypeStruct((16,), np.float32, sharding=named("x"))
        check(xpr.jit(lambda v: v.sum() + v).lower(struct).compile()(v), row.sum() + row)
        with pytest.raises(ValueError, match="input sharding that does not match"):
            compiled(spread(row))

        # from one sharding to another, also over meshes in another order
        assert np.asarray(xpr.device_put(v, named())).tolist() == row.tolist()
        check(xpr.device_put(x, named("y", "x", mesh=grid)), a)
        check(xpr.device_put(v, named(("y", "x"), mesh=grid)), row)
        back = Mesh(np.array(devices[::-1]), ("x",))
        check(xpr.device_put(v, named("x", mesh=back)), row)
        gone = spread(row, "x")
        check(xpr.device_put(gone, named(None), donate=True), row)
        assert gone.is_deleted()
        with pytest.raises(ValueError, match="should have the same set of devices"):
            part = Mesh(np.array([devices[0], devices[-1]]), ("x",))
            xpr.device_put(v, named("x", mesh=part))
        with pytest.raises(ValueError, match="must be a fully addressable array"):
            xpr.device_put(v, xpr.local_devices()[0])

        with xpr.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
            xpr.jit(lambda v: jnp.log(v - 100))(v)
        print("done")
    """
    found = run_processes(processes, HERE + textwrap.dedent(program), devices=each)
    assert found.out == ["done\n"] * processes


@WORLDS
def test_explicit_mode_shard_map_and_pmap(run_processes, processes, each):
    program = """
        a = np.arange(64, dtype=np.float32).reshape(8, 8)
        typed = xpr.make_mesh((2, 2), ("x", "y"))
        assert typed.axis_types == (AxisType.Explicit,) * 2
        with xpr.set_mesh(typed):
            x = xpr.device_put(a, P("x", "y"))
            assert xpr.typeof(x).str_short() == "f32[8@x,8@y]"
            y = xpr.jit(lambda x: jnp.einsum("ij,kj->ik", x, x, out_sharding=P("x")))(x)
            assert xpr.typeof(y).str_short() == "f32[8@x,8]"
            check(y, a @ a.T)
            check(xpr.sharding.reshard(x, P(None, "x")), a)
            assert float(jnp.sum(x)) == a.sum()
            check(xpr.jit(xpr.grad(lambda x: (x * x).sum()))(x), 2 * a)
            check(jnp.zeros((4, 4), out_sharding=P("x")) + 1, np.ones((4, 4)))

        # shard_map, outside and inside of jit
        row = np.arange(16, dtype=np.float32)
        v = spread(row, "x")

        def body(p):
            i = lax.axis_index("x")
            ring = [(j, (j + 1) % 4) for j in range(4)]
            return (
                lax.psum(p, "x"),
                lax.all_gather(p, "x", tiled=True) * (i + 1),
                lax.ppermute(p, "x", ring),
                lax.psum_scatter(p, "x", tiled=True),
                lax.all_to_all(p[None].repeat(4, 0), "x", 0, 0),
                lax.pmax(p.sum(), "x"),
            )

        specs = (P(), P("x"), P("x"), P("x"), P("x"), P())
        parts = row.reshape(4, 4)
        wanted = (
            parts.sum(0),
            np.concatenate([row * i for i in (1, 2, 3, 4)]),
            np.roll(row, 4),
            parts.sum(0),
            np.tile(parts, (4, 1)),
            parts.sum(1).max(),
        )
        mapped = xpr.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=specs)
        for f in (mapped, xpr.jit(mapped)):
            for found, value in zip(f(v), wanted, strict=True):
                check(found, value)

        # devices meet in a loop: some of them in this process, some in others
        def loop(p):
            return lax.fori_loop(0, 5, lambda i, p: lax.ppermute(
                p + lax.pmean(p, "x"), "x", [(j, (j + 1) % 4) for j in range(4)]), p)

        wanted = row
        for _ in range(5):
            wanted = np.roll((wanted.reshape(4, 4) + wanted.reshape(4, 4).mean(0)).ravel(), 4)
        check(
            xpr.jit(xpr.shard_map(loop, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(v),
            wanted,
            rtol=1e-6,
        )
        # along one axis of two, which may lie in a process
        cells = spread(a, "x", "y", mesh=grid)
        both = xpr.shard_map(
            lambda p: (lax.psum(p, "x"), lax.psum(p, "y")),
            mesh=grid,
            in_specs=P("x", "y"),
            out_specs=(P(None, "y"), P("x", None)),
        )
        for f in (both, xpr.jit(both)):
            over_x, over_y = f(cells)
            check(over_x, a[:4] + a[4:])
            check(over_y, a[:, :4] + a[:, 4:])
        cost = xpr.shard_map(
            lambda w, p: lax.psum((w * p).sum(), "x"),
            mesh=mesh, in_specs=(P(), P("x")), out_specs=P(),
        )
        w = np.arange(4, dtype=np.float32)
        check(xpr.jit(xpr.grad(cost))(w, v), parts.sum(0))
        check(xpr.grad(cost, argnums=1)(w, v), np.tile(w, 4))

        # pmap: each process gives and gets its own slices
        n = xpr.local_device_count()
        mine = slice(me * n, me * n + n)
        f = xpr.pmap(lambda p: p / lax.psum(p, "i"), axis_name="i")
        out = f(parts[mine] + 1)
        assert out.shape == (n, 4) and out.is_fully_addressable
        np.testing.assert_allclose(out, (parts + 1)[mine] / (parts + 1).sum(0), rtol=1e-6)
        np.testing.assert_allclose(f(f(parts[mine] + 1)).shape, (n, 4))
        total = xpr.pmap(lambda p, k: lax.psum(p * k, "i"), "i", in_axes=(0, None), out_axes=None)
        np.testing.assert_array_equal(total(parts[mine], 2.0), 2 * parts.sum(0))
        index = xpr.pmap(lambda p: lax.axis_index("i") + p, "i", axis_size=4)
        np.testing.assert_array_equal(index(np.zeros(n, np.int32)), np.arange(4)[mine])
        kept = jnp.asarray(parts[mine])
        xpr.pmap(lambda p: p + 1, donate_argnums=0)(kept)
        assert kept.is_deleted()
        own = xpr.pmap(lambda p: lax.psum(p, "i"), "i", devices=xpr.local_devices())
        np.testing.assert_array_equal(own(parts[mine])[0], parts[mine].sum(0))
        if n > 1:
            with pytest.raises(ValueError, match="gives as many slices as it has of the devices"):
                f(parts[:1])
        with pytest.raises(ValueError, match="axis_size 3 doesn't match the 4 devices"):
            xpr.pmap(lambda p: p, axis_size=3)(parts[mine])
        # in other programs: its own slices, as long as these do not meet
        apart = xpr.pmap(lambda w, p: jnp.sin(w * p), in_axes=(None, 0))
        w = np.float32(0.5)
        np.testing.assert_allclose(
            xpr.jit(lambda p: apart(w, p) + 1)(parts[mine]), np.sin(w * parts[mine]) + 1, rtol=1e-5
        )
        for g in (xpr.grad, lambda f, i: xpr.jit(xpr.grad(f, i))):
            slope, slopes = g(lambda w, p: apart(w, p).sum(), (0, 1))(w, parts[mine])
            cosine = np.cos(w * parts[mine])
            np.testing.assert_allclose(slope, (parts[mine] * cosine).sum(), rtol=1e-4)
            np.testing.assert_allclose(slopes, w * cosine, rtol=1e-4, atol=1e-5)
        inside = xpr.pmap(lambda p: lax.fori_loop(0, 2, lambda i, q: q + lax.psum(q, "i"), p), "i")
        for meets in (f, inside, index):
            with pytest.raises(NotImplementedError, match="cannot be a part of another program"):
                xpr.jit(meets)(np.zeros((n, 4), np.float32))
        with pytest.raises(NotImplementedError, match="computes along its axis 'i'"):
            xpr.grad(lambda p: f(p).sum())(parts[mine])
        assert f.lower(parts[mine]).communication().transfers[0].devices == 4

        # a mesh of this process alone: nobody else has to be there
        if me == 1:
            local = Mesh(np.array(xpr.local_devices()), ("x",))
            check(xpr.jit(lambda v: v - v.sum())(spread(row, "x", mesh=local)), row - row.sum())
            np.testing.assert_array_equal(xpr.jit(lambda v: v - v.sum())(row), row - row.sum())
        # a mesh of some processes: the others have nothing to do
        ends = Mesh(np.array([devices[0], devices[-1]]), ("x",))
        e = xpr.jit(lambda v: v - v.sum())(spread(row, "x", mesh=ends))
        assert e.shape == (16,)
        if me in (0, count - 1):
            check(e, row - row.sum())
        else:
            assert e.addressable_shards == []
            assert repr(e + 1) == "Array(shape=(16,), dtype=float32)"
        print("done")
    """
    found = run_processes(processes, HERE + textwrap.dedent(program), devices=each)
    assert found.out == ["done\n"] * processes


def test_functions_of_this_process_are_called_once(run_processes):
    """By the process of the first device; what it raises the others hear of, and go on."""
    program = """
        row = np.arange(8, dtype=np.float32)
        v = spread(row, "x")
        seen = []

        def doubled(a):
            seen.append(np.array(a))
            return a * 2

        like = xpr.ShapeDtypeStruct((8,), np.float32)
        check(xpr.jit(lambda v: xpr.pure_callback(doubled, like, v) + 1)(v), row * 2 + 1)
        check(xpr.jit(lambda v: xpr.experimental.io_callback(doubled, like, v))(v), row * 2)
        check(
            xpr.jit(lambda v: lax.fori_loop(
                0, 2, lambda i, v: xpr.pure_callback(doubled, like, v) + v.sum(), v))(v),
            (row * 2 + 28) * 2 + 8 * (2 * 28 / 8 + 28),
        )
        assert len(seen) == (4 if me == 0 else 0)
        assert all(a.shape == (8,) for a in seen)

        def noted(v):
            xpr.debug.print("sum {}", v.sum())
            return v

        xpr.block_until_ready(xpr.jit(noted)(v))
        xpr.effects_barrier()

        # of each device in shard_map
        own = []
        part = xpr.ShapeDtypeStruct((2,), np.float32)

        def kept(a):
            own.append(np.array(a))
            return a + 1

        each = xpr.shard_map(
            lambda p: xpr.pure_callback(kept, part, p),
            mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False,
        )
        check(xpr.jit(each)(v), row + 1)
        assert sorted(a[0] for a in own) == [4 * me, 4 * me + 2]

        def refuses(a):
            raise ZeroDivisionError("not today")

        failing = xpr.jit(lambda v: xpr.pure_callback(refuses, like, v) * 2)
        for _ in range(2):
            with pytest.raises(Exception, match="not today"):
                xpr.block_until_ready(failing(v))
        looping = xpr.jit(lambda v: lax.fori_loop(
            0, 2, lambda i, v: xpr.pure_callback(refuses, like, v) + v.sum(), v))
        with pytest.raises(Exception, match="not today"):
            xpr.block_until_ready(looping(v))
        check(xpr.jit(lambda v: v + v.sum())(v), row + 28)
        print("done")
    """
    found = run_processes(2, HERE + textwrap.dedent(program), devices=2)
    assert found.out == ["sum 28.0\ndone\n", "done\n"]
