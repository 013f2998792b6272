"""Every public function with numpy_rank_promotion="raise" and numpy_dtype_promotion="strict".

What a program turns on to find its own mistakes must find none in the library. The examples of all
public names are run, a table of further calls (batches, options, derivatives), and all calls of
`tests/messages` that JAX accepts with these settings.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
import xpr.scipy.linalg
import xpr.scipy.signal
import xpr.scipy.sparse.linalg
import xpr.scipy.special
import xpr.scipy.stats
from tests.conftest import has_c_compiler
from tests.messages.calls import calls, find, raised
from tests.messages.comparison import GOLDEN, groups
from xpr import lax, nn, random
from xpr.experimental.ode import odeint
from xpr.scipy import fft, integrate
from xpr.scipy.cluster.vq import vq
from xpr.scipy.interpolate import RegularGridInterpolator
from xpr.scipy.ndimage import map_coordinates
from xpr.scipy.optimize import minimize
from xpr.scipy.spatial.transform import Rotation

sys.path.append(str(Path(__file__).parent.parent / "docs" / "_ext"))

from public_names import MODULES, find_entries

ENTRIES = find_entries()

# Examples whose own operands differ in dtype or rank, most of them to show what then happens.
ON_PURPOSE = {
    "xpr.numpy.add", "xpr.numpy.concatenate", "xpr.numpy.logical_and", "xpr.numpy.logical_or",
    "xpr.numpy.logical_xor", "xpr.numpy.multiply", "xpr.numpy.promote_types", "xpr.numpy.stack",
    "xpr.numpy.subtract", "xpr.numpy.vectorize", "xpr.dtypes.result_type",
}  # fmt: skip


# The function of another name, or a rule that programs call, or one that is in the table below.
CALLED_OTHERWISE = re.compile(
    r"Array\.(argpartition|choose|compress|copy_to_host_async|item|nonzero|reshape|searchsorted)"
    r"|Array\.transpose|checkpoint_policies\.|custom_jvp\.defjvps|ops\.segment_"
    r"|scipy\.stats\.(gaussian_kde|multinomial|poisson)\."
)


@contextlib.contextmanager
def strict() -> Iterator[None]:
    with xpr.numpy_rank_promotion("raise"), xpr.numpy_dtype_promotion("strict"):
        yield


# What can be done only once in a process, which the docstrings' own tests do.
ONCE = (
    "xpr.export.register_namedtuple_serialization",
    "xpr.export.register_pytree_node_serialization",
)


def run_example(entry: Any) -> None:
    """Runs the example of a public name; what it prints is tested elsewhere."""
    module = inspect.getmodule(entry.value)
    names = dict(vars(module)) if module else {}
    test = doctest.DocTestParser().get_doctest(entry.docstring, names, entry.path, None, 0)
    for example in test.examples:
        raises = pytest.raises(Exception) if example.exc_msg else contextlib.nullcontext()  # noqa: PT011
        with raises, contextlib.redirect_stdout(io.StringIO()):
            exec(compile(example.source, entry.path, "single"), test.globs)


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    if module == "xpr.experimental.kernel" and not has_c_compiler():
        pytest.skip("its examples need a C compiler")
    problems = []
    for entry in ENTRIES[module]:
        if not callable(entry.value) or ">>>" not in entry.docstring or entry.path in ONCE:
            continue
        try:
            with strict():
                run_example(entry)
        except (TypeError, ValueError) as error:
            if "romotion" not in str(error):
                raise
            problems.append((entry.path, str(error)))
    assert [p for p in problems if p[0] not in ON_PURPOSE] == []
    expected = {n for n in ON_PURPOSE if any(e.path == n for e in ENTRIES[module])}
    assert {p[0] for p in problems} == expected


RNG = np.random.default_rng(0)


def A(*shape: int) -> xpr.Array:
    """Random numbers."""
    return jnp.asarray(RNG.standard_normal(shape).astype(np.float32))


S = A(2, 3, 3)

NAMES = {
    "A": A,
    "S": S,
    "P": S @ jnp.swapaxes(S, -1, -2) + jnp.eye(3)[None],
    "x": A(2, 8),
    "q": A(2, 4, 2, 3),
    "k": random.key(0),
    "two": jnp.array([2, 3]),
    "LBFGS": "l-bfgs-experimental-do-not-rely-on-this",
    "dots": xpr.checkpoint_policies.dots_saveable,
    "xpr": xpr,
    "jnp": jnp,
    "lax": lax,
    "nn": nn,
    "init": nn.initializers,
    "random": random,
    "fft": fft,
    "integrate": integrate,
    "sl": xpr.scipy.linalg,
    "ss": xpr.scipy.signal,
    "sp": xpr.scipy.special,
    "st": xpr.scipy.stats,
    "sparse_linalg": xpr.scipy.sparse.linalg,
    "odeint": odeint,
    "vq": vq,
    "minimize": minimize,
    "map_coordinates": map_coordinates,
    "RegularGridInterpolator": RegularGridInterpolator,
    "Rotation": Rotation,
}

CALLS = """
jnp.linalg.det(S)
jnp.linalg.slogdet(S)
jnp.linalg.inv(S)
jnp.linalg.pinv(S)
jnp.linalg.pinv(S, rtol=jnp.array([1e-3, 1e-2]))
jnp.linalg.matrix_rank(S)
jnp.linalg.matrix_rank(S, rtol=jnp.array([0.1, 0.2]))
jnp.linalg.cond(S)
jnp.linalg.norm(S, ord=2, axis=(1, 2))
jnp.linalg.matrix_power(S, 3)
jnp.linalg.solve(S, A(2, 3, 1))
jnp.linalg.solve(S, A(3))
jnp.linalg.lstsq(A(4, 3), A(4))
jnp.linalg.eigh(P)
jnp.linalg.eig(S[0])
jnp.linalg.svd(S)
jnp.linalg.qr(S)
sl.cho_solve(sl.cho_factor(P), A(2, 3, 1))
sl.lu(S)
sl.expm(S)
sl.expm_frechet(S[0], S[1])
sl.sqrtm(P[0])
sl.polar(S[0])
sl.funm(P[0], jnp.log)
sl.block_diag(S[0], S[1])
sl.toeplitz(jnp.arange(3.0))
xpr.grad(lambda s: jnp.linalg.slogdet(s)[1].sum())(S)
xpr.grad(lambda s: jnp.linalg.det(s).sum())(S)
xpr.grad(lambda s: jnp.linalg.svd(s)[1].sum())(S)
xpr.grad(lambda s: jnp.linalg.eigh(s)[1].sum())(P)
xpr.grad(lambda s: jnp.linalg.cholesky(s).sum())(P)
xpr.grad(lambda s: jnp.linalg.qr(s)[1].sum())(S)
xpr.grad(lambda s: jnp.linalg.solve(s, A(2, 3, 1)).sum())(S)
xpr.grad(lambda s: sl.expm(s).sum())(S)
jnp.polyfit(A(5), A(5, 2), 2, w=jnp.ones(5), cov=False)
jnp.polyfit(A(9), A(9), 2, cov=True)
jnp.polyval(A(3), x)
jnp.roots(A(4))
jnp.convolve(A(5), A(3))
jnp.interp(A(3), jnp.arange(4.0), A(4))
jnp.percentile(x, jnp.array([10.0, 50.0]), axis=1)
jnp.quantile(x, 0.3)
jnp.median(x, axis=0)
jnp.histogram(A(20), bins=5)
jnp.histogram2d(A(20), A(20))
jnp.histogramdd(A(20, 2))
jnp.cov(x)
jnp.corrcoef(x)
jnp.cov(x, aweights=jnp.ones(8), fweights=jnp.ones(8, int))
jnp.average(x, axis=1, weights=jnp.ones(8))
jnp.var(x, axis=1)
jnp.nanvar(x, axis=1)
jnp.nanmedian(x, axis=1)
jnp.cross(A(2, 3), A(2, 3))
jnp.trapezoid(x, jnp.arange(8.0))
jnp.gradient(x, 1.0, axis=1)
jnp.digitize(A(3), jnp.arange(3.0))
jnp.searchsorted(jnp.arange(3.0), A(2))
jnp.unwrap(x)
jnp.piecewise(A(3), [jnp.array([True, False, True])], [lambda v: v, 0.0])
jnp.select([x > 0], [x], 0)
jnp.isin(jnp.arange(3), jnp.array([1]))
jnp.unique(jnp.array([[1, 2], [1, 2]]), axis=0, return_inverse=True)
jnp.einsum("ij,kj->ik", x, x)
jnp.tensordot(x, x, ((1,), (1,)))
jnp.kron(A(2, 2), A(2))
x[jnp.ix_(jnp.array([0, 1]), jnp.array([0, 3]))]
x[:, jnp.array([0, 2])]
x.at[0].add(1.0)
x.at[jnp.array([0, 1]), jnp.array([1, 2])].multiply(2.0)
jnp.place(x, x > 0, jnp.array([1.0]), inplace=False)
jnp.fill_diagonal(S[0], 1.0, inplace=False)
jnp.nan_to_num(x)
jnp.clip(x, -1, 1)
jnp.ldexp(x, jnp.full(x.shape, 2))
jnp.lexsort((A(3), A(3)))
jnp.cumulative_sum(x, axis=1, include_initial=True)
jnp.meshgrid(jnp.arange(2.0), jnp.arange(3.0))
jnp.vander(A(3), 3)
jnp.apply_along_axis(jnp.sum, 0, x)
jnp.apply_over_axes(jnp.sum, x, (0,))
jnp.tril(S)
jnp.pad(x, 1, mode="linear_ramp")
jnp.packbits(jnp.ones((2, 9), bool))
jnp.insert(x, 1, 0.0, axis=1)
jnp.delete(x, 1, axis=1)
jnp.choose(jnp.array([0, 1]), [jnp.arange(2), jnp.arange(2)])
jnp.fft.rfft(x)
jnp.fft.irfftn(jnp.fft.rfftn(x))
xpr.grad(lambda v: jnp.abs(jnp.fft.rfft(v)).sum())(x)
fft.dctn(x, norm="ortho")
fft.idct(x, norm="ortho")
random.multivariate_normal(k, jnp.zeros(3), P[0], (4,))
random.multivariate_normal(k, jnp.zeros((2, 3)), P)
random.categorical(k, x, axis=1, shape=(5, 2))
random.gamma(k, jnp.ones(3), (2, 3))
random.beta(k, 1.0, 2.0, (3,))
random.dirichlet(k, jnp.ones(3), (2,))
random.poisson(k, 3.0, (4,))
random.binomial(k, 5, 0.5, (3,))
random.multinomial(k, 5, jnp.array([0.2, 0.8]))
random.choice(k, 5, (3,), p=jnp.ones(5) / 5)
random.permutation(k, x, axis=1, independent=True)
random.truncated_normal(k, -1.0, 1.0, (3,))
random.orthogonal(k, 3, (2,))
random.ball(k, 3, shape=(2,))
random.randint(k, (3,), 0, 5)
random.wald(k, 1.0, (3,))
random.geometric(k, 0.5, (3,))
random.triangular(k, 0.0, 0.5, 1.0, (3,))
random.lognormal(k)
random.t(k, 3.0, (2,))
random.f(k, 2.0, 3.0, (2,))
random.chisquare(k, 3.0, (2,))
random.generalized_normal(k, 1.5, (2,))
random.pareto(k, 2.0, (2,))
random.weibull_min(k, 1.0, 2.0, (2,))
xpr.grad(lambda a: random.gamma(k, a).sum())(jnp.ones(2))
nn.dot_product_attention(q, q, q, is_causal=True, mask=jnp.ones((2, 1, 4, 4), bool))
nn.dot_product_attention(q, q, q, bias=A(1, 2, 4, 4), is_causal=True)
nn.dot_product_attention(q, q, q, query_seq_lengths=two, key_value_seq_lengths=two)
nn.dot_product_attention(q, q, q, local_window_size=1)
nn.standardize(x, axis=-1)
nn.one_hot(jnp.arange(3), 4)
nn.logsumexp(x, axis=1)
nn.softmax(x, axis=0, where=x > 0)
nn.log_softmax(x)
nn.glu(x)
nn.gelu(x)
nn.sparse_plus(x)
nn.selu(x)
nn.celu(x)
init.glorot_normal()(k, (3, 4))
init.he_uniform()(k, (3, 4))
init.orthogonal()(k, (3, 4))
init.lecun_normal()(k, (3, 4))
init.variance_scaling(1.0, "fan_avg", "truncated_normal")(k, (3, 4))
init.truncated_normal()(k, (3, 4))
init.constant(2.0)(k, (3, 4))
init.delta_orthogonal()(k, (3, 3, 2, 4))
ss.csd(x, x, nperseg=4)
ss.welch(x, nperseg=4, average="median")
ss.istft(ss.stft(x, nperseg=4)[2], nperseg=4)
ss.detrend(x)
ss.convolve2d(S[0], S[1])
ss.fftconvolve(x, x)
ss.correlate(A(4), A(3))
st.multivariate_normal.pdf(A(4, 3), jnp.zeros(3), P[0])
st.multivariate_normal.logpdf(A(2, 3), jnp.zeros(3), P)
st.gaussian_kde(A(2, 20), weights=jnp.ones(20))(A(2, 4))
st.dirichlet.logpdf(jnp.array([0.2, 0.3, 0.5]), jnp.ones(3))
st.mode(jnp.arange(4))
st.rankdata(x, axis=1)
st.sem(x, axis=1)
st.vonmises.logpdf(x, 1.0)
st.beta.logpdf(jnp.full(3, 0.5), 1.0, 2.0)
st.multinomial.logpmf(jnp.array([1, 2]), 3, jnp.array([0.5, 0.5]))
sp.bessel_jn(A(3), v=2)
sp.sph_harm_y(jnp.array([1]), jnp.array([2]), A(1), A(1), n_max=2)
sp.zeta(jnp.full(3, 2.0), 1.0)
sp.betainc(1.0, 2.0, jnp.full(3, 0.5))
sp.polygamma(1, jnp.full(3, 2.0))
sp.hyp1f1(1.0, 2.0, A(3))
sp.factorial(jnp.arange(3.0))
sp.rel_entr(jnp.ones(3), jnp.ones(3))
sp.multigammaln(jnp.full(3, 4.0), 2)
sp.spence(jnp.ones(3))
sp.expn(2, jnp.ones(3))
sp.xlogy(x, jnp.abs(x))
sp.bernoulli(4)
sp.log_ndtr(x)
sp.ndtri(jnp.full(3, 0.3))
xpr.grad(lambda v: sp.gammaln(v).sum())(jnp.ones(3))
xpr.grad(lambda v: sp.gammainc(v, jnp.ones(3)).sum())(jnp.ones(3))
xpr.image.resize(S, (2, 5, 5), "bicubic")
xpr.image.scale_and_translate(S[0], (4, 4), (0, 1), jnp.ones(2), jnp.zeros(2), "linear")
map_coordinates(S[0], [A(2), A(2)], 1)
sparse_linalg.cg(lambda v: P[0] @ v, jnp.ones(3))
sparse_linalg.gmres(lambda v: P[0] @ v, jnp.ones(3))
sparse_linalg.bicgstab(lambda v: P[0] @ v, jnp.ones(3))
minimize(lambda v: ((v - 1) ** 2).sum(), jnp.zeros(3), method=LBFGS)
vq(x, A(3, 8))
RegularGridInterpolator((jnp.arange(3.0), jnp.arange(3.0)), S[0])(A(4, 2))
integrate.trapezoid(x)
Rotation.from_euler("xyz", A(4, 3)).apply(A(4, 3))
Rotation.from_rotvec(A(4, 3)).as_matrix()
(Rotation.from_rotvec(A(4, 3)) * Rotation.from_rotvec(A(4, 3))).mean()
lax.associative_scan(jnp.add, x)
lax.top_k(x, 2)
lax.linalg.tridiagonal_solve(jnp.ones(3), jnp.full(3, 4.0), jnp.ones(3), jnp.ones((3, 1)))
lax.conv_general_dilated(A(1, 2, 5, 5), A(3, 2, 3, 3), (1, 1), "SAME")
odeint(lambda y, t: -y, jnp.ones(3), jnp.arange(3.0), rtol=1e-4, atol=1e-4)
xpr.hessian(lambda v: (v**3).sum())(jnp.ones(3))
lax.approx_max_k(x, 2)
lax.cumlogsumexp(x, axis=1)
xpr.ops.segment_sum(A(4, 2), jnp.array([0, 0, 1, 1]), 2)
xpr.ops.segment_max(A(4, 2), jnp.array([0, 0, 1, 1]))
xpr.ops.segment_min(A(4, 2), jnp.array([0, 0, 1, 1]), 2)
xpr.ops.segment_prod(A(4, 2), jnp.array([0, 0, 1, 1]), 2)
x.argpartition(2, axis=1)
jnp.array([0, 1]).choose([jnp.arange(2), jnp.arange(2)])
x.compress(jnp.array([True, False]), axis=0)
x.nonzero()
x.reshape(4, 4).transpose(1, 0)
jnp.arange(4.0).searchsorted(jnp.ones(2))
st.gaussian_kde(A(2, 20)).evaluate(A(2, 4))
st.gaussian_kde(A(2, 20)).logpdf(A(2, 4))
st.gaussian_kde(A(2, 20)).integrate_gaussian(jnp.zeros(2), jnp.eye(2))
st.gaussian_kde(A(20)).integrate_box_1d(-1.0, 1.0)
st.gaussian_kde(A(20)).integrate_kde(st.gaussian_kde(A(10)))
st.gaussian_kde(A(2, 20)).resample(k, (3,))
st.multinomial.pmf(jnp.array([1, 2]), 3, jnp.array([0.5, 0.5]))
st.poisson.entropy(jnp.array([0.5, 20.0, 300.0]))
xpr.grad(xpr.checkpoint(lambda v: jnp.sin(v @ v.T).sum(), policy=dots))(x)
nn.dot_product_attention(q.astype("float16"), q.astype("float16"), q.astype("float16"))
jnp.linspace(0, 1, 3, dtype="float16")
jnp.linspace(jnp.float32(0), jnp.float32(1), 3, dtype="float16")
jnp.linspace(jnp.int32(0), jnp.int32(1), 3, dtype="bfloat16")
jnp.geomspace(jnp.float32(1), jnp.float32(2), 3, dtype="float16")
lax.dot(x.astype("float16"), x.astype("float16").T, preferred_element_type="float32")
jnp.dot(x.astype("int8"), x.astype("int8").T, preferred_element_type="int32")
jnp.einsum("ij,ij->i", x.astype("bfloat16"), x.astype("bfloat16"), preferred_element_type="float32")
xpr.grad(lambda v: jnp.dot(v, v, preferred_element_type="float32"))(jnp.ones(3, "float16"))
xpr.grad(lambda v: jnp.var(v, dtype="float32"))(jnp.ones(3, "float16"))
jnp.unpackbits(jnp.ones((2, 2), "uint8"), axis=1)
"""

REDUCTIONS = "sum prod mean std var nansum nanprod nanmean nanstd nanvar cumsum cumprod".split()
REDUCED = "float16 bfloat16 float32 int8 int32 uint8 bool complex64".split()


@pytest.mark.parametrize("start", range(8))
def test_further_calls(start: int) -> None:
    """Every eighth line of the table."""
    for line in CALLS.split("\n")[1 + start : -1 : 8]:
        with strict():
            found = eval(line, dict(NAMES))
        xpr.block_until_ready(found)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_with_a_dtype_of_their_own(name: str) -> None:
    """All pairs of dtypes that are computed without the setting, with the same results."""
    function = getattr(jnp, name)
    for own in REDUCED:
        for wanted in REDUCED:
            if own == "complex64" != wanted or wanted == "bool":
                continue  # some warn, some are refused
            x = (A(2, 4) * 3).astype(own)
            expected = function(x, axis=1, dtype=wanted)
            with strict():
                found = function(x, axis=1, dtype=wanted)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


# ---- every public function, with the calls that JAX accepts under both settings

GROUPS = groups()


@pytest.mark.parametrize("group", GROUPS)
def test_calls_that_jax_accepts(group: str) -> None:
    """One kind of operands for all arguments: vectors, matrices, integers, truth values, ..."""
    key = random.key(0)
    refused = []
    for name in GROUPS[group]:
        accepted = GOLDEN["strict"].get(name, "").split()
        if not accepted:
            continue
        function = find(xpr, name)
        count, named = GOLDEN["functions"][name]
        for label, args, kwargs in calls(name, count, named, key):
            if label in accepted:
                with strict():
                    found = raised(xpr, function, args, kwargs)
                if found is not None and "romotion" in found[1]:
                    refused.append((name, label, found[1][:200]))
    assert refused == []


def test_every_function_is_called() -> None:
    """Each has an example, a line in the table, or a call that JAX accepts."""
    examples = {
        e.path.removeprefix("xpr.") for m in MODULES for e in ENTRIES[m] if ">>>" in e.docstring
    }
    called = examples | {n for n, labels in GOLDEN["strict"].items() if labels}
    rest = [n for n in GOLDEN["functions"] if n not in called]
    assert [n for n in rest if not CALLED_OTHERWISE.match(n)] == []
