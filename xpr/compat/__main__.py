"""`python -m xpr.compat script.py | -m module | -c code [arguments]`: runs it with JAX's name."""

from __future__ import annotations

import sys

from xpr.compat.running import main

sys.exit(main(sys.argv[1:]))
