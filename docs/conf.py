"""Settings of the site: `make docs` builds it into `docs/_build/html`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]
# The programs of the pages run on this copy, whichever is installed.
paths = (str(DOCS.parent), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)

from xpr.version import __version__  # noqa: E402  needs the path above

project = "xpr"
author = "the authors of xpr"
copyright = author
version = release = __version__

extensions = ["myst_nb", "sphinx_copybutton", "sphinx_design", "gallery", "reference"]
exclude_patterns = ["_build", "_ext", "**.ipynb_checkpoints"]
source_suffix = {".md": "myst-nb"}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# The same files are read on their own, where an address that ends in .md is a file.
myst_url_schemes = ["http", "https", "mailto"]

# A tutorial is executed when its text has changed; an exception in it fails the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / "executed")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
# A traceback that holds a line with a backtick is no Python: it is shown without colours.
suppress_warnings = ["misc.highlighting_failure"]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "xpr"
html_show_sourcelink = False
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
