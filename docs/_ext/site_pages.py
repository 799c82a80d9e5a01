"""Completes pages as Sphinx reads them: with references made from the code and with files of the project.

A line `<!-- generated: NAME -->` of a page becomes what the generator of that name returns, and a line
`<!-- included: PATH -->` the text of a file of the project.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import chinese_reference
import code_reference
import rooms_diagram
from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
GENERATORS = {
    "python": code_reference.python,
    "rooms": rooms_diagram.diagram,
    "rooms-table": rooms_diagram.table,
}
# what takes the language of the page
TRANSLATED_GENERATORS = {
    "configuration": code_reference.configuration,
    "decoder-settings": code_reference.decoder_settings,
    "commands": code_reference.commands,
}
# files of the project that are pages of the site
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
}
_MARKER = re.compile(r"^<!-- (generated|included): (\S+) -->$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def complete(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put in what the markers of a page name; let links of Chinese pages to English ones lead there."""
    chinese = app.tags.has("zh")
    source[0] = _MARKER.sub(lambda m: _made(m[1], m[2], docname, chinese), source[0])
    if chinese:
        source[0] = _linked_to_english(source[0], docname)


def _made(kind: str, name: str, docname: str, chinese: bool) -> str:
    if kind == "included":
        return included(name, docname)
    if name in TRANSLATED_GENERATORS:
        return TRANSLATED_GENERATORS[name](chinese_reference.translate if chinese else str)
    return GENERATORS[name]()


def included(name: str, docname: str) -> str:
    """Return the text of a file of the project for a page, with its links as seen from that page."""
    path = ROOT / name
    pages = {ROOT / file: DOCS / page for file, page in PAGES.items()}

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if not target:
            return match[0]
        file = (path.parent / target).resolve()
        assert file.exists(), f"{name}: {target}: no such file"
        page = pages.get(file, file)
        if page.suffix != ".md" or not page.is_relative_to(DOCS):
            return text if text.startswith("`") else f"{text} (`{file.relative_to(ROOT)}`)"
        return f"[{text}](/{page.relative_to(DOCS)}{anchor})"

    return _LINK.sub(link, path.read_text("utf-8"))


def _linked_to_english(text: str, docname: str) -> str:
    folder = (DOCS / "zh" / docname).parent
    depth = docname.count("/")

    def link(match: re.Match[str]) -> str:
        page = (folder / match[2]).resolve()
        if not match[2].endswith(".md") or page.is_relative_to(DOCS / "zh") or not page.is_relative_to(DOCS):
            return match[0]
        assert page.exists(), f"zh/{docname}: {match[2]}: no such page"
        address = "../" * (depth + 1) + str(page.relative_to(DOCS).with_suffix(".html"))
        return f'<a href="{address}{match[3] or ""}">{match[1]}</a>'

    return _LINK.sub(link, text)


def link_twin(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Give a page's template the address of the same page in the other language."""
    chinese = app.tags.has("zh")
    other = DOCS if chinese else DOCS / "zh"
    twin = pagename if (other / f"{pagename}.md").exists() or pagename == "search" else "index"
    to_root = "../" * (pagename.count("/") + chinese)
    context["twin"] = f"{to_root}{'' if chinese else 'zh/'}{twin}.html"
    context["twin_language"] = "en" if chinese else "zh-CN"
    context["twin_name"] = "English" if chinese else "中文"
