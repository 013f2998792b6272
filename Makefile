# `make help` lists the targets. Each uses $(PYTHON); `make venv` makes one with all that is needed.
PYTHON ?= .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help venv native tidy test fast doctest lint types format check example bench docs linkcheck site wheel release clean gpu-kit

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  \1\t/' | expand -t 16

venv:  ## make .venv and install xpr with what the tests need
	python3 -m venv .venv
	.venv/bin/python -m pip install -e '.[test]'

native:  ## build the native part anew, after a change of its sources
	cmake --preset release -DPython_EXECUTABLE=$(abspath $(PYTHON))
	cmake --build --preset release

tidy:  ## look through the sources of the native part with clang-format and clang-tidy
	XPR_LONG_TESTS=1 $(PYTHON) -m pytest tests/native/test_style.py

test:  ## run every test, on all cores
	$(PYTHON) -m pytest -n auto

fast:  ## run the tests that failed last time, or all of them until one fails
	$(PYTHON) -m pytest -x --last-failed

doctest:  ## run only the examples in docstrings
	$(PYTHON) -m pytest xpr

lint:  ## check style and formatting
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:  ## check types
	$(PYTHON) -m pyright --pythonpath $(PYTHON)

format:  ## mend style and formatting where it can be done by a program
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

check: lint types test  ## everything that CI checks

example:  ## run the example of the README
	$(PYTHON) examples/train_digits.py

bench:  ## compare with NumPy, and with JAX where it is installed
	$(PYTHON) -m benchmarks

gpu-kit:  ## make gpu-kit/, the folder for a machine with a GPU (docs/gpu_kit.md)
	$(PYTHON) -m benchmarks.gpu.kit gpu-kit

docs:  ## build the site into docs/_build/html; a warning is an error
	$(PYTHON) -m sphinx -W --keep-going -b html docs docs/_build/html

linkcheck:  ## try the links from the site's pages to other servers, which takes the network
	$(PYTHON) -m sphinx -b linkcheck docs docs/_build/linkcheck

site:  ## build the site and look at it with a browser, if there is Chromium
	$(MAKE) docs PYTHON=$(PYTHON)
	$(PYTHON) -m pytest -q tests/site

wheel:  ## build a wheel in dist/
	$(PYTHON) -m pip wheel --no-deps --wheel-dir dist .

release:  ## build sdist and wheels in dist/, and try them with every Python found
	$(PYTHON) build_backend/release.py

clean:  ## remove what builds and tests left behind
	rm -rf build dist docs/_build docs/gallery docs/reference docs/sources xpr.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
