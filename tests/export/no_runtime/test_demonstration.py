"""The page that recognises drawn digits trains its network in a browser."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "browser" / "digits.py"
CHROMIUM = shutil.which("chromium")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the page with")
def test_the_page_trains_in_a_browser(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the images of digits come with scikit-learn")
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "page"], capture_output=True, text=True, check=True
    )
    assert re.search(r"page: \d+ kB", done.stdout)
    handler = functools.partial(_Quiet, directory=str(tmp_path / "page"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        shown = subprocess.run(
            [
                *(CHROMIUM or "", "--headless", "--no-sandbox", "--disable-gpu"),
                *(f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000"),
                *("--dump-dom", f"http://127.0.0.1:{server.server_port}/"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout
    finally:
        server.shutdown()
        server.server_close()
    found = re.search(r"step (\d+): loss ([\d.]+), ([\d.]+) % of the images held out", shown)
    assert found is not None, shown[-2000:]
    assert int(found[1]) >= 10
    assert float(found[2]) < 2.3, "no better than a guess among ten classes"
    assert float(found[3]) > 20
