import jax
import jax.numpy as jnp
import jax.random as jr
import lineax as lx

matrix = jr.normal(jr.PRNGKey(0), (5, 5)) + 5 * jnp.eye(5)
vector = jr.normal(jr.PRNGKey(1), (5,))
operator = lx.MatrixLinearOperator(matrix)
results = [
    lx.linear_solve(operator, vector).value,
    lx.linear_solve(operator, vector, lx.GMRES(rtol=1e-6, atol=1e-6)).value,
    lx.linear_solve(
        lx.MatrixLinearOperator(matrix @ matrix.T, lx.positive_semidefinite_tag),
        vector,
        lx.CG(rtol=1e-6, atol=1e-6),
    ).value,
    lx.linear_solve(lx.MatrixLinearOperator(matrix[:, :3]), vector, lx.QR()).value,
    jax.jit(
        jax.grad(lambda m: jnp.sum(lx.linear_solve(lx.MatrixLinearOperator(m), vector).value ** 2))
    )(matrix),
    lx.linear_solve(lx.TridiagonalLinearOperator(vector + 5, vector[1:], vector[:4]), vector).value,
]
