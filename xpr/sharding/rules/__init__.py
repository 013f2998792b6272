"""Sharding rules, one file per family of primitives, named as in `xpr/primitives`."""
