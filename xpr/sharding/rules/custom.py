"""Functions with rules of their own: the engines go into their programs. Barriers pass through."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register
from xpr.sharding.rules._forms import elementwise, register_all

for _name in (
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vmap_call",
    "linear_call",
    "remat_opt",
    "custom_lin",
):
    register(_name, Structural("the program it calls is partitioned with the rest"))

register_all(("stop_gradient", "name"), elementwise)
