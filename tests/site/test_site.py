"""The built site: its links lead somewhere, and a browser shows its pages, wide and narrow.

`make docs` comes first; without it, and without Chromium, there is nothing to look at.
"""

from __future__ import annotations

import functools
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = (
    "index", "start/first_program", "start/from_jax", "tutorials/derivatives",
    "tutorials/simulating_waves", "howto/errors/index", "howto/speed", "reference/xpr.numpy",
    "benchmarks", "hazards", "layout", "support_table", "gallery/index", "gallery/mandelbrot",
)  # fmt: skip
WIDTHS = (1280, 390)
PATIENCE = 30.0

# The right edges that stick out: of the page, and of tables that cannot be scrolled.
OVERFLOWING = """
const scrolls = e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
const found = [];
if (document.documentElement.scrollWidth > window.innerWidth + 1)
  found.push("page: " + document.documentElement.scrollWidth);
for (const table of document.querySelectorAll("main table")) {
  let box = table;
  while (box && !scrolls(box)) box = box.parentElement;
  if (!box && table.getBoundingClientRect().right > window.innerWidth + 1)
    found.push("table: " + table.innerText.slice(0, 60));
}
return found;
"""

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="the site is not built: `make docs` builds it"
)


class _Links(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def test_links_lead_to_files_and_anchors() -> None:
    # The theme's own files are templates, not pages.
    files = [page for page in SITE.rglob("*.html") if "_static" not in page.parts]
    pages = {page: _Links(page) for page in files}
    assert len(pages) > 100
    broken: list[str] = []
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.is_file():
                broken.append(f"{page.relative_to(SITE)}: {link}")
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].anchors:
                    broken.append(f"{page.relative_to(SITE)}: {link}")
    assert broken == []


def test_pages_load_nothing_from_elsewhere() -> None:
    """Readers' browsers ask no other server: scripts, styles, fonts and pictures are the site's."""
    tags = r"<(?:script|img|iframe|link)\b"
    outside = re.compile(tags + r"""[^>]*?\b(?:src|href)=["'](?:https?:)?//""")
    imported = re.compile(r"""url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//""")
    for page in SITE.rglob("*.html"):
        assert outside.search(page.read_text(encoding="utf-8")) is None, page
    sheets = list(SITE.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert imported.search(sheet.read_text(encoding="utf-8")) is None, sheet


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no Chromium with its driver to open pages with")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_page_load_timeout(PATIENCE)
    yield opened
    opened.quit()


def _wait(browser: Any, condition: Callable[[Any], list[Any]]) -> list[Any]:
    """What `condition` gives as soon as that is not empty; TimeoutException after a while."""
    waiting = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    return waiting(browser, PATIENCE).until(condition)


def _resize(browser: Any, width: int) -> None:
    # A window of a real desktop cannot be as narrow as a telephone; the emulated screen can.
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_and_have_no_errors(browser: Any, address: str, page: str) -> None:
    for width in WIDTHS:
        _resize(browser, width)
        browser.get(f"{address}/{page}.html")
        assert _wait(browser, lambda b: b.find_elements("css selector", "main h1"))[0].text
        assert browser.execute_script(OVERFLOWING) == [], width
    assert [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []


def test_the_search_finds_vmap(browser: Any, address: str) -> None:
    _resize(browser, WIDTHS[0])
    browser.get(f"{address}/search.html?q=vmap")

    def results(opened: Any) -> list[str]:
        links = opened.find_elements("css selector", "#search-results li a")
        return [link.get_attribute("href") for link in links]

    found = _wait(browser, results)
    assert any("vmap" in link for link in found)
    assert [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []


def test_pages_are_dark_where_the_reader_wants_it(browser: Any, address: str) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(f"{address}/index.html")
        color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(int(c) for c in color.split("(")[1].rstrip(")").split(",")[:3])
    assert brightness["dark"] < 200 < 500 < brightness["light"]
