"""Linear solves by functions: the engines go into them."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

register("custom_linear_solve", Structural("its functions are partitioned with the rest"))
