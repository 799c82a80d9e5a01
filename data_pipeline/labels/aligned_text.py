"""Split a text into tokens, each with the part of the text that it was written as."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from asr.base.errors import UserError
from asr.base.system.storage.address import is_address, path_of
from asr.base.text.encodings import file_text
from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.latin import with_spoken_digits
from asr.base.text.mixed import is_toned
from asr.base.text.pinyin import is_syllable
from asr.base.text.units import Unit
from asr.base.text.wording import counted, listed
from asr.base.vocabulary import WORD_BOUNDARY, Vocabulary
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import APOSTROPHES, label
from data_pipeline.labels.in_pieces import pieces_of
from data_pipeline.labels.spoken_symbols import DECORATION

SENTENCE = re.compile(r"[^。！？!?；;\n]*[。！？!?；;\n]*")
PART = re.compile(r"\S+\s*")
OPENING = ("Ps", "Pi")  # opening punctuation belongs to the next word, other punctuation to the word before
MAX_LISTED = 10
TEXT_FILES = (".txt", ".text", ".lab", ".trn", ".srt", ".vtt", ".json", ".jsonl", ".tsv", ".csv", ".textgrid")
LONGEST_DETAIL = 100  # characters of a text quoted in an error


class WrittenToken(NamedTuple):
    """A token and its part of the text.

    Attributes:
        token: of the vocabulary.
        text: up to the begin of the next token's text.
    """

    token: str
    text: str


def text_of(argument: str) -> str:
    """Return the argument as text, or the content of the file of this name.

    Raises:
        UserError: the text is empty, or the argument names a folder, or a file that is missing or unreadable.
    """
    path = path_of(argument) if is_address(argument) else Path(argument)
    try:
        is_file, is_folder = path.is_file(), bool(argument) and path.is_dir()
    except (OSError, ValueError):  # too long for a name
        is_file = is_folder = False
    if is_folder:
        raise UserError(f"{argument}: is a folder; give the text itself, or a file that holds it")
    # a slash may also separate hanzi, or words of a sentence
    is_like_a_path = argument.isascii() and "/" in argument and not any(map(str.isspace, argument))
    if not is_file and (is_like_a_path or argument.lower().endswith(TEXT_FILES)):
        raise UserError(f"{argument}: no such file; give the text itself, or a file that holds it")
    text = file_text(path, "text").removesuffix("\n") if is_file else argument
    if not text.strip():
        where = argument if is_file else "TEXT"
        raise UserError(f"{where}: empty text; give what is said in the recording")
    return text


def written_tokens(text: str, vocabulary: Vocabulary) -> list[WrittenToken]:
    """Return the tokens of a text: its parts if all of them are tokens, else labels as made for a corpus.

    Raises:
        UserError: a part of the text cannot be labelled, or has tokens that are not in the vocabulary.
    """
    parts = text.split()
    if vocabulary.are_tokens(parts) or (vocabulary.is_mandarin and all(map(is_syllable, parts))):
        tokens = [WrittenToken(part.rstrip(), part) for part in PART.findall(text)]
    else:
        # words of scripts other than hanzi are separated across sentences, too
        sentences = SENTENCE.findall(text) if vocabulary.is_mandarin else [text]
        sentences = [sentence for sentence in sentences if _is_spoken(sentence)]
        tokens = [token for sentence in sentences for token in _labelled(sentence, vocabulary)]
    if not tokens:
        raise UserError("TEXT: no spoken text in it; give what is said in the recording")
    _refuse_unknown(tokens, vocabulary)
    return tokens


def _labelled(sentence: str, vocabulary: Vocabulary) -> Iterator[WrittenToken]:
    unit = vocabulary.unit
    try:
        if vocabulary.is_in_pieces:
            tokens = pieces_of(sentence, vocabulary.expect_pieces(), unit)
        else:
            tokens = label(sentence, unit)
    except UnlabelledError as error:
        detail = (
            error.detail if len(error.detail) <= LONGEST_DETAIL else f"{error.detail[:LONGEST_DETAIL]}..."
        )
        raise UserError(
            f"TEXT: {detail}: {error.reason}, or give the tokens themselves, separated by spaces"
        ) from None
    text = unicodedata.normalize("NFC", sentence)
    if unit == "mixed":
        text = with_spoken_digits(text)
    starts = _starts(text, tokens, unit)
    for index, (token, start) in enumerate(zip(tokens, starts, strict=True)):
        end = starts[index + 1] if index + 1 < len(starts) else len(text)
        yield WrittenToken(token, text[start:end])


def _starts(text: str, tokens: Sequence[str], unit: Unit) -> list[int]:
    """Return the position in the text at which each token's part begins."""
    # labels are normalized, which may turn one character into several
    chars, indices = [], []
    for index, char in enumerate(text):
        normal = unicodedata.normalize("NFKC", char).translate(APOSTROPHES).lower()
        chars += list(normal)
        indices += [index] * len(normal)
    normal_text = "".join(chars)
    starts = []
    now = 0
    for token in tokens:
        if unit == "syllables" or (unit == "mixed" and is_toned(token)):
            # a Latin word may have the syllables of a table, in place of hanzi
            found = next((i for i in range(now, len(chars)) if is_hanzi(chars[i])), now)
            length = 1
        elif token == WORD_BOUNDARY:
            found, length = now, 0
        else:
            letters = token.lstrip(WORD_BOUNDARY).lower()
            found, length = max(now, normal_text.find(letters, now)), len(letters)
        opening = found
        while opening > now and unicodedata.category(chars[opening - 1]) in OPENING:
            opening -= 1
        now = min(found + length, len(chars))
        starts.append(indices[opening] if opening < len(indices) else len(text))
    return starts


def _is_spoken(sentence: str) -> bool:
    return any(
        unicodedata.category(char)[0] not in "PZC" and char not in DECORATION
        for char in unicodedata.normalize("NFKC", sentence)
    )


def _refuse_unknown(tokens: Sequence[WrittenToken], vocabulary: Vocabulary) -> None:
    unknown = dict.fromkeys(token for token in tokens if token.token not in vocabulary)
    if not unknown:
        return
    names = [token if text.strip() == token else f"{token} ({text.strip()})" for token, text in unknown]
    shown = listed(names, MAX_LISTED)
    raise UserError(
        f"TEXT: not in this model's vocabulary of {counted(len(vocabulary) - 1, 'token')}: {shown}; "
        "replace them by tokens of the vocabulary, separated by spaces, or train with "
        "the setting data.vocabulary=mandarin, or on text that contains them"
    )
