"""Estimate how long a text takes to read aloud, and cut long texts where a reader would pause."""

from __future__ import annotations

import re
from collections.abc import Iterator

from asr.base.text.hanzi_text import is_hanzi

# Two speakers of AISHELL-1 read 2.9 and 3.3 hanzi a second, pauses and silence around sentences included.
# The demo's voices speak 4.6 a second, faster than people read.
HANZI_PER_S = 3.4
LETTERS_PER_S = 13.0  # 2.7 words of English a second
PAUSE_S = 0.25  # at punctuation within a text
EDGES_S = 0.5  # silence before and after it
LONGEST_S = 8.5  # 25 hanzi or 15 to 20 words: readers stumble over longer ones
SHORTEST_S = 2.5  # a shorter sentence is read with the next one

PUNCTUATION = "。！？；，、：…!?;,:—"
SENTENCE_ENDS = "。！？；…!?;."
CLOSING = "”’」』）》)\"'"
# full stops and other marks of Latin script end a clause before a space only: 3.5, example.org
CLAUSE = re.compile(
    rf".*?(?:[。！？；，、：…—]+[{CLOSING}]*|[.!?;,:]+[{CLOSING}]*(?=\s|$))\s*|.+$", re.DOTALL
)
PAUSE = re.compile(rf"[{PUNCTUATION}]+(?=.*\w)|\.(?=\s.*\w)", re.DOTALL)


def reading_time_s(text: str) -> float:
    """Return the seconds that a person needs to read a text aloud, with silence around it."""
    num_hanzi = sum(map(is_hanzi, text))
    num_letters = sum(char.isalnum() for char in text) - num_hanzi
    num_pauses = len(PAUSE.findall(text))
    return num_hanzi / HANZI_PER_S + num_letters / LETTERS_PER_S + PAUSE_S * num_pauses + EDGES_S


def readable_parts(text: str) -> Iterator[str]:
    """Yield a text in parts of whole sentences, or of clauses, none too long to read at once if possible."""
    if reading_time_s(text) <= LONGEST_S:
        yield text
        return
    part = ""
    for clause in CLAUSE.findall(text):
        is_full = reading_time_s(part + clause) > LONGEST_S
        is_sentence = (
            part.rstrip(f"{CLOSING} ").endswith(tuple(SENTENCE_ENDS)) and reading_time_s(part) >= SHORTEST_S
        )
        if part and (is_full or is_sentence):
            yield part.strip()
            part = ""
        part += clause
    if part.strip():
        yield part.strip()
