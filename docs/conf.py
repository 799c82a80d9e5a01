"""Configures Sphinx for the site in two languages; the tag `zh` selects Chinese. See build.py."""

# ruff: noqa: A001, E402  (Sphinx reads the name `copyright`; imports need the paths)
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(DOCS / "_ext"), str(ROOT / "tests"), str(ROOT)]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["COLUMNS"] = "88"  # of the usage lines that argparse wraps

import chinese_search
import site_pages
from sphinx.application import Sphinx

from asr import __version__

chinese = tags.has("zh")  # type: ignore[name-defined]  # noqa: F821

project = "Polyphone"
author = "The Polyphone developers"
copyright = "the Polyphone developers, Apache-2.0"
version = release = __version__
language = "zh_CN" if chinese else "en"
html_search_language = "zh" if chinese else "en"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = [] if chinese else ["zh", "_*"]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4

smartquotes = False  # `--set` and "" are code
default_role = "code"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
# types of other packages, and our own that have no page
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = "Polyphone"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e63", "color-brand-content": "#0b6e63"},
    "dark_css_variables": {"color-brand-primary": "#5fc9bb", "color-brand-content": "#5fc9bb"},
}
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Sphinx) -> None:
    """Register what the pages are made of besides their text."""
    app.add_search_language(chinese_search.Chinese)
    app.connect("source-read", site_pages.complete)
    app.connect("html-page-context", site_pages.link_twin)
