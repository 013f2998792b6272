"""The functions behind the operators and methods of arrays, loaded when one is first used.

`xpr.core.array` says which there are.
"""

from __future__ import annotations

import typing

from xpr.core.lazy_names import lazy_names

if not typing.TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "xpr.numpy.array_methods": (
                "method_astype method_byteswap method_flatten method_reshape method_transpose "
                "method_view"
            ),
            "xpr.numpy.array_protocol": "contains flat iterate namespace",
            "xpr.numpy.bitwise": (
                "invert=bitwise_not op_and op_lshift op_or op_rand op_rlshift op_ror op_rrshift "
                "op_rshift op_rxor op_xor"
            ),
            "xpr.numpy.creation": "asarray method_copy=copy",
            "xpr.numpy.cumulative": "method_cumprod=cumprod method_cumsum=cumsum",
            "xpr.numpy.extraction": "method_compress",
            "xpr.numpy.indexing": "method_take=take",
            "xpr.numpy.insertion": "method_repeat=repeat",
            "xpr.numpy.items": "getitem",
            "xpr.numpy.logic": "op_eq op_ge op_gt op_le op_lt op_ne",
            "xpr.numpy.manipulation": (
                "matrix_transpose method_ravel=ravel method_squeeze=squeeze "
                "method_swapaxes=swapaxes transpose"
            ),
            "xpr.numpy.nonzeros": "method_nonzero=nonzero",
            "xpr.numpy.products": "method_dot=dot method_trace=trace op_matmul op_rmatmul",
            "xpr.numpy.reductions": (
                "any method_all=all method_any=any method_argmax=argmax method_argmin=argmin "
                "method_max=max method_min=min method_prod=prod method_ptp=ptp method_sum=sum"
            ),
            "xpr.numpy.searching": "method_searchsorted=searchsorted",
            "xpr.numpy.selection": "method_choose=choose method_clip=clip",
            "xpr.numpy.sorting": (
                "method_argpartition=argpartition method_argsort=argsort method_sort=sort"
            ),
            "xpr.numpy.statistics": "method_mean=mean method_std=std method_var=var",
            "xpr.numpy.triangular": "method_diagonal=diagonal",
            "xpr.numpy.ufuncs": (
                "abs negative op_add op_divmod op_floordiv op_mod op_mul op_pow op_radd op_rdivmod "
                "op_rfloordiv op_rmod op_rmul op_rpow op_rsub op_rtruediv op_sub op_truediv "
                "positive"
            ),
            "xpr.numpy.ufuncs_float": (
                "imag method_conj=conjugate method_conjugate=conjugate method_round=round op_round "
                "real"
            ),
            "xpr.numpy.updates": "at",
        },
        export=lambda function: function,  # the methods are the boundary
    )
