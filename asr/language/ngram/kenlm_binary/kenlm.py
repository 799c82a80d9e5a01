"""Read KenLM's binary files, mapping probing ones into memory, and write probing ones.

After the header come the hashes of the words, the n-grams, and the words themselves (github.com/kpu/kenlm,
lm/vocab.cc, lm/search_hashed.hh). A probing file's n-grams have the layout of `Tables`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from asr.language.ngram.backoff import complete_ngrams
from asr.language.ngram.kenlm_binary.kenlm_header import (
    COPY,
    PROBING,
    REBUILD,
    KenlmHeader,
    format_error,
    header_of,
    read_header,
    truncated_error,
)
from asr.language.ngram.kenlm_binary.kenlm_trie import read_trie
from asr.language.ngram.model import (
    LONGEST_WORDS,
    SENTENCE_BEGIN,
    SENTENCE_END,
    UNKNOWN,
    NGramModel,
    begins_of,
    num_buckets,
    tables_over,
)
from asr.language.ngram.word_table import Bytes, word_table

VOCABULARY_HEADER = struct.Struct("<II")  # version, number of words


def read_kenlm(path: Path) -> NGramModel:
    """Read a model; pages of a probing file are loaded from the disk on first use.

    Raises:
        UserError: the file cannot be read, is damaged, or its kind is not supported.
    """
    header = read_header(path)
    # a private map is writable, like the arrays of a model built in memory: one type for compiled code
    file = np.memmap(path, np.uint8, mode="c").view(np.ndarray)
    if header.kind == PROBING:
        return _map_probing(path, file, header)
    ngrams, end = read_trie(path, file, header)
    words = _read_words(path, file, end, len(ngrams[0].ids))
    return NGramModel.of_ngrams(words, complete_ngrams(path, words, ngrams))


def write_kenlm(file: BinaryIO, model: NGramModel) -> None:
    """Write a model as a probing file, which KenLM reads."""
    file.write(header_of(model.counts, model.buckets_per_entry))
    file.write(VOCABULARY_HEADER.pack(0, len(model.words)))
    # KenLM does not put <unk>, whose id is 0, into the table
    file.write(word_table(model.words, model.counts[0], model.buckets_per_entry).memory.data)
    file.write(model.tables.memory.data)
    file.write("".join(f"{word}\0" for word in model.words).encode())


def _map_probing(path: Path, file: Bytes, header: KenlmHeader) -> NGramModel:
    counts, per_entry = header.counts, header.buckets_per_entry
    begin = header.size_bytes + VOCABULARY_HEADER.size + 4 * LONGEST_WORDS * num_buckets(counts[0], per_entry)
    *_, num_words = begins_of(counts, per_entry)
    end = begin + 4 * num_words
    if len(file) < end:
        raise truncated_error(path, end, len(file))
    version, vocabulary_size = VOCABULARY_HEADER.unpack_from(file.data, header.size_bytes)
    if version != 0 or not counts[0] <= vocabulary_size <= counts[0] + 1:  # <unk> may not be counted
        raise format_error(path, f"{counts[0]:,} words", f"{vocabulary_size:,} (version {version})", COPY)
    words = _read_words(path, file, end, vocabulary_size)
    tables = tables_over(file[begin:end].view(np.uint32), counts, per_entry)
    return NGramModel(words, tables, counts, per_entry)


def _read_words(path: Path, file: Bytes, begin: int, count: int) -> list[str]:
    try:
        *words, rest = file[begin:].tobytes().decode().split("\0")
    except UnicodeDecodeError as error:
        found = repr(error.object[error.start : error.end])
        raise format_error(path, "words in UTF-8", f"the bytes {found}", f"{REBUILD} in UTF-8") from None
    if rest or len(words) != count or words[0] != UNKNOWN:
        raise format_error(path, f"{count:,} words at the end, {UNKNOWN} first", f"{len(words):,}", COPY)
    if missing := {SENTENCE_BEGIN, SENTENCE_END} - set(words):
        raise format_error(
            path, f"{' and '.join(sorted(missing))} among the words", "none", "train on sentences"
        )
    return words
