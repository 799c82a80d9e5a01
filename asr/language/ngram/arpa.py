"""Read and write ARPA files: n-gram models as text, the format that every toolkit supports.

As in KenLM, logarithms have base 10, `<unk>` has -100 if the file has none, and n-grams that were pruned
although longer ones contain them are restored with the probability of backing off.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from asr.base.system.files import whole_file
from asr.base.text.wording import counted
from asr.base.work import OnProgress, ignore_progress
from asr.language.ngram.arpa_text import ArpaText, open_arpa
from asr.language.ngram.backoff import complete_ngrams
from asr.language.ngram.listing import ngrams_of
from asr.language.ngram.model import (
    MAX_ORDER,
    NO_EXTENSION,
    SENTENCE_BEGIN,
    SENTENCE_END,
    UNKNOWN,
    Float32,
    NGramModel,
    NGrams,
)

UNKNOWN_CAPITAL = "<UNK>"  # as some toolkits spell it
UNKNOWN_MISSING_LOG10_PROB = -100.0
DATA, END = b"\\data\\", b"\\end\\"
COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)\s*")
MAX_BYTES_PER_GZIPPED_BYTE = 1032  # deflate's highest compression ratio
NEVER = -99.0  # logarithm of a probability of 0, which some toolkits write as -inf
ROWS_AT_ONCE = 1 << 16


def read_arpa(path: Path, on_progress: OnProgress = ignore_progress) -> NGramModel:
    """Read a model from an ARPA file, plain or gzipped.

    Raises:
        UserError: the file cannot be read, is truncated, or contains a malformed line.
    """
    with open_arpa(path, on_progress) as text:
        while (line := _next_line(text)) is not None and line.startswith(b"#"):
            pass  # a comment
        if line != DATA:
            expected = "an ARPA file, which begins with \\data\\, or a binary of KenLM"
            raise text.error(expected, _shown(line), "give a language model; `asr lm train` makes them")
        counts, line = _read_counts(text)
        words, unigrams = _read_unigrams(text, line, counts[0])
        ids = {word.encode(): index for index, word in enumerate(words)} | {UNKNOWN_CAPITAL.encode(): 0}
        ngrams = [unigrams]
        for order, count in enumerate(counts[1:], start=2):
            _expect(text, text.line(), b"\\%d-grams:" % order, f"the end of the {counts[order - 2]:,} before")
            ngrams.append(_read_ngrams(text, order, count, order == len(counts), ids))
        _expect(text, text.line(), END, f"the end of the {counts[-1]:,} {len(counts)}-grams")
        if (line := _next_line(text)) is not None:
            raise text.error("nothing after \\end\\", _shown(line))
    return NGramModel.of_ngrams(words, complete_ngrams(path, words, ngrams))


def write_arpa(path: Path, model: NGramModel, on_progress: OnProgress = ignore_progress) -> None:
    """Write a model as ARPA text.

    Raises:
        UserError: the file cannot be written.
    """
    ngrams = ngrams_of(model, on_progress)
    with whole_file(path, "language model") as file:
        lines = [f"ngram {order}={len(table.ids)}\n" for order, table in enumerate(ngrams, start=1)]
        file.write(f"\\data\\\n{''.join(lines)}".encode())
        for order, table in enumerate(ngrams, start=1):
            file.write(f"\n\\{order}-grams:\n".encode())
            for begin in range(0, len(table.ids), ROWS_AT_ONCE):
                end = begin + ROWS_AT_ONCE
                rows = NGrams(
                    table.ids[begin:end], table.log10_probs[begin:end], table.log10_backoffs[begin:end]
                )
                file.write(_lines(model.words, rows, order == len(ngrams)).encode())
        file.write(b"\n\\end\\\n")


def _lines(words: Sequence[str], ngrams: NGrams, longest: bool) -> str:
    grams = [" ".join([words[index] for index in row]) for row in ngrams.ids.tolist()]
    # the shortest digits that are read back as the same 32-bit number
    probs = [str(value) for value in ngrams.log10_probs.astype(np.float32)]
    if longest:
        return "".join(f"{prob}\t{gram}\n" for prob, gram in zip(probs, grams, strict=True))
    backoffs = [str(value) for value in (ngrams.log10_backoffs + np.float32(0)).astype(np.float32)]
    columns = zip(probs, grams, backoffs, strict=True)
    return "".join(f"{prob}\t{gram}\t{backoff}\n" for prob, gram, backoff in columns)


def _next_line(text: ArpaText) -> bytes | None:
    """Return the next line that is not empty."""
    while (line := text.line()) is not None and not line.strip():
        pass
    return line.strip() if line is not None else None


def _expect(text: ArpaText, line: bytes | None, expected: bytes, after: str) -> None:
    if line is not None and not line.strip():
        line = _next_line(text)
    if line is None or line.strip() != expected:
        raise text.error(f"{expected.decode()}, after {after}", _shown(line))


def _read_counts(text: ArpaText) -> tuple[list[int], bytes | None]:
    """Return the number of n-grams of each order, and the line after them."""
    counts: list[int] = []
    while (line := _next_line(text)) is not None and (match := COUNT.fullmatch(line)):
        if int(match[1]) != len(counts) + 1:
            raise text.error(f"the number of {len(counts) + 1}-grams", _shown(line))
        counts.append(int(match[2]))
    if not 2 <= len(counts) <= MAX_ORDER:
        raise text.error(
            f"`ngram 1=...` and so on, to an order from 2 to {MAX_ORDER}",
            f"{counted(len(counts), 'line')} of them, then {_shown(line)}",
            "train a model of such an order",
        )
    expansion = MAX_BYTES_PER_GZIPPED_BYTE if text.is_packed else 1
    room = text.path.stat().st_size * expansion
    if sum(counts) * 4 > room:  # "0 a\n"
        raise text.error("no more n-grams than the file has room for", f"{sum(counts):,} in {room:,} bytes")
    return counts, line


def _read_unigrams(text: ArpaText, line: bytes | None, count: int) -> tuple[list[str], NGrams]:
    _expect(text, line, b"\\1-grams:", "the counts")
    unknown = (UNKNOWN_MISSING_LOG10_PROB, float(NO_EXTENSION))
    weights = {UNKNOWN: unknown}
    given: set[str] = set()
    for row in range(count):
        prob, (encoded,), backoff = _read_line(text, 1, row, count, longest=False)
        word = _decoded(text, encoded)
        word = UNKNOWN if word == UNKNOWN_CAPITAL else word
        if word in given:
            raise text.error("different words", f"{word!r} again", "remove one of the two lines")
        given.add(word)
        weights[word] = (prob, backoff)
    for word in (SENTENCE_BEGIN, SENTENCE_END):
        if word not in given:
            raise text.error(f"{word} among the words", "none", "train the model with sentence boundaries")
    values: Float32 = np.array(list(weights.values()), np.float32)
    ids = np.arange(len(weights), dtype=np.int32)[:, None]
    return list(weights), NGrams(ids, values[:, 0], values[:, 1])


def _read_ngrams(text: ArpaText, order: int, count: int, longest: bool, ids: Mapping[bytes, int]) -> NGrams:
    words, probs, backoffs = array("i"), array("f"), array("f")  # lists would take several times the memory
    for row in range(count):
        prob, gram, backoff = _read_line(text, order, row, count, longest)
        try:
            words.extend([ids[word] for word in gram])
        except KeyError as unknown:
            raise text.error(
                "a word that is among the 1-grams", repr(_decoded(text, unknown.args[0]))
            ) from None
        probs.append(prob)
        backoffs.append(backoff)
    columns = np.frombuffer(words, np.int32).reshape(count, order)
    return NGrams(columns, np.frombuffer(probs, np.float32), np.frombuffer(backoffs, np.float32))


def _read_line(
    text: ArpaText, order: int, row: int, count: int, longest: bool
) -> tuple[float, list[bytes], float]:
    """Return probability, words and backoff of an n-gram's line."""
    line = text.line()
    fields = line.split() if line else []
    if not fields or fields[0].startswith(b"\\"):
        raise text.error(f"{count:,} {order}-grams", f"{row:,}, then {_shown(line)}")
    if len(fields) not in (order + 1, order + 2):
        expected = f"a probability, {order} words" + ("" if longest else " and optionally a backoff")
        raise text.error(expected, _shown(line))
    prob = NEVER if fields[0].lower() == b"-inf" else _number(text, fields[0])
    if prob > 0:
        raise text.error("a logarithm of a probability, 0 or less", str(prob), "train the model again")
    backoff = _number(text, fields[-1]) if len(fields) == order + 2 else float(NO_EXTENSION)
    if longest and backoff != 0:
        raise text.error(f"no backoff after an n-gram of the highest order, {order}", str(backoff))
    return prob, fields[1 : order + 1], backoff


def _decoded(text: ArpaText, word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise text.error("UTF-8", repr(word), "convert the file, as with `iconv -t UTF-8`") from None


def _number(text: ArpaText, field: bytes) -> float:
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise text.error("a number", _shown(field))
    return value


def _shown(line: bytes | None) -> str:
    if line is None:
        return "the end of the file: it is truncated"
    return repr(line[:80].decode(errors="replace")) if line.strip() else "an empty line"
