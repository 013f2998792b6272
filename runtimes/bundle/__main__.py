"""`python -m xpr.runtimes.bundle model.xpr --input x.npy --output y.npy`."""

from __future__ import annotations

import sys

from xpr.runtimes.bundle.command import main

sys.exit(main())
