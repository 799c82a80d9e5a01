"""Reads the pages of the documentation: their fenced blocks, commands, links and figures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers import ROOT

# in reading order, each followed by its Chinese twin if that exists
ENGLISH = [
    "README.md",
    "docs/index.md",
    *(
        f"docs/tutorials/{name}.md"
        for name in (
            "installation",
            "first-model",
            "own-recordings",
            "record",
            "several-gpus",
            "stages",
            "decoding",
            "export",
            "serve",
        )
    ),
    *(
        f"docs/guides/{name}.md"
        for name in (
            *("runs", "corpora", "from-one-machine-to-many", "cluster", "recipes", "labels"),
            *("augmentation", "networks", "methods", "asrt", "faq"),
        )
    ),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/reference").glob("*.md")),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/planned").glob("*.md")),
    "docs/architecture.md",
    "CONTRIBUTING.md",
]


def twin(page: str) -> str:
    """Return the path of an English page's Chinese twin."""
    return "README.zh-CN.md" if page == "README.md" else page.replace("docs/", "docs/zh/", 1)


_BLOCK = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # its language, its text
_NAMES = dict.fromkeys(name for page in ENGLISH for name in (page, twin(page)))
PAGES = [name for name in _NAMES if (ROOT / name).exists()]
CHINESE = [
    "README.zh-CN.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/zh").rglob("*.md")),
]
# how a line begins that does not continue the one before
_BEGINNING = re.compile(r"\s*(?:[-*+] |\d+\. |[|#<>]|:::|: |$)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: its path.
        line: of its first line in the page, from 1.
        language: after the fence.
        text: between the fences.
    """

    page: str
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """One command of a page, as it is written there.

    Attributes:
        page: its path.
        line: of its block.
        text: without comments and line breaks.
    """

    page: str
    line: int
    text: str

    @property
    def words(self) -> list[str]:
        """Return the words that a shell would pass on."""
        return shlex.split(self.text)


def text_of(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    text = text_of(page)
    for match in _BLOCK.finditer(text):
        yield Block(page, text.count("\n", 0, match.start()) + 2, match[1], match[2])


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block in a shell's language; a loop is one command."""
    if block.language not in ("sh", "console", "bash"):
        return
    if re.search(r"^\s*(?:for|while|if)\b", block.text, re.MULTILINE):
        yield Command(block.page, block.line, block.text)
        return
    for line in block.text.replace("\\\n", " ").splitlines():
        uncommented = re.sub(r"(?:^|\s)#.*", "", line.removeprefix("$ ")).strip()
        for command in filter(None, re.split(r"\s*&&\s*", uncommented)):
            yield Command(block.page, block.line, command)


def without_blocks(page: str) -> str:
    """Return the prose of a page."""
    return _BLOCK.sub("", text_of(page))


def paragraphs(page: str) -> Iterator[str]:
    """Yield the paragraphs, list items and tables of a page's prose."""
    for part in re.split(r"\n\s*\n|\n(?=[-*] )", without_blocks(page)):
        if part.strip():
            yield part.strip()


def broken_lines(page: str) -> Iterator[str]:
    """Yield the lines of a page's prose that continue the paragraph of the line before."""
    before = ""
    for line in without_blocks(page).splitlines():
        if before.strip() and not before.startswith(("#", "|", "<!--")) and not _BEGINNING.match(line):
            yield line
        before = line


def anchor(heading: str) -> str:
    """Return the name by which links reach a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Return the anchors of a Markdown file."""
    text = _BLOCK.sub("", path.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
