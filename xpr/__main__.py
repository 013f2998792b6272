"""`python -m xpr`: the same as the command `xpr`."""

from __future__ import annotations

import sys

from xpr.cli import main

if __name__ == "__main__":
    sys.exit(main())
