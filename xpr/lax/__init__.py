"""The operations that programs are made of, under JAX's names: no promotion, no broadcasting.

Operands of a function have one dtype and fitting shapes, unless it says otherwise; `xpr.numpy` has
the functions that convert and broadcast.

>>> from xpr import lax
>>> import xpr.numpy as jnp
>>> lax.add(jnp.arange(3), 1)
Array([1, 2, 3], dtype=int32)
"""

from __future__ import annotations

import importlib
import typing

from xpr.core.lazy_names import lazy_names as _lazy_names

if typing.TYPE_CHECKING:
    from xpr.dtypes import dtype as dtype
    from xpr.lax import linalg as linalg
    from xpr.lax.communication import pbroadcast as pbroadcast
    from xpr.lax.communication import precv as precv
    from xpr.lax.communication import psend as psend
    from xpr.lax.communication import ragged_all_to_all as ragged_all_to_all
    from xpr.lax.conditionals import cond as cond
    from xpr.lax.conditionals import platform_dependent as platform_dependent
    from xpr.lax.conditionals import switch as switch
    from xpr.lax.generators import RandomAlgorithm as RandomAlgorithm
    from xpr.lax.generators import rng_bit_generator as rng_bit_generator
    from xpr.lax.generators import rng_uniform as rng_uniform
    from xpr.lax.implicit import custom_linear_solve as custom_linear_solve
    from xpr.lax.implicit import custom_root as custom_root
    from xpr.lax.loops import associative_scan as associative_scan
    from xpr.lax.loops import fori_loop as fori_loop
    from xpr.lax.loops import map as map
    from xpr.lax.loops import scan as scan
    from xpr.lax.loops import while_loop as while_loop
    from xpr.lax.marks import after_all as after_all
    from xpr.lax.marks import composite as composite
    from xpr.lax.marks import create_token as create_token
    from xpr.lax.marks import stage as stage
    from xpr.lax.patches import conv_general_dilated_local as conv_general_dilated_local
    from xpr.lax.patches import conv_general_dilated_patches as conv_general_dilated_patches
    from xpr.lax.polynomials import log2 as log2
    from xpr.lax.polynomials import one_minus_square as one_minus_square
    from xpr.lax.polynomials import polynomial as polynomial
    from xpr.lax.ragged import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
    from xpr.lax.ragged import ragged_dot as ragged_dot
    from xpr.lax.ragged import ragged_dot_general as ragged_dot_general
    from xpr.lax.scaled import scaled_dot as scaled_dot
    from xpr.primitives._conv_dims import (
        ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
    )
    from xpr.primitives._precision import PrecisionLike as PrecisionLike
    from xpr.primitives._tolerance import Tolerance as Tolerance
    from xpr.primitives.collectives import all_gather as all_gather
    from xpr.primitives.collectives import all_to_all as all_to_all
    from xpr.primitives.collectives import axis_index as axis_index
    from xpr.primitives.collectives import axis_size as axis_size
    from xpr.primitives.collectives import pcast as pcast
    from xpr.primitives.collectives import pmax as pmax
    from xpr.primitives.collectives import pmean as pmean
    from xpr.primitives.collectives import pmin as pmin
    from xpr.primitives.collectives import ppermute as ppermute
    from xpr.primitives.collectives import pshuffle as pshuffle
    from xpr.primitives.collectives import psum as psum
    from xpr.primitives.collectives import psum_scatter as psum_scatter
    from xpr.primitives.collectives import pswapaxes as pswapaxes
    from xpr.primitives.compare import clamp as clamp
    from xpr.primitives.compare import eq as eq
    from xpr.primitives.compare import ge as ge
    from xpr.primitives.compare import gt as gt
    from xpr.primitives.compare import is_finite as is_finite
    from xpr.primitives.compare import le as le
    from xpr.primitives.compare import lt as lt
    from xpr.primitives.compare import ne as ne
    from xpr.primitives.compare import select as select
    from xpr.primitives.compare import select_n as select_n
    from xpr.primitives.conv import ConvDimensionNumbers as ConvDimensionNumbers
    from xpr.primitives.conv import conv as conv
    from xpr.primitives.conv import conv_dimension_numbers as conv_dimension_numbers
    from xpr.primitives.conv import conv_general_dilated as conv_general_dilated
    from xpr.primitives.conv import conv_general_permutations as conv_general_permutations
    from xpr.primitives.conv import conv_general_shape_tuple as conv_general_shape_tuple
    from xpr.primitives.conv import conv_shape_tuple as conv_shape_tuple
    from xpr.primitives.conv import conv_transpose as conv_transpose
    from xpr.primitives.conv import conv_transpose_shape_tuple as conv_transpose_shape_tuple
    from xpr.primitives.conv import conv_with_general_padding as conv_with_general_padding
    from xpr.primitives.convert import bitcast_convert_type as bitcast_convert_type
    from xpr.primitives.convert import convert_element_type as convert_element_type
    from xpr.primitives.convert import optimization_barrier as optimization_barrier
    from xpr.primitives.convert import reduce_precision as reduce_precision
    from xpr.primitives.creation import broadcasted_iota as broadcasted_iota
    from xpr.primitives.creation import empty as empty
    from xpr.primitives.creation import full as full
    from xpr.primitives.creation import full_like as full_like
    from xpr.primitives.creation import iota as iota
    from xpr.primitives.cumulative import cumlogsumexp as cumlogsumexp
    from xpr.primitives.cumulative import cummax as cummax
    from xpr.primitives.cumulative import cummin as cummin
    from xpr.primitives.cumulative import cumprod as cumprod
    from xpr.primitives.cumulative import cumsum as cumsum
    from xpr.primitives.custom import stop_gradient as stop_gradient
    from xpr.primitives.dot_general import DotAlgorithm as DotAlgorithm
    from xpr.primitives.dot_general import DotAlgorithmPreset as DotAlgorithmPreset
    from xpr.primitives.dot_general import DotDimensionNumbers as DotDimensionNumbers
    from xpr.primitives.dot_general import Precision as Precision
    from xpr.primitives.dot_general import batch_matmul as batch_matmul
    from xpr.primitives.dot_general import dot as dot
    from xpr.primitives.dot_general import dot_general as dot_general
    from xpr.primitives.elementary import AccuracyMode as AccuracyMode
    from xpr.primitives.elementary import acos as acos
    from xpr.primitives.elementary import acosh as acosh
    from xpr.primitives.elementary import asin as asin
    from xpr.primitives.elementary import asinh as asinh
    from xpr.primitives.elementary import atan as atan
    from xpr.primitives.elementary import atan2 as atan2
    from xpr.primitives.elementary import atanh as atanh
    from xpr.primitives.elementary import cos as cos
    from xpr.primitives.elementary import cosh as cosh
    from xpr.primitives.elementary import exp as exp
    from xpr.primitives.elementary import exp2 as exp2
    from xpr.primitives.elementary import expm1 as expm1
    from xpr.primitives.elementary import log as log
    from xpr.primitives.elementary import log1p as log1p
    from xpr.primitives.elementary import logistic as logistic
    from xpr.primitives.elementary import sin as sin
    from xpr.primitives.elementary import sinh as sinh
    from xpr.primitives.elementary import tan as tan
    from xpr.primitives.elementary import tanh as tanh
    from xpr.primitives.elementwise import RoundingMethod as RoundingMethod
    from xpr.primitives.elementwise import abs as abs
    from xpr.primitives.elementwise import add as add
    from xpr.primitives.elementwise import ceil as ceil
    from xpr.primitives.elementwise import complex as complex
    from xpr.primitives.elementwise import conj as conj
    from xpr.primitives.elementwise import div as div
    from xpr.primitives.elementwise import floor as floor
    from xpr.primitives.elementwise import imag as imag
    from xpr.primitives.elementwise import max as max
    from xpr.primitives.elementwise import min as min
    from xpr.primitives.elementwise import mul as mul
    from xpr.primitives.elementwise import neg as neg
    from xpr.primitives.elementwise import nextafter as nextafter
    from xpr.primitives.elementwise import real as real
    from xpr.primitives.elementwise import rem as rem
    from xpr.primitives.elementwise import round as round
    from xpr.primitives.elementwise import sign as sign
    from xpr.primitives.elementwise import sub as sub
    from xpr.primitives.fft import FftType as FftType
    from xpr.primitives.fft import fft as fft
    from xpr.primitives.gather import GatherDimensionNumbers as GatherDimensionNumbers
    from xpr.primitives.gather import GatherScatterMode as GatherScatterMode
    from xpr.primitives.gather import gather as gather
    from xpr.primitives.gather import index_take as index_take
    from xpr.primitives.integer import bitwise_and as bitwise_and
    from xpr.primitives.integer import bitwise_not as bitwise_not
    from xpr.primitives.integer import bitwise_or as bitwise_or
    from xpr.primitives.integer import bitwise_xor as bitwise_xor
    from xpr.primitives.integer import clz as clz
    from xpr.primitives.integer import mulhi as mulhi
    from xpr.primitives.integer import population_count as population_count
    from xpr.primitives.integer import shift_left as shift_left
    from xpr.primitives.integer import shift_right_arithmetic as shift_right_arithmetic
    from xpr.primitives.integer import shift_right_logical as shift_right_logical
    from xpr.primitives.joining import concatenate as concatenate
    from xpr.primitives.joining import split as split
    from xpr.primitives.joining import stack as stack
    from xpr.primitives.joining import tile as tile
    from xpr.primitives.joining import unstack as unstack
    from xpr.primitives.power import cbrt as cbrt
    from xpr.primitives.power import integer_pow as integer_pow
    from xpr.primitives.power import pow as pow
    from xpr.primitives.power import reciprocal as reciprocal
    from xpr.primitives.power import rsqrt as rsqrt
    from xpr.primitives.power import sqrt as sqrt
    from xpr.primitives.power import square as square
    from xpr.primitives.reduce import argmax as argmax
    from xpr.primitives.reduce import argmin as argmin
    from xpr.primitives.reduce import reduce as reduce
    from xpr.primitives.reduce import reduce_and as reduce_and
    from xpr.primitives.reduce import reduce_max as reduce_max
    from xpr.primitives.reduce import reduce_min as reduce_min
    from xpr.primitives.reduce import reduce_or as reduce_or
    from xpr.primitives.reduce import reduce_prod as reduce_prod
    from xpr.primitives.reduce import reduce_sum as reduce_sum
    from xpr.primitives.reduce import reduce_xor as reduce_xor
    from xpr.primitives.scatter import ScatterDimensionNumbers as ScatterDimensionNumbers
    from xpr.primitives.scatter import scatter as scatter
    from xpr.primitives.scatter import scatter_add as scatter_add
    from xpr.primitives.scatter import scatter_apply as scatter_apply
    from xpr.primitives.scatter import scatter_max as scatter_max
    from xpr.primitives.scatter import scatter_min as scatter_min
    from xpr.primitives.scatter import scatter_mul as scatter_mul
    from xpr.primitives.scatter import scatter_sub as scatter_sub
    from xpr.primitives.shape import broadcast as broadcast
    from xpr.primitives.shape import broadcast_in_dim as broadcast_in_dim
    from xpr.primitives.shape import broadcast_like as broadcast_like
    from xpr.primitives.shape import broadcast_shapes as broadcast_shapes
    from xpr.primitives.shape import broadcast_to_rank as broadcast_to_rank
    from xpr.primitives.shape import collapse as collapse
    from xpr.primitives.shape import expand_dims as expand_dims
    from xpr.primitives.shape import pad as pad
    from xpr.primitives.shape import reshape as reshape
    from xpr.primitives.shape import rev as rev
    from xpr.primitives.shape import squeeze as squeeze
    from xpr.primitives.shape import transpose as transpose
    from xpr.primitives.slicing import dynamic_index_in_dim as dynamic_index_in_dim
    from xpr.primitives.slicing import dynamic_slice as dynamic_slice
    from xpr.primitives.slicing import dynamic_slice_in_dim as dynamic_slice_in_dim
    from xpr.primitives.slicing import dynamic_update_index_in_dim as dynamic_update_index_in_dim
    from xpr.primitives.slicing import dynamic_update_slice as dynamic_update_slice
    from xpr.primitives.slicing import dynamic_update_slice_in_dim as dynamic_update_slice_in_dim
    from xpr.primitives.slicing import index_in_dim as index_in_dim
    from xpr.primitives.slicing import slice as slice
    from xpr.primitives.slicing import slice_in_dim as slice_in_dim
    from xpr.primitives.sort import approx_max_k as approx_max_k
    from xpr.primitives.sort import approx_min_k as approx_min_k
    from xpr.primitives.sort import sort as sort
    from xpr.primitives.sort import sort_key_val as sort_key_val
    from xpr.primitives.sort import top_k as top_k
    from xpr.primitives.special import bessel_i0e as bessel_i0e
    from xpr.primitives.special import bessel_i1e as bessel_i1e
    from xpr.primitives.special import betainc as betainc
    from xpr.primitives.special import digamma as digamma
    from xpr.primitives.special import erf as erf
    from xpr.primitives.special import erf_inv as erf_inv
    from xpr.primitives.special import erfc as erfc
    from xpr.primitives.special import igamma as igamma
    from xpr.primitives.special import igamma_grad_a as igamma_grad_a
    from xpr.primitives.special import igammac as igammac
    from xpr.primitives.special import lgamma as lgamma
    from xpr.primitives.special import polygamma as polygamma
    from xpr.primitives.special import random_gamma_grad as random_gamma_grad
    from xpr.primitives.special import zeta as zeta
    from xpr.primitives.window import padtype_to_pads as padtype_to_pads
    from xpr.primitives.window import reduce_window as reduce_window
    from xpr.primitives.window import reduce_window_shape_tuple as reduce_window_shape_tuple
    from xpr.transforms.constraints import with_sharding_constraint as with_sharding_constraint
else:  # type checkers would take any name for an attribute
    _lazy_name, __dir__, __all__ = _lazy_names(
        __name__,
        {
            "xpr.dtypes": "dtype",
            "xpr.lax.communication": "pbroadcast precv psend ragged_all_to_all",
            "xpr.lax.conditionals": "cond platform_dependent switch",
            "xpr.lax.generators": "RandomAlgorithm rng_bit_generator rng_uniform",
            "xpr.lax.implicit": "custom_linear_solve custom_root",
            "xpr.lax.loops": "associative_scan fori_loop map scan while_loop",
            "xpr.lax.marks": "after_all composite create_token stage",
            "xpr.lax.patches": "conv_general_dilated_local conv_general_dilated_patches",
            "xpr.lax.polynomials": "log2 one_minus_square polynomial",
            "xpr.lax.ragged": "RaggedDotDimensionNumbers ragged_dot ragged_dot_general",
            "xpr.lax.scaled": "scaled_dot",
            "xpr.primitives._conv_dims": "ConvGeneralDilatedDimensionNumbers",
            "xpr.primitives._precision": "PrecisionLike",
            "xpr.primitives._tolerance": "Tolerance",
            "xpr.primitives.collectives": (
                "all_gather all_to_all axis_index axis_size pcast pmax pmean pmin ppermute "
                "pshuffle psum psum_scatter pswapaxes"
            ),
            "xpr.primitives.compare": "clamp eq ge gt is_finite le lt ne select select_n",
            "xpr.primitives.conv": (
                "ConvDimensionNumbers conv conv_dimension_numbers conv_general_dilated "
                "conv_general_permutations conv_general_shape_tuple conv_shape_tuple "
                "conv_transpose conv_transpose_shape_tuple conv_with_general_padding"
            ),
            "xpr.primitives.convert": (
                "bitcast_convert_type convert_element_type optimization_barrier reduce_precision"
            ),
            "xpr.primitives.creation": "broadcasted_iota empty full full_like iota",
            "xpr.primitives.cumulative": "cumlogsumexp cummax cummin cumprod cumsum",
            "xpr.primitives.custom": "stop_gradient",
            "xpr.primitives.dot_general": (
                "DotAlgorithm DotAlgorithmPreset DotDimensionNumbers Precision batch_matmul dot "
                "dot_general"
            ),
            "xpr.primitives.elementary": (
                "AccuracyMode acos acosh asin asinh atan atan2 atanh cos cosh exp exp2 "
                "expm1 log log1p logistic sin sinh tan tanh"
            ),
            "xpr.primitives.elementwise": (
                "RoundingMethod abs add ceil complex conj div floor imag max min mul neg "
                "nextafter real rem round sign sub"
            ),
            "xpr.primitives.fft": "FftType fft",
            "xpr.primitives.gather": "GatherDimensionNumbers GatherScatterMode gather index_take",
            "xpr.primitives.integer": (
                "bitwise_and bitwise_not bitwise_or bitwise_xor clz mulhi population_count "
                "shift_left shift_right_arithmetic shift_right_logical"
            ),
            "xpr.primitives.joining": "concatenate split stack tile unstack",
            "xpr.primitives.power": "cbrt integer_pow pow reciprocal rsqrt sqrt square",
            "xpr.primitives.reduce": (
                "argmax argmin reduce reduce_and reduce_max reduce_min reduce_or reduce_prod "
                "reduce_sum reduce_xor"
            ),
            "xpr.primitives.scatter": (
                "ScatterDimensionNumbers scatter scatter_add scatter_apply scatter_max "
                "scatter_min scatter_mul scatter_sub"
            ),
            "xpr.primitives.shape": (
                "broadcast broadcast_in_dim broadcast_like broadcast_shapes broadcast_to_rank "
                "collapse expand_dims pad reshape rev squeeze transpose"
            ),
            "xpr.primitives.slicing": (
                "dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim "
                "dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim "
                "index_in_dim slice slice_in_dim"
            ),
            "xpr.primitives.sort": "approx_max_k approx_min_k sort sort_key_val top_k",
            "xpr.primitives.special": (
                "bessel_i0e bessel_i1e betainc digamma erf erf_inv erfc igamma igamma_grad_a "
                "igammac lgamma polygamma random_gamma_grad zeta"
            ),
            "xpr.primitives.window": "padtype_to_pads reduce_window reduce_window_shape_tuple",
            "xpr.transforms.constraints": "with_sharding_constraint",
        },
        ("linalg",),
    )

    def __getattr__(name: str) -> object:
        if name.endswith("_p"):
            return importlib.import_module("xpr.primitives._jax_names").primitive_of(name)
        return _lazy_name(name)
