"""Tests of the runtimes, which need no tracing and no lowering."""
