import diffrax
import jax
import jax.numpy as jnp


def field(t, y, args):
    prey, predator = y
    a, b, c, d = args
    return jnp.array([a * prey - b * prey * predator, c * prey * predator - d * predator])


def solve(args, solver, controller):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        solver,
        t0=0.0,
        t1=5.0,
        dt0=0.1,
        y0=jnp.array([2.0, 1.0]),
        args=args,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 5, 6)),
        stepsize_controller=controller,
    ).ys


args = jnp.array([1.0, 0.5, 0.5, 1.0])
adaptive = diffrax.PIDController(rtol=1e-5, atol=1e-5)
slope = jax.jit(
    jax.grad(lambda a: jnp.sum(solve(a, diffrax.Tsit5(), diffrax.ConstantStepSize()) ** 2))
)
results = [
    jax.jit(lambda a: solve(a, diffrax.Tsit5(), adaptive))(args),
    jax.jit(lambda a: solve(a, diffrax.Kvaerno3(), adaptive))(args),
    slope(args),
]
