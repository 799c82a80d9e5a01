"""Translate the texts of a page into Chinese, by the table of words in `templates/chinese.toml`.

Pages are written in English, with the Chinese of each of their texts in a script; `templates/language.js`
shows one or the other. Elements with translate="no" hold names (tokens, files, settings), which are the same
in both.

A line of the table has an English text and its Chinese. In both, {n} stands for a figure, {w} for a text that
the table translates, {x} for a name, {l} for a letter; digits distinguish several of a kind ({n} of {n2}). An
"(s)" is optional.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from importlib.resources import files
from typing import NamedTuple

from typing_extensions import override

ATTRIBUTES = ("title", "aria-label", "alt", "placeholder")
VERBATIM_TAGS = {"script", "style", "pre"}
EMPTY_TAGS = {"meta", "img", "input", "br", "link"}
FIGURE = r"[^A-Za-z\s]*[^A-Za-z\s.,:;]|[\d.]+e[+-]?\d+"
PATTERNS = {"n": FIGURE, "w": ".+?", "x": ".+?", "l": "[A-Z]"}
WORD = re.compile(r"[A-Za-z]{2}")  # a text without any has nothing to translate


def first_language(environment: Mapping[str, str] = os.environ) -> str:
    """Return the language in which pages open, "en" or "zh", by the locale of the process that writes."""
    locale = next(filter(None, map(environment.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    return "zh" if locale.lower().startswith("zh") else "en"


@functools.lru_cache(10_000)  # the parts of a list are looked up in many ways
def chinese(text: str) -> str | None:
    """Return the Chinese of an English text, or None if the table has none.

    A text without words is its own Chinese.
    """
    exact, patterns = _table()
    if text in exact:
        return exact[text]
    likely = (pattern for pattern in patterns if pattern.literal in text)
    found = next(filter(None, (pattern.chinese(text) for pattern in likely)), None)
    return text if found is None and not WORD.search(text) else found


def words_of(html: str) -> dict[str, str]:
    """Return the Chinese of each text of a page that has one, by the text with single spaces."""
    found = {" ".join(lines): [chinese(line) or line for line in lines] for lines in _texts(html)}
    return {text: "\n".join(others) for text, others in found.items() if " ".join(others) != text}


def untranslated(html: str) -> list[str]:
    """Return the texts of a page without Chinese, sorted."""
    return sorted({line for lines in _texts(html) for line in lines if chinese(line) is None})


class _Pattern(NamedTuple):
    """A line of the table with parts that vary.

    Attributes:
        expression: matches the English texts.
        template: the Chinese.
        literal: a part of every such text, by which most others are soon ruled out.
    """

    expression: re.Pattern[str]
    template: str
    literal: str

    def chinese(self, text: str) -> str | None:
        """Return the Chinese of a text that matches, else None."""
        match = self.expression.fullmatch(text)
        if not match:
            return None
        values = match.groupdict()
        for name, value in values.items():
            translated = chinese(value) if name.startswith("w") else value
            if translated is None:
                return None
            values[name] = translated
        return self.template.format(**values)


@functools.cache
def _table() -> tuple[dict[str, str], list[_Pattern]]:
    """Return the lines of the table without and with parts that vary."""
    lines = tomllib.loads((files("asr.pages") / "templates" / "chinese.toml").read_text(encoding="utf-8"))
    varying = [english for english in lines if "{" in english or "(s)" in english]
    return {e: lines[e] for e in lines.keys() - set(varying)}, [_pattern(e, lines[e]) for e in varying]


def _pattern(english: str, translation: str) -> _Pattern:
    pieces = re.split(r"\{(\w+)\}|(\(s\))", english)
    expression, literals = "", []
    for literal, name, _ in zip(pieces[::3], [*pieces[1::3], None], [*pieces[2::3], None], strict=True):
        literals.append(literal)
        expression += re.escape(literal) + (f"(?P<{name}>{PATTERNS[name[0]]})" if name else "s?")
    if not english.endswith("(s)"):
        expression = expression.removesuffix("s?")
    return _Pattern(re.compile(expression, re.DOTALL), translation, max(literals, key=len))


class _TextParser(HTMLParser):
    """A parser for the texts that a page shows, and those of attributes that are shown or read aloud."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[list[str]] = []  # of lines, which only tooltips of drawings have
        self._open: list[tuple[str, bool]] = []  # tags, and whether their content is verbatim

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        is_verbatim = self._is_verbatim or values.get("translate") == "no"
        if not is_verbatim:
            self.texts += [[value] for name in ATTRIBUTES if (value := values.get(name))]
        if tag not in EMPTY_TAGS:
            self._open.append((tag, is_verbatim or tag in VERBATIM_TAGS))

    @override
    def handle_endtag(self, tag: str) -> None:
        if self._open:
            self._open.pop()

    @override
    def handle_data(self, data: str) -> None:
        if not self._is_verbatim:
            is_tooltip = len(self._open) > 3 and self._open[-1][0] == "title"
            self.texts.append(data.split("\n") if is_tooltip else [data])

    @property
    def _is_verbatim(self) -> bool:
        return bool(self._open) and self._open[-1][1]


def _texts(html: str) -> Iterator[list[str]]:
    """Yield the lines of each text of a page, with single spaces."""
    parser = _TextParser()
    parser.feed(html)
    parser.close()
    for text in parser.texts:
        lines = [" ".join(line.split()) for line in text]
        if any(lines):
            yield lines
