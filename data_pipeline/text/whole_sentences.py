"""Take whole sentences from texts of any kind, to be read aloud: prose, lists, tables, segmented corpora.

A line without punctuation at its end is a sentence if nothing else is in it, such as a title or a command;
otherwise it was cut off and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from asr.base.system.shards import is_manifest_name
from asr.base.system.storage.address import path_of
from asr.base.text.hanzi_text import HANZI, is_hanzi
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.text.reading_text import CLOSING, PUNCTUATION, SENTENCE_ENDS
from data_pipeline.text.segmented_text import TAG, form_of
from data_pipeline.text.text_files import find_text_files, read_blocks

FEWEST_HANZI, MOST_HANZI = 2, 36  # ten seconds; longer sentences are few, and slow to train on
ENDS = "".join(mark for mark in SENTENCE_ENDS if mark not in ".;；")  # clauses end with a semicolon
SENTENCE = re.compile(rf"[^{ENDS}]+(?:[{ENDS}]+[{CLOSING}]*|$)")
SPACE_AS_COMMA = re.compile(rf"(?<=[{HANZI}])[ \t\u3000]+(?=[{HANZI}])")
QUOTES = tuple(zip("“‘「『《（(【", "”’」』》）)】", strict=True))
NOT_AT_BEGIN = f"{PUNCTUATION}{CLOSING}.·-~～*#>=_|/ \t\u3000"


def whole_sentences(paths: Sequence[str]) -> Iterator[str]:
    """Yield the sentences of texts in their order, as long as one says in a breath or two.

    Args:
        paths: of files, of folders, or - for standard input; texts in any common encoding, gzipped or not,
            tables with tabs between cells, and manifests.

    Raises:
        UserError: a file cannot be read.
    """
    for source in find_text_files(paths):
        if is_manifest_name(source):
            lines: Iterable[str] = (utterance.text for utterance in read_manifest(path_of(source)))
        else:
            lines = _lines(source)
        for line in lines:
            yield from sentences_in(line)


def sentences_in(line: str) -> Iterator[str]:
    """Yield the sentences of a line."""
    cell = max(line.split("\t"), key=lambda text: sum(map(is_hanzi, text)))
    text = SPACE_AS_COMMA.sub("，", cell.strip())
    found = SENTENCE.findall(text)
    for sentence in found:
        if len(found) > 1 and not sentence.rstrip(CLOSING).endswith(tuple(ENDS)):
            continue  # cut off
        whole = _without_halves(sentence).lstrip(NOT_AT_BEGIN).strip()
        if FEWEST_HANZI <= sum(map(is_hanzi, whole)) <= MOST_HANZI:
            yield whole


def _lines(source: str) -> Iterator[str]:
    for block in read_blocks(source):
        if block.first:
            spacing, is_tagged = form_of(block)
        text = TAG.sub(" ", block.text) if is_tagged else block.text
        for line in text.splitlines():
            yield line if spacing == "none" else "".join(line.split())


def _without_halves(sentence: str) -> str:
    """Remove the quotation marks and brackets of which the sentence has one half."""
    for opening, closing in QUOTES:
        if sentence.count(opening) != sentence.count(closing):
            sentence = sentence.replace(opening, "").replace(closing, "")
    return sentence
