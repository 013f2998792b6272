"""Tests of the native part: programs in C++ that run without Python, and what starts them."""
