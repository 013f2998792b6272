"""Tests of the site that `make docs` has built."""
