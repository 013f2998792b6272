"""Functions in C and C++ that are written for XLA's foreign function interface.

Handlers are found by name (`targets.py`), and called with frames that lie in memory as XLA's header
`xla/ffi/api/c_api.h` says (`layouts.py`, `frames.py`): version 0.3 of that interface. What handlers
may ask for in turn is in `api.py`. `calls.py` has the calls themselves, `untyped.py` those of the
older kind, without frames.
"""
