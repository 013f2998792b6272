"""Runtimes: the devices that programs run on, their buffers and their executables.

A runtime takes compiled programs and buffers, and knows nothing of jaxprs. See `base` for what
one offers, `registry` for how it is found, `cpu` for the one that every machine has.
"""
