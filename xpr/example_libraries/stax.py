"""Layers of neural networks as pairs of functions, as in `jax.example_libraries.stax`.

A layer is a pair `(init_fun, apply_fun)`: `init_fun(key, input_shape)` gives the shape of its
results and its parameters, `apply_fun(params, inputs, rng=None)` its results. `serial` and
`parallel` put layers together. They are examples: flax and equinox, which run on xpr, have more.

>>> import xpr
>>> from xpr.example_libraries import stax
>>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(2), stax.LogSoftmax)
>>> shape, params = init(xpr.random.key(0), (-1, 3))
>>> shape
(-1, 2)
>>> apply(params, xpr.numpy.ones((5, 3))).shape
(5, 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import xpr.numpy as jnp
from xpr import lax, nn, random
from xpr.nn.initializers import glorot_normal, normal, ones, zeros

__all__ = [
    "glorot",
    "randn",
    "AvgPool",
    "BatchNorm",
    "Conv",
    "Conv1DTranspose",
    "ConvTranspose",
    "Dense",
    "Dropout",
    "Elu",
    "Exp",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gelu",
    "GeneralConv",
    "GeneralConvTranspose",
    "Identity",
    "LeakyRelu",
    "LogSoftmax",
    "MaxPool",
    "Relu",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "SumPool",
    "Tanh",
    "elementwise",
    "parallel",
    "serial",
    "shape_dependent",
]

glorot = glorot_normal
randn = normal

Layer = tuple[Callable[..., Any], Callable[..., Any]]
_Shape = tuple[int, ...]

_GLOROT = glorot_normal()
_NORMAL = normal()
_SMALL = normal(1e-6)


def _without_params(shape: Callable[[Any], Any], apply: Callable[..., Any]) -> Layer:
    """A layer that has nothing to learn."""

    def init_fun(rng: Any, input_shape: Any) -> tuple[Any, tuple[()]]:
        del rng
        return shape(input_shape), ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        del params
        return apply(inputs, **kwargs)

    return init_fun, apply_fun


def _same(x: Any, **_: Any) -> Any:
    return x


# ---- layers with parameters


def Dense(out_dim: int, W_init: Any = _GLOROT, b_init: Any = _NORMAL) -> Layer:
    """`x @ W + b` along the last axis.

    >>> import xpr
    >>> init, apply = Dense(2)
    >>> shape, params = init(xpr.random.key(0), (-1, 3))
    >>> apply(params, xpr.numpy.ones((5, 3))).shape
    (5, 2)
    """

    def init_fun(rng: Any, input_shape: _Shape) -> Any:
        weights_key, bias_key = random.split(rng)
        weights = W_init(weights_key, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (weights, b_init(bias_key, (out_dim,)))

    def apply_fun(params: Any, inputs: Any, **_: Any) -> Any:
        weights, bias = params
        out = jnp.dot(inputs, weights)
        return out + bias.reshape((1,) * (out.ndim - 1) + bias.shape)

    return init_fun, apply_fun


def _kernel_layer(
    specs: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    inits: tuple[Any, Any],
    shape_of: Callable[..., Any],
    apply: Callable[..., Any],
) -> Layer:
    """A layer whose kernel has the axes `specs[1]`; `shape_of` and `apply` say what it computes."""
    inputs_spec, kernel_spec, out_spec = specs
    weights_init = inits[0] or glorot_normal(kernel_spec.index("I"), kernel_spec.index("O"))

    def init_fun(rng: Any, input_shape: _Shape) -> Any:
        sizes = iter(filter_shape)
        known = {"O": out_chan, "I": input_shape[inputs_spec.index("C")]}
        kernel_shape = tuple(known[c] if c in known else next(sizes) for c in kernel_spec)
        bias_shape = tuple(out_chan if c == "C" else 1 for c in out_spec)
        # Any number of examples, -1, stays that.
        batch = input_shape[inputs_spec.index("N")]
        one = tuple(1 if c == "N" else n for c, n in zip(inputs_spec, input_shape, strict=True))
        found = shape_of(one, kernel_shape)
        shape = tuple(batch if c == "N" else int(n) for c, n in zip(out_spec, found, strict=True))
        weights_key, bias_key = random.split(rng)
        params = (weights_init(weights_key, kernel_shape), inits[1](bias_key, bias_shape))
        return shape, params

    def apply_fun(params: Any, inputs: Any, **_: Any) -> Any:
        weights, bias = params
        return apply(inputs, weights) + bias

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:
    """A convolution and a bias; axes are named as in `lax.conv_general_dilated`.

    >>> import xpr
    >>> layer = GeneralConv(("NCH", "OIH", "NCH"), 4, (3,))
    >>> layer[0](xpr.random.key(0), (-1, 2, 8))[0]
    (-1, 4, 6)
    """
    steps = tuple(strides or (1,) * len(filter_shape))
    dims = tuple(dimension_numbers)
    return _kernel_layer(
        dims,
        out_chan,
        filter_shape,
        (W_init, b_init),
        lambda x, w: lax.conv_general_shape_tuple(x, w, steps, padding, dims),
        lambda x, w: lax.conv_general_dilated(x, w, steps, padding, dimension_numbers=dims),
    )


def GeneralConvTranspose(
    dimension_numbers: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:
    """A transposed convolution and a bias; axes are named as in `lax.conv_transpose`.

    >>> import xpr
    >>> layer = GeneralConvTranspose(("NHC", "HIO", "NHC"), 4, (3,), (2,))
    >>> layer[0](xpr.random.key(0), (-1, 5, 2))[0]
    (-1, 11, 4)
    """
    steps = tuple(strides or (1,) * len(filter_shape))
    dims = tuple(dimension_numbers)
    return _kernel_layer(
        dims,
        out_chan,
        filter_shape,
        (W_init, b_init),
        lambda x, w: lax.conv_transpose_shape_tuple(x, w, steps, padding, dims),
        lambda x, w: lax.conv_transpose(x, w, steps, padding, dimension_numbers=dims),
    )


def Conv(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:
    """A convolution of images [N, H, W, C], and a bias.

    >>> Conv(8, (3, 3))[0](random.key(0), (-1, 6, 6, 3))[0]
    (-1, 4, 4, 8)
    """
    return GeneralConv(
        ("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding, W_init, b_init
    )


def Conv1DTranspose(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:
    """A transposed convolution of rows [N, H, C], and a bias.

    >>> Conv1DTranspose(8, (3,))[0](random.key(0), (-1, 6, 3))[0]
    (-1, 8, 8)
    """
    return GeneralConvTranspose(
        ("NHC", "HIO", "NHC"), out_chan, filter_shape, strides, padding, W_init, b_init
    )


def ConvTranspose(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:
    """A transposed convolution of images [N, H, W, C], and a bias.

    >>> ConvTranspose(8, (3, 3))[0](random.key(0), (-1, 6, 6, 3))[0]
    (-1, 8, 8, 8)
    """
    return GeneralConvTranspose(
        ("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding, W_init, b_init
    )


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Mean 0 and variance 1 along `axis`, then times `gamma` and plus `beta`, if these are there.

    S. Ioffe and C. Szegedy, "Batch normalization", ICML 2015.

    >>> init, apply = BatchNorm(axis=0)
    >>> _, params = init(random.key(0), (2, 1))
    >>> apply(params, jnp.array([[1.0], [3.0]])).round(3).tolist()
    [[-1.0], [1.0]]
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Any, input_shape: _Shape) -> Any:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        beta_key, gamma_key = random.split(rng)
        beta = beta_init(beta_key, shape) if center else ()
        return input_shape, (beta, gamma_init(gamma_key, shape) if scale else ())

    def apply_fun(params: Any, x: Any, **_: Any) -> Any:
        beta, gamma = params
        where = tuple(None if i in axes else slice(None) for i in range(jnp.ndim(x)))
        z = nn.standardize(x, axes, epsilon=epsilon)
        z = gamma[where] * z if scale else z
        return z + beta[where] if center else z

    return init_fun, apply_fun


# ---- layers without parameters


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """`fun(x, **fun_kwargs)`, which keeps the shape.

    >>> elementwise(jnp.square)[1]((), jnp.array([3.0]))
    Array([9.], dtype=float32)
    """
    return _without_params(_same, lambda x, **_: fun(x, **fun_kwargs))


Tanh = elementwise(jnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity: Layer = _without_params(_same, _same)
Flatten: Layer = _without_params(
    lambda shape: (shape[0], math.prod(shape[1:])),
    lambda x, **_: jnp.reshape(x, (x.shape[0], math.prod(x.shape[1:]))),
)


def _pooling(
    reducer: Any,
    start: float,
    mean: bool,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    spec: str | None = None,
) -> Layer:
    """Windows of the spatial axes are reduced; `spec` names the axes, NHWC unless it is given."""
    window, steps = tuple(window_shape), tuple(strides or (1,) * len(window_shape))
    others = (0, len(window) + 1) if spec is None else (spec.index("N"), spec.index("C"))
    for i in sorted(others):
        window, steps = (*window[:i], 1, *window[i:]), (*steps[:i], 1, *steps[i:])

    def reduced(x: Any) -> Any:
        return lax.reduce_window(x, start, reducer, window, steps, padding)

    def shape(input_shape: _Shape) -> _Shape:
        known = tuple(1 if n == -1 else n for n in input_shape)
        none = (1,) * len(window)
        pads = lax.padtype_to_pads(known, window, steps, padding)
        found = lax.reduce_window_shape_tuple(known, window, steps, pads, none, none)
        return tuple(-1 if n == -1 else int(f) for n, f in zip(input_shape, found, strict=True))

    def apply(x: Any, **_: Any) -> Any:
        out = reduced(x)
        if not mean:
            return out
        # At the borders windows have fewer elements.
        one = jnp.ones([1 if i in others else n for i, n in enumerate(x.shape)], x.dtype)
        return out / reduced(one)

    return _without_params(shape, apply)


def MaxPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    spec: str | None = None,
) -> Layer:
    """The largest element of each window.

    `spec` names the axes, such as "NCHW"; without it they are those of the examples, of the
    windows, and of the channels.

    >>> import xpr.numpy as jnp
    >>> MaxPool((2,))[1]((), jnp.array([[[1.0], [3.0], [2.0]]])).tolist()
    [[[3.0], [3.0]]]
    """
    return _pooling(lax.max, -math.inf, False, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    spec: str | None = None,
) -> Layer:
    """The sum of each window.

    `spec` names the axes, such as "NCHW"; without it they are those of the examples, of the
    windows, and of the channels.

    >>> import xpr.numpy as jnp
    >>> SumPool((2,))[1]((), jnp.array([[[1.0], [3.0], [2.0]]])).tolist()
    [[[4.0], [5.0]]]
    """
    return _pooling(lax.add, 0.0, False, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    spec: str | None = None,
) -> Layer:
    """The mean of each window.

    `spec` names the axes, such as "NCHW"; without it they are those of the examples, of the
    windows, and of the channels.

    >>> import xpr.numpy as jnp
    >>> AvgPool((2,))[1]((), jnp.array([[[1.0], [3.0], [2.0]]])).tolist()
    [[[2.0], [2.5]]]
    """
    return _pooling(lax.add, 0.0, True, window_shape, strides, padding, spec)


def FanOut(num: int) -> Layer:
    """The input, `num` times.

    >>> FanOut(2)[1]((), 1.0)
    [1.0, 1.0]
    """
    return _without_params(lambda shape: [shape] * num, lambda x, **_: [x] * num)


FanInSum: Layer = _without_params(lambda shapes: shapes[0], lambda xs, **_: sum(xs))


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs, joined along `axis`.

    >>> FanInConcat()[1]((), [jnp.ones(1), jnp.zeros(2)])
    Array([1., 0., 0.], dtype=float32)
    """

    def shape(shapes: Sequence[_Shape]) -> _Shape:
        place = axis % len(shapes[0])
        joined = sum(s[place] for s in shapes)
        return (*shapes[0][:place], joined, *shapes[0][place + 1 :])

    return _without_params(shape, lambda xs, **_: jnp.concatenate(xs, axis))


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keeps each element with the probability `rate`, divided by it, when `mode` is "train".

    The layer is applied with a key, `rng=`, in every mode: ValueError without.

    >>> Dropout(0.5, mode="test")[1]((), jnp.ones(2), rng=random.key(0))
    Array([1., 1.], dtype=float32)
    """

    def apply(x: Any, rng: Any = None, **_: Any) -> Any:
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument. That is, "
                "instead of `apply_fun(params, inputs)`, call it like `apply_fun(params, inputs, "
                "rng)` where `rng` is a PRNG key (e.g. from `xpr.random.key`)."
            )
        if mode != "train":
            return x
        return jnp.where(random.bernoulli(rng, rate, x.shape), x / rate, 0)

    return _without_params(_same, apply)


# ---- layers of layers


def _keys(rng: Any, count: int) -> Any:
    return (None,) * count if rng is None else random.split(rng, count)


def serial(*layers: Layer) -> Layer:
    """One layer after the other: `params` is the list of theirs.

    >>> init, apply = serial(Dense(4), Relu, Dense(2))
    >>> shape, params = init(random.key(0), (-1, 3))
    >>> shape, len(params)
    ((-1, 2), 3)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        params = []
        for init, _ in layers:
            rng, own = random.split(rng)
            input_shape, found = init(own, input_shape)
            params.append(found)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, rng: Any = None, **kwargs: Any) -> Any:
        keys = _keys(rng, len(layers))
        for (_, apply), own, key in zip(layers, params, keys, strict=True):
            inputs = apply(own, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Each layer on an input of its own, as `FanOut` gives them; the results are a list.

    >>> init, apply = serial(FanOut(2), parallel(Exp, Identity), FanInSum)
    >>> _, params = init(random.key(0), (-1, 1))
    >>> apply(params, jnp.zeros(1))
    Array([1.], dtype=float32)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        pairs = zip(layers, random.split(rng, len(layers)), input_shape, strict=True)
        found = [init(key, shape) for (init, _), key, shape in pairs]
        return tuple(shape for shape, _ in found), tuple(params for _, params in found)

    def apply_fun(params: Any, inputs: Any, rng: Any = None, **kwargs: Any) -> list[Any]:
        given = zip(layers, params, inputs, _keys(rng, len(layers)), strict=True)
        return [apply(own, x, rng=key, **kwargs) for (_, apply), own, x, key in given]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """The layer that `make_layer(input_shape)` makes when the shape is known.

    >>> init, apply = shape_dependent(lambda shape: Dense(2 * shape[-1]))
    >>> init(random.key(0), (-1, 3))[0]
    (-1, 6)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
