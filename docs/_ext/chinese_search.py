"""Lets the site's search find Chinese words: pages and queries are cut into pairs of characters alike.

A dictionary would cut a query in one place and the page in another; pairs need none. A page is found when it
has every pair of the query.
"""

import itertools
import re

import snowballstemmer
from sphinx.search import SearchLanguage

_PARTS = re.compile(r"([\u3400-\u9fff]+)|([^\W\u3400-\u9fff]+)")
_SPLIT_QUERY = r"""
var splitQuery = (query) =>
  [...query.matchAll(/([\u3400-\u9fff]+)|(?:(?![\u3400-\u9fff])[\p{L}\p{N}_])+/gu)].flatMap(
    ([part, chinese]) => !chinese || part.length === 1 ? [part]
      : [...Array(part.length - 1).keys()].map((i) => part.slice(i, i + 2)));
"""


class Chinese(SearchLanguage):
    """Cuts Chinese text into characters and pairs of them, and English text into stems."""

    lang = "zh"
    language_name = "English"  # of the stemmer in JavaScript
    js_stemmer_rawcode = "english-stemmer.js"
    js_splitter_code = _SPLIT_QUERY

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.stemmer = snowballstemmer.stemmer("english")

    def split(self, input: str) -> list[str]:  # noqa: A002  (Sphinx's name)
        """Return the terms of a text: characters, pairs of characters, and words in other scripts."""
        terms: list[str] = []
        for chinese, other in _PARTS.findall(input):
            terms += [other] if other else [*chinese, *map("".join, itertools.pairwise(chinese))]
        return terms

    def word_filter(self, word: str) -> bool:
        """Return whether a term is worth an entry of the index."""
        return True

    def stem(self, word: str) -> str:
        """Return the stem of an English word; other words are their own stems."""
        return str(self.stemmer.stemWord(word.lower()))
