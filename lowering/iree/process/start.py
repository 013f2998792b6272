"""What the helper process runs first: the compiler's files, without the rest of xpr.

Importing xpr, with NumPy and all, would take ten times as long as what is needed here. So the
package that these files belong to is a stand-in that says where they lie.
"""

from __future__ import annotations

import sys
import types


def main() -> None:
    """Serves until there is nothing to do."""
    root, *arguments = sys.argv[1:]
    package = types.ModuleType("xpr")
    package.__path__ = [root]
    sys.modules["xpr"] = package
    from xpr.lowering.iree.process import server  # noqa: PLC0415 - the stand-in comes first

    server.serve(*arguments)


if __name__ == "__main__":
    main()
