"""N-grams are counted as by a Counter, whether memory is little or much."""

import errno
from collections import Counter

import numpy as np
import pytest

from asr.base.errors import UserError
from asr.language.ngram import counting
from asr.language.ngram.counting import BEGIN_ID, END_ID, PAD_ID, count_ngrams

LITTLE_MEMORY = 1  # byte: every thousand n-grams go to disk


def sentences(num_words, num_sentences, seed=0):
    """Return random sentences of zero to nine words; small ids are frequent."""
    draw = np.random.default_rng(seed)
    return [
        (3 + (draw.random(draw.integers(0, 10)) ** 3 * (num_words - 3)).astype(int)).tolist()
        for _ in range(num_sentences)
    ]


def blocks_of(texts, size=50):
    for begin in range(0, len(texts), size):
        yield np.array([i for text in texts[begin : begin + size] for i in (*text, END_ID)], np.int32)


def by_counter(texts, order):
    counts = Counter()
    for text in texts:
        padded = [*[PAD_ID] * (order - 2), BEGIN_ID, *text, END_ID]
        for end in range(order, len(padded) + 1):
            counts[tuple(padded[end - order : end][::-1])] += 1
    return counts


def counted(texts, order, num_words, memory_bytes, folder):
    table = count_ngrams(blocks_of(texts), order, num_words, memory_bytes, folder)
    blocks = list(table.blocks())
    rows = [tuple(row) for block in blocks for row in block.rows.tolist()]
    return rows, [count for block in blocks for count in block.counts.tolist()]


# 11 bits a word fit one integer up to order 5, 21 bits up to order 3, 31 bits up to order 2
@pytest.mark.parametrize("order", [2, 3, 4, 6])
@pytest.mark.parametrize("num_words", [4, 1400, 2_000_000, 2**31 - 1])
def test_every_ngram_is_counted_once_and_in_order(order, num_words, tmp_path):
    texts = sentences(num_words, 300)
    expected = sorted(by_counter(texts, order).items())
    rows, counts = counted(texts, order, num_words, 10**9, tmp_path)
    assert list(zip(rows, counts, strict=True)) == expected


@pytest.mark.parametrize(("order", "num_words"), [(3, 1400), (6, 1400)])
def test_counts_do_not_depend_on_memory(order, num_words, tmp_path):
    texts = sentences(num_words, 5000)
    table = count_ngrams(blocks_of(texts), order, num_words, LITTLE_MEMORY, tmp_path)
    assert len(list(table.blocks())) > 3  # the counts did not fit into memory
    assert counted(texts, order, num_words, LITTLE_MEMORY, tmp_path) == counted(
        texts, order, num_words, 10**9, tmp_path
    )


def test_a_sentence_longer_than_the_memory_is_counted(tmp_path):
    texts = [list(range(3, 3003)) * 2]
    rows, counts = counted(texts, 3, 3003, LITTLE_MEMORY, tmp_path)
    assert list(zip(rows, counts, strict=True)) == sorted(by_counter(texts, 3).items())


def test_counts_on_disk_leave_no_file(tmp_path):
    table = count_ngrams(blocks_of(sentences(1400, 3000)), 3, 1400, LITTLE_MEMORY, tmp_path)
    assert not list(tmp_path.iterdir())  # not even during reading
    assert len(list(table.blocks())) > 1


def test_counting_reports_a_full_disk(tmp_path, monkeypatch):
    class Full:
        def seek(self, *_):
            pass

        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(counting.tempfile, "TemporaryFile", lambda dir: Full())  # noqa: A006
    with pytest.raises(UserError, match=r"No space left on device.*free space"):
        count_ngrams(blocks_of(sentences(1400, 3000)), 3, 1400, LITTLE_MEMORY, tmp_path)
