"""NumPy's functions for arrays that can be traced, compiled and transformed.

Names, signatures, promotion of dtypes and errors are those of `jax.numpy`.
"""

from __future__ import annotations

import typing

from xpr.core.array import Array
from xpr.core.array import install_surface as _install_surface
from xpr.core.lazy_names import lazy_names as _lazy_names
from xpr.numpy import surface as _surface
from xpr.numpy.namespace_info import ARRAY_API_VERSIONS as _ARRAY_API_VERSIONS
from xpr.numpy.namespace_info import array_namespace_info as _array_namespace_info

ndarray = Array
__array_api_version__ = _ARRAY_API_VERSIONS[-1]
__array_namespace_info__ = _array_namespace_info

_install_surface(_surface)

if typing.TYPE_CHECKING:
    from xpr.numpy import fft as fft
    from xpr.numpy import linalg as linalg
    from xpr.numpy.aliases import acos as acos
    from xpr.numpy.aliases import acosh as acosh
    from xpr.numpy.aliases import amax as amax
    from xpr.numpy.aliases import amin as amin
    from xpr.numpy.aliases import asin as asin
    from xpr.numpy.aliases import asinh as asinh
    from xpr.numpy.aliases import atan as atan
    from xpr.numpy.aliases import atan2 as atan2
    from xpr.numpy.aliases import atanh as atanh
    from xpr.numpy.aliases import bitwise_invert as bitwise_invert
    from xpr.numpy.aliases import bitwise_left_shift as bitwise_left_shift
    from xpr.numpy.aliases import bitwise_right_shift as bitwise_right_shift
    from xpr.numpy.aliases import conj as conj
    from xpr.numpy.aliases import deg2rad as deg2rad
    from xpr.numpy.aliases import invert as invert
    from xpr.numpy.aliases import rad2deg as rad2deg
    from xpr.numpy.bitwise import bitwise_count as bitwise_count
    from xpr.numpy.bitwise import bitwise_not as bitwise_not
    from xpr.numpy.bitwise import gcd as gcd
    from xpr.numpy.bitwise import lcm as lcm
    from xpr.numpy.bitwise import left_shift as left_shift
    from xpr.numpy.bitwise import right_shift as right_shift
    from xpr.numpy.calculus import diff as diff
    from xpr.numpy.calculus import ediff1d as ediff1d
    from xpr.numpy.calculus import gradient as gradient
    from xpr.numpy.calculus import interp as interp
    from xpr.numpy.calculus import trapezoid as trapezoid
    from xpr.numpy.calculus import unwrap as unwrap
    from xpr.numpy.constants import e as e
    from xpr.numpy.constants import euler_gamma as euler_gamma
    from xpr.numpy.constants import inf as inf
    from xpr.numpy.constants import nan as nan
    from xpr.numpy.constants import newaxis as newaxis
    from xpr.numpy.constants import pi as pi
    from xpr.numpy.contractions import einsum as einsum
    from xpr.numpy.contractions import einsum_path as einsum_path
    from xpr.numpy.conversion import astype as astype
    from xpr.numpy.convolution import convolve as convolve
    from xpr.numpy.convolution import correlate as correlate
    from xpr.numpy.covariance import corrcoef as corrcoef
    from xpr.numpy.covariance import cov as cov
    from xpr.numpy.creation import array as array
    from xpr.numpy.creation import asarray as asarray
    from xpr.numpy.creation import copy as copy
    from xpr.numpy.creation import empty as empty
    from xpr.numpy.creation import empty_like as empty_like
    from xpr.numpy.creation import full as full
    from xpr.numpy.creation import full_like as full_like
    from xpr.numpy.creation import ones as ones
    from xpr.numpy.creation import ones_like as ones_like
    from xpr.numpy.creation import zeros as zeros
    from xpr.numpy.creation import zeros_like as zeros_like
    from xpr.numpy.cumulative import cumprod as cumprod
    from xpr.numpy.cumulative import cumsum as cumsum
    from xpr.numpy.cumulative import cumulative_prod as cumulative_prod
    from xpr.numpy.cumulative import cumulative_sum as cumulative_sum
    from xpr.numpy.cumulative import nancumprod as nancumprod
    from xpr.numpy.cumulative import nancumsum as nancumsum
    from xpr.numpy.dtype_api import ComplexWarning as ComplexWarning
    from xpr.numpy.dtype_api import bfloat16 as bfloat16
    from xpr.numpy.dtype_api import bool as bool
    from xpr.numpy.dtype_api import bool_ as bool_
    from xpr.numpy.dtype_api import can_cast as can_cast
    from xpr.numpy.dtype_api import cdouble as cdouble
    from xpr.numpy.dtype_api import character as character
    from xpr.numpy.dtype_api import complex64 as complex64
    from xpr.numpy.dtype_api import complex128 as complex128
    from xpr.numpy.dtype_api import complex_ as complex_
    from xpr.numpy.dtype_api import complexfloating as complexfloating
    from xpr.numpy.dtype_api import csingle as csingle
    from xpr.numpy.dtype_api import double as double
    from xpr.numpy.dtype_api import dtype as dtype
    from xpr.numpy.dtype_api import finfo as finfo
    from xpr.numpy.dtype_api import flexible as flexible
    from xpr.numpy.dtype_api import float4_e2m1fn as float4_e2m1fn
    from xpr.numpy.dtype_api import float6_e2m3fn as float6_e2m3fn
    from xpr.numpy.dtype_api import float6_e3m2fn as float6_e3m2fn
    from xpr.numpy.dtype_api import float8_e3m4 as float8_e3m4
    from xpr.numpy.dtype_api import float8_e4m3 as float8_e4m3
    from xpr.numpy.dtype_api import float8_e4m3b11fnuz as float8_e4m3b11fnuz
    from xpr.numpy.dtype_api import float8_e4m3fn as float8_e4m3fn
    from xpr.numpy.dtype_api import float8_e4m3fnuz as float8_e4m3fnuz
    from xpr.numpy.dtype_api import float8_e5m2 as float8_e5m2
    from xpr.numpy.dtype_api import float8_e5m2fnuz as float8_e5m2fnuz
    from xpr.numpy.dtype_api import float8_e8m0fnu as float8_e8m0fnu
    from xpr.numpy.dtype_api import float16 as float16
    from xpr.numpy.dtype_api import float32 as float32
    from xpr.numpy.dtype_api import float64 as float64
    from xpr.numpy.dtype_api import float_ as float_
    from xpr.numpy.dtype_api import floating as floating
    from xpr.numpy.dtype_api import generic as generic
    from xpr.numpy.dtype_api import iinfo as iinfo
    from xpr.numpy.dtype_api import inexact as inexact
    from xpr.numpy.dtype_api import int1 as int1
    from xpr.numpy.dtype_api import int2 as int2
    from xpr.numpy.dtype_api import int4 as int4
    from xpr.numpy.dtype_api import int8 as int8
    from xpr.numpy.dtype_api import int16 as int16
    from xpr.numpy.dtype_api import int32 as int32
    from xpr.numpy.dtype_api import int64 as int64
    from xpr.numpy.dtype_api import int_ as int_
    from xpr.numpy.dtype_api import integer as integer
    from xpr.numpy.dtype_api import isdtype as isdtype
    from xpr.numpy.dtype_api import issubdtype as issubdtype
    from xpr.numpy.dtype_api import number as number
    from xpr.numpy.dtype_api import object_ as object_
    from xpr.numpy.dtype_api import promote_types as promote_types
    from xpr.numpy.dtype_api import result_type as result_type
    from xpr.numpy.dtype_api import signedinteger as signedinteger
    from xpr.numpy.dtype_api import single as single
    from xpr.numpy.dtype_api import uint as uint
    from xpr.numpy.dtype_api import uint1 as uint1
    from xpr.numpy.dtype_api import uint2 as uint2
    from xpr.numpy.dtype_api import uint4 as uint4
    from xpr.numpy.dtype_api import uint8 as uint8
    from xpr.numpy.dtype_api import uint16 as uint16
    from xpr.numpy.dtype_api import uint32 as uint32
    from xpr.numpy.dtype_api import uint64 as uint64
    from xpr.numpy.dtype_api import unsignedinteger as unsignedinteger
    from xpr.numpy.extraction import compress as compress
    from xpr.numpy.extraction import extract as extract
    from xpr.numpy.extraction import trim_zeros as trim_zeros
    from xpr.numpy.functional import apply_along_axis as apply_along_axis
    from xpr.numpy.functional import apply_over_axes as apply_over_axes
    from xpr.numpy.functional import piecewise as piecewise
    from xpr.numpy.functional import vectorize as vectorize
    from xpr.numpy.grids import c_ as c_
    from xpr.numpy.grids import fromfunction as fromfunction
    from xpr.numpy.grids import index_exp as index_exp
    from xpr.numpy.grids import indices as indices
    from xpr.numpy.grids import ix_ as ix_
    from xpr.numpy.grids import meshgrid as meshgrid
    from xpr.numpy.grids import mgrid as mgrid
    from xpr.numpy.grids import ogrid as ogrid
    from xpr.numpy.grids import r_ as r_
    from xpr.numpy.grids import s_ as s_
    from xpr.numpy.histograms import bincount as bincount
    from xpr.numpy.histograms import histogram as histogram
    from xpr.numpy.histograms import histogram2d as histogram2d
    from xpr.numpy.histograms import histogram_bin_edges as histogram_bin_edges
    from xpr.numpy.histograms import histogramdd as histogramdd
    from xpr.numpy.indexing import take as take
    from xpr.numpy.indexing import take_along_axis as take_along_axis
    from xpr.numpy.insertion import delete as delete
    from xpr.numpy.insertion import fill_diagonal as fill_diagonal
    from xpr.numpy.insertion import insert as insert
    from xpr.numpy.insertion import place as place
    from xpr.numpy.insertion import put as put
    from xpr.numpy.insertion import repeat as repeat
    from xpr.numpy.interchange import array_repr as array_repr
    from xpr.numpy.interchange import array_str as array_str
    from xpr.numpy.interchange import from_dlpack as from_dlpack
    from xpr.numpy.interchange import frombuffer as frombuffer
    from xpr.numpy.interchange import fromfile as fromfile
    from xpr.numpy.interchange import fromiter as fromiter
    from xpr.numpy.interchange import fromstring as fromstring
    from xpr.numpy.interchange import get_printoptions as get_printoptions
    from xpr.numpy.interchange import load as load
    from xpr.numpy.interchange import ndim as ndim
    from xpr.numpy.interchange import printoptions as printoptions
    from xpr.numpy.interchange import save as save
    from xpr.numpy.interchange import savez as savez
    from xpr.numpy.interchange import set_printoptions as set_printoptions
    from xpr.numpy.interchange import shape as shape
    from xpr.numpy.interchange import size as size
    from xpr.numpy.joining import append as append
    from xpr.numpy.joining import array_split as array_split
    from xpr.numpy.joining import block as block
    from xpr.numpy.joining import column_stack as column_stack
    from xpr.numpy.joining import concat as concat
    from xpr.numpy.joining import concatenate as concatenate
    from xpr.numpy.joining import dsplit as dsplit
    from xpr.numpy.joining import dstack as dstack
    from xpr.numpy.joining import hsplit as hsplit
    from xpr.numpy.joining import hstack as hstack
    from xpr.numpy.joining import resize as resize
    from xpr.numpy.joining import split as split
    from xpr.numpy.joining import stack as stack
    from xpr.numpy.joining import tile as tile
    from xpr.numpy.joining import unstack as unstack
    from xpr.numpy.joining import vsplit as vsplit
    from xpr.numpy.joining import vstack as vstack
    from xpr.numpy.logic import allclose as allclose
    from xpr.numpy.logic import array_equal as array_equal
    from xpr.numpy.logic import array_equiv as array_equiv
    from xpr.numpy.logic import equal as equal
    from xpr.numpy.logic import greater as greater
    from xpr.numpy.logic import greater_equal as greater_equal
    from xpr.numpy.logic import isclose as isclose
    from xpr.numpy.logic import iscomplex as iscomplex
    from xpr.numpy.logic import iscomplexobj as iscomplexobj
    from xpr.numpy.logic import isfinite as isfinite
    from xpr.numpy.logic import isinf as isinf
    from xpr.numpy.logic import isnan as isnan
    from xpr.numpy.logic import isneginf as isneginf
    from xpr.numpy.logic import isposinf as isposinf
    from xpr.numpy.logic import isreal as isreal
    from xpr.numpy.logic import isrealobj as isrealobj
    from xpr.numpy.logic import isscalar as isscalar
    from xpr.numpy.logic import iterable as iterable
    from xpr.numpy.logic import less as less
    from xpr.numpy.logic import less_equal as less_equal
    from xpr.numpy.logic import logical_not as logical_not
    from xpr.numpy.logic import not_equal as not_equal
    from xpr.numpy.manipulation import atleast_1d as atleast_1d
    from xpr.numpy.manipulation import atleast_2d as atleast_2d
    from xpr.numpy.manipulation import atleast_3d as atleast_3d
    from xpr.numpy.manipulation import broadcast_arrays as broadcast_arrays
    from xpr.numpy.manipulation import broadcast_shapes as broadcast_shapes
    from xpr.numpy.manipulation import broadcast_to as broadcast_to
    from xpr.numpy.manipulation import expand_dims as expand_dims
    from xpr.numpy.manipulation import flip as flip
    from xpr.numpy.manipulation import fliplr as fliplr
    from xpr.numpy.manipulation import flipud as flipud
    from xpr.numpy.manipulation import matrix_transpose as matrix_transpose
    from xpr.numpy.manipulation import moveaxis as moveaxis
    from xpr.numpy.manipulation import permute_dims as permute_dims
    from xpr.numpy.manipulation import ravel as ravel
    from xpr.numpy.manipulation import reshape as reshape
    from xpr.numpy.manipulation import roll as roll
    from xpr.numpy.manipulation import rollaxis as rollaxis
    from xpr.numpy.manipulation import rot90 as rot90
    from xpr.numpy.manipulation import squeeze as squeeze
    from xpr.numpy.manipulation import swapaxes as swapaxes
    from xpr.numpy.manipulation import transpose as transpose
    from xpr.numpy.nonzeros import argwhere as argwhere
    from xpr.numpy.nonzeros import flatnonzero as flatnonzero
    from xpr.numpy.nonzeros import nonzero as nonzero
    from xpr.numpy.packing import packbits as packbits
    from xpr.numpy.packing import ravel_multi_index as ravel_multi_index
    from xpr.numpy.packing import unpackbits as unpackbits
    from xpr.numpy.packing import unravel_index as unravel_index
    from xpr.numpy.padding import pad as pad
    from xpr.numpy.polynomial_fits import polyfit as polyfit
    from xpr.numpy.polynomial_fits import roots as roots
    from xpr.numpy.polynomials import poly as poly
    from xpr.numpy.polynomials import polyadd as polyadd
    from xpr.numpy.polynomials import polyder as polyder
    from xpr.numpy.polynomials import polydiv as polydiv
    from xpr.numpy.polynomials import polyint as polyint
    from xpr.numpy.polynomials import polymul as polymul
    from xpr.numpy.polynomials import polysub as polysub
    from xpr.numpy.polynomials import polyval as polyval
    from xpr.numpy.products import cross as cross
    from xpr.numpy.products import dot as dot
    from xpr.numpy.products import inner as inner
    from xpr.numpy.products import kron as kron
    from xpr.numpy.products import matmul as matmul
    from xpr.numpy.products import matvec as matvec
    from xpr.numpy.products import outer as outer
    from xpr.numpy.products import tensordot as tensordot
    from xpr.numpy.products import trace as trace
    from xpr.numpy.products import vdot as vdot
    from xpr.numpy.products import vecdot as vecdot
    from xpr.numpy.products import vecmat as vecmat
    from xpr.numpy.quantiles import median as median
    from xpr.numpy.quantiles import nanmedian as nanmedian
    from xpr.numpy.quantiles import nanpercentile as nanpercentile
    from xpr.numpy.quantiles import nanquantile as nanquantile
    from xpr.numpy.quantiles import percentile as percentile
    from xpr.numpy.quantiles import quantile as quantile
    from xpr.numpy.ranges import arange as arange
    from xpr.numpy.reductions import all as all
    from xpr.numpy.reductions import any as any
    from xpr.numpy.reductions import argmax as argmax
    from xpr.numpy.reductions import argmin as argmin
    from xpr.numpy.reductions import count_nonzero as count_nonzero
    from xpr.numpy.reductions import max as max
    from xpr.numpy.reductions import min as min
    from xpr.numpy.reductions import minmax as minmax
    from xpr.numpy.reductions import nanargmax as nanargmax
    from xpr.numpy.reductions import nanargmin as nanargmin
    from xpr.numpy.reductions import nanmax as nanmax
    from xpr.numpy.reductions import nanmin as nanmin
    from xpr.numpy.reductions import nanprod as nanprod
    from xpr.numpy.reductions import nansum as nansum
    from xpr.numpy.reductions import prod as prod
    from xpr.numpy.reductions import ptp as ptp
    from xpr.numpy.reductions import sum as sum
    from xpr.numpy.searching import digitize as digitize
    from xpr.numpy.searching import searchsorted as searchsorted
    from xpr.numpy.selection import choose as choose
    from xpr.numpy.selection import clip as clip
    from xpr.numpy.selection import select as select
    from xpr.numpy.selection import where as where
    from xpr.numpy.setops import intersect1d as intersect1d
    from xpr.numpy.setops import isin as isin
    from xpr.numpy.setops import setdiff1d as setdiff1d
    from xpr.numpy.setops import setxor1d as setxor1d
    from xpr.numpy.setops import union1d as union1d
    from xpr.numpy.sorting import argpartition as argpartition
    from xpr.numpy.sorting import argsort as argsort
    from xpr.numpy.sorting import lexsort as lexsort
    from xpr.numpy.sorting import partition as partition
    from xpr.numpy.sorting import sort as sort
    from xpr.numpy.sorting import sort_complex as sort_complex
    from xpr.numpy.sorting import top_k as top_k
    from xpr.numpy.spacings import geomspace as geomspace
    from xpr.numpy.spacings import linspace as linspace
    from xpr.numpy.spacings import logspace as logspace
    from xpr.numpy.statistics import average as average
    from xpr.numpy.statistics import mean as mean
    from xpr.numpy.statistics import nanmean as nanmean
    from xpr.numpy.statistics import nanstd as nanstd
    from xpr.numpy.statistics import nanvar as nanvar
    from xpr.numpy.statistics import std as std
    from xpr.numpy.statistics import var as var
    from xpr.numpy.triangular import diag as diag
    from xpr.numpy.triangular import diag_indices as diag_indices
    from xpr.numpy.triangular import diag_indices_from as diag_indices_from
    from xpr.numpy.triangular import diagflat as diagflat
    from xpr.numpy.triangular import diagonal as diagonal
    from xpr.numpy.triangular import eye as eye
    from xpr.numpy.triangular import identity as identity
    from xpr.numpy.triangular import mask_indices as mask_indices
    from xpr.numpy.triangular import tri as tri
    from xpr.numpy.triangular import tril as tril
    from xpr.numpy.triangular import tril_indices as tril_indices
    from xpr.numpy.triangular import tril_indices_from as tril_indices_from
    from xpr.numpy.triangular import triu as triu
    from xpr.numpy.triangular import triu_indices as triu_indices
    from xpr.numpy.triangular import triu_indices_from as triu_indices_from
    from xpr.numpy.triangular import vander as vander
    from xpr.numpy.ufunc_api import frompyfunc as frompyfunc
    from xpr.numpy.ufunc_api import ufunc as ufunc
    from xpr.numpy.ufunc_objects import add as add
    from xpr.numpy.ufunc_objects import bitwise_and as bitwise_and
    from xpr.numpy.ufunc_objects import bitwise_or as bitwise_or
    from xpr.numpy.ufunc_objects import bitwise_xor as bitwise_xor
    from xpr.numpy.ufunc_objects import logaddexp as logaddexp
    from xpr.numpy.ufunc_objects import logaddexp2 as logaddexp2
    from xpr.numpy.ufunc_objects import logical_and as logical_and
    from xpr.numpy.ufunc_objects import logical_or as logical_or
    from xpr.numpy.ufunc_objects import logical_xor as logical_xor
    from xpr.numpy.ufunc_objects import maximum as maximum
    from xpr.numpy.ufunc_objects import minimum as minimum
    from xpr.numpy.ufunc_objects import multiply as multiply
    from xpr.numpy.ufunc_objects import negative as negative
    from xpr.numpy.ufunc_objects import subtract as subtract
    from xpr.numpy.ufuncs import abs as abs
    from xpr.numpy.ufuncs import absolute as absolute
    from xpr.numpy.ufuncs import copysign as copysign
    from xpr.numpy.ufuncs import divide as divide
    from xpr.numpy.ufuncs import divmod as divmod
    from xpr.numpy.ufuncs import fabs as fabs
    from xpr.numpy.ufuncs import float_power as float_power
    from xpr.numpy.ufuncs import floor_divide as floor_divide
    from xpr.numpy.ufuncs import fmax as fmax
    from xpr.numpy.ufuncs import fmin as fmin
    from xpr.numpy.ufuncs import fmod as fmod
    from xpr.numpy.ufuncs import heaviside as heaviside
    from xpr.numpy.ufuncs import mod as mod
    from xpr.numpy.ufuncs import positive as positive
    from xpr.numpy.ufuncs import pow as pow
    from xpr.numpy.ufuncs import power as power
    from xpr.numpy.ufuncs import reciprocal as reciprocal
    from xpr.numpy.ufuncs import remainder as remainder
    from xpr.numpy.ufuncs import sign as sign
    from xpr.numpy.ufuncs import signbit as signbit
    from xpr.numpy.ufuncs import square as square
    from xpr.numpy.ufuncs import true_divide as true_divide
    from xpr.numpy.ufuncs_float import angle as angle
    from xpr.numpy.ufuncs_float import around as around
    from xpr.numpy.ufuncs_float import ceil as ceil
    from xpr.numpy.ufuncs_float import conjugate as conjugate
    from xpr.numpy.ufuncs_float import floor as floor
    from xpr.numpy.ufuncs_float import frexp as frexp
    from xpr.numpy.ufuncs_float import imag as imag
    from xpr.numpy.ufuncs_float import ldexp as ldexp
    from xpr.numpy.ufuncs_float import modf as modf
    from xpr.numpy.ufuncs_float import nan_to_num as nan_to_num
    from xpr.numpy.ufuncs_float import nextafter as nextafter
    from xpr.numpy.ufuncs_float import real as real
    from xpr.numpy.ufuncs_float import rint as rint
    from xpr.numpy.ufuncs_float import round as round
    from xpr.numpy.ufuncs_float import spacing as spacing
    from xpr.numpy.ufuncs_float import trunc as trunc
    from xpr.numpy.ufuncs_math import arccos as arccos
    from xpr.numpy.ufuncs_math import arccosh as arccosh
    from xpr.numpy.ufuncs_math import arcsin as arcsin
    from xpr.numpy.ufuncs_math import arcsinh as arcsinh
    from xpr.numpy.ufuncs_math import arctan as arctan
    from xpr.numpy.ufuncs_math import arctan2 as arctan2
    from xpr.numpy.ufuncs_math import arctanh as arctanh
    from xpr.numpy.ufuncs_math import cbrt as cbrt
    from xpr.numpy.ufuncs_math import cos as cos
    from xpr.numpy.ufuncs_math import cosh as cosh
    from xpr.numpy.ufuncs_math import degrees as degrees
    from xpr.numpy.ufuncs_math import exp as exp
    from xpr.numpy.ufuncs_math import exp2 as exp2
    from xpr.numpy.ufuncs_math import expm1 as expm1
    from xpr.numpy.ufuncs_math import hypot as hypot
    from xpr.numpy.ufuncs_math import i0 as i0
    from xpr.numpy.ufuncs_math import log as log
    from xpr.numpy.ufuncs_math import log1p as log1p
    from xpr.numpy.ufuncs_math import log2 as log2
    from xpr.numpy.ufuncs_math import log10 as log10
    from xpr.numpy.ufuncs_math import radians as radians
    from xpr.numpy.ufuncs_math import sin as sin
    from xpr.numpy.ufuncs_math import sinc as sinc
    from xpr.numpy.ufuncs_math import sinh as sinh
    from xpr.numpy.ufuncs_math import sqrt as sqrt
    from xpr.numpy.ufuncs_math import tan as tan
    from xpr.numpy.ufuncs_math import tanh as tanh
    from xpr.numpy.uniques import unique as unique
    from xpr.numpy.uniques import unique_all as unique_all
    from xpr.numpy.uniques import unique_counts as unique_counts
    from xpr.numpy.uniques import unique_inverse as unique_inverse
    from xpr.numpy.uniques import unique_values as unique_values
    from xpr.numpy.updates import put_along_axis as put_along_axis
    from xpr.numpy.windows import bartlett as bartlett
    from xpr.numpy.windows import blackman as blackman
    from xpr.numpy.windows import hamming as hamming
    from xpr.numpy.windows import hanning as hanning
    from xpr.numpy.windows import kaiser as kaiser
else:  # type checkers would take any name for an attribute
    __getattr__, __dir__, __all__ = _lazy_names(
        __name__,
        {
            "xpr.numpy.aliases": (
                "acos acosh amax amin asin asinh atan atan2 atanh bitwise_invert "
                "bitwise_left_shift bitwise_right_shift conj deg2rad invert rad2deg"
            ),
            "xpr.numpy.bitwise": "bitwise_count bitwise_not gcd lcm left_shift right_shift",
            "xpr.numpy.calculus": "diff ediff1d gradient interp trapezoid unwrap",
            "xpr.numpy.constants": "e euler_gamma inf nan newaxis pi",
            "xpr.numpy.contractions": "einsum einsum_path",
            "xpr.numpy.conversion": "astype",
            "xpr.numpy.convolution": "convolve correlate",
            "xpr.numpy.covariance": "corrcoef cov",
            "xpr.numpy.creation": (
                "array asarray copy empty empty_like full full_like ones ones_like zeros zeros_like"
            ),
            "xpr.numpy.cumulative": (
                "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum"
            ),
            "xpr.numpy.dtype_api": (
                "ComplexWarning bfloat16 bool bool_ can_cast cdouble character complex128 "
                "complex64 complex_ complexfloating csingle double dtype finfo flexible float16 "
                "float32 float4_e2m1fn float64 float6_e2m3fn float6_e3m2fn float8_e3m4 "
                "float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
                "float8_e5m2fnuz float8_e8m0fnu float_ floating generic iinfo inexact int1 int16 "
                "int2 int32 int4 int64 int8 int_ integer isdtype issubdtype number object_ "
                "promote_types result_type signedinteger single uint uint1 uint16 uint2 uint32 "
                "uint4 uint64 uint8 unsignedinteger"
            ),
            "xpr.numpy.extraction": "compress extract trim_zeros",
            "xpr.numpy.functional": "apply_along_axis apply_over_axes piecewise vectorize",
            "xpr.numpy.grids": "c_ fromfunction index_exp indices ix_ meshgrid mgrid ogrid r_ s_",
            "xpr.numpy.histograms": (
                "bincount histogram histogram2d histogram_bin_edges histogramdd"
            ),
            "xpr.numpy.indexing": "take take_along_axis",
            "xpr.numpy.insertion": "delete fill_diagonal insert place put repeat",
            "xpr.numpy.interchange": (
                "array_repr array_str from_dlpack frombuffer fromfile fromiter fromstring "
                "get_printoptions load ndim printoptions save savez set_printoptions shape size"
            ),
            "xpr.numpy.joining": (
                "append array_split block column_stack concat concatenate dsplit dstack hsplit "
                "hstack resize split stack tile unstack vsplit vstack"
            ),
            "xpr.numpy.logic": (
                "allclose array_equal array_equiv equal greater greater_equal isclose iscomplex "
                "iscomplexobj isfinite isinf isnan isneginf isposinf isreal isrealobj isscalar "
                "iterable less less_equal logical_not not_equal"
            ),
            "xpr.numpy.manipulation": (
                "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_shapes broadcast_to "
                "expand_dims flip fliplr flipud matrix_transpose moveaxis permute_dims ravel "
                "reshape roll rollaxis rot90 squeeze swapaxes transpose"
            ),
            "xpr.numpy.nonzeros": "argwhere flatnonzero nonzero",
            "xpr.numpy.packing": "packbits ravel_multi_index unpackbits unravel_index",
            "xpr.numpy.padding": "pad",
            "xpr.numpy.polynomial_fits": "polyfit roots",
            "xpr.numpy.polynomials": "poly polyadd polyder polydiv polyint polymul polysub polyval",
            "xpr.numpy.products": (
                "cross dot inner kron matmul matvec outer tensordot trace vdot vecdot vecmat"
            ),
            "xpr.numpy.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
            "xpr.numpy.ranges": "arange",
            "xpr.numpy.spacings": "geomspace linspace logspace",
            "xpr.numpy.reductions": (
                "all any argmax argmin count_nonzero max min minmax nanargmax nanargmin "
                "nanmax nanmin nanprod nansum prod ptp sum"
            ),
            "xpr.numpy.searching": "digitize searchsorted",
            "xpr.numpy.selection": "choose clip select where",
            "xpr.numpy.setops": "intersect1d isin setdiff1d setxor1d union1d",
            "xpr.numpy.sorting": "argpartition argsort lexsort partition sort sort_complex top_k",
            "xpr.numpy.statistics": "average mean nanmean nanstd nanvar std var",
            "xpr.numpy.triangular": (
                "diag diag_indices diag_indices_from diagflat diagonal eye identity mask_indices "
                "tri tril tril_indices tril_indices_from triu triu_indices triu_indices_from "
                "vander"
            ),
            "xpr.numpy.ufunc_api": "frompyfunc ufunc",
            "xpr.numpy.ufunc_objects": (
                "add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and "
                "logical_or logical_xor maximum minimum multiply negative subtract"
            ),
            "xpr.numpy.ufuncs": (
                "abs absolute copysign divide divmod fabs float_power floor_divide fmax fmin "
                "fmod heaviside mod positive pow power reciprocal remainder sign signbit square "
                "true_divide"
            ),
            "xpr.numpy.ufuncs_float": (
                "angle around ceil conjugate floor frexp imag ldexp modf nan_to_num "
                "nextafter real rint round spacing trunc"
            ),
            "xpr.numpy.ufuncs_math": (
                "arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt cos cosh degrees exp "
                "exp2 expm1 hypot i0 log log10 log1p log2 radians sin sinc sinh sqrt tan tanh"
            ),
            "xpr.numpy.uniques": "unique unique_all unique_counts unique_inverse unique_values",
            "xpr.numpy.updates": "put_along_axis",
            "xpr.numpy.windows": "bartlett blackman hamming hanning kaiser",
        },
        ("fft", "linalg"),
    )
