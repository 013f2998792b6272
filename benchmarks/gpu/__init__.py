"""What runs on a GPU that can be had for minutes: checks and timings, prepared beforehand.

`make gpu-kit` makes one folder of it, with compiled programs, for a machine without network and
without the compiler: docs/gpu_kit.md.
"""
