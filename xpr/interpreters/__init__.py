"""Engines that give programs other meanings: forward mode, linearization, transposition, batching.

They read the rules that primitives carry and hold no rule of any primitive themselves. What users
call (`grad`, `vmap`, ...) is in `xpr.transforms`.
"""
