"""Words are split into other pieces of the same text, as often as the stated rule has them."""

import collections
import itertools
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT

from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from asr.base.text.mixed import mixed_words
from asr.base.text.pieces import learn_pieces, text_of_pieces
from asr.base.text.units import LearnedUnits
from asr.base.vocabulary import Vocabulary
from asr.transcription.text_writer import TextWriter
from data_pipeline.augment.piece_sampling import SMOOTHING, PieceSampler, drawn_split, last_pieces, merged

NUM_DRAWS = 6000
TOLERANCE = 4 / math.sqrt(4 * NUM_DRAWS)  # four standard deviations of the least certain share
NUM_COMPARED = 4 * NUM_DRAWS  # where both are drawn, and by sentencepiece with another seed in each process
WORD = "▁derivative"


@pytest.fixture(scope="module")
def texts():
    """Return the sentences of the licence, in small letters."""
    lines = re.split("[.:;,]", (ROOT / "LICENSE").read_text(encoding="utf-8").lower())
    return [" ".join(words) for line in lines if (words := re.findall("[a-z']+", line))]


@pytest.fixture(scope="module")
def byte_pairs(texts):
    return learn_pieces(texts, LearnedUnits("bpe", 200))


@pytest.fixture(scope="module")
def unigram(texts):
    return learn_pieces(texts, LearnedUnits("unigram", 200))


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def shares(splits):
    """Return the share of each split."""
    counts = collections.Counter(map(tuple, splits))
    return {split: count / counts.total() for split, count in counts.items()}


def assert_equally_often(one, other):
    for split in {*one, *other}:
        assert abs(one.get(split, 0.0) - other.get(split, 0.0)) < TOLERANCE, split


def splits_of(text):
    """Return all splits of a text."""
    cuts = itertools.product((False, True), repeat=len(text) - 1)
    for is_cut in cuts:
        ends = [*(place for place, cut in enumerate(is_cut, 1) if cut), len(text)]
        yield tuple(text[begin:end] for begin, end in zip([0, *ends], ends, strict=False))


def merge_probabilities(parts, scores, dropout, dropped=frozenset()):
    """Return the probability of each split, by following every merge that is made or left out."""
    text = "".join(parts)
    ends = list(itertools.accumulate(map(len, parts)))
    begins = [0, *ends]
    merges = [
        (-scores[text[begins[i] : ends[i + 1]]], i)
        for i in range(len(parts) - 1)
        if text[begins[i] : ends[i + 1]] in scores and (begins[i], ends[i], ends[i + 1]) not in dropped
    ]
    if not merges:
        return {parts: 1.0}
    _, i = min(merges)
    made = (*parts[:i], parts[i] + parts[i + 1], *parts[i + 2 :])
    found = collections.Counter()
    for split, share in merge_probabilities(made, scores, dropout, dropped).items():
        found[split] += (1 - dropout) * share
    without = dropped | {(begins[i], ends[i], ends[i + 1])}
    for split, share in merge_probabilities(parts, scores, dropout, without).items():
        found[split] += dropout * share
    return dict(found)


def test_byte_pairs_without_dropout_are_the_pieces_of_sentencepiece(texts, byte_pairs, rng):
    words = sorted({word for text in texts for word in text.split()})
    assert len(words) > 400
    for word in words:
        assert merged(f"▁{word}", byte_pairs.scores, 0.0, rng) == list(byte_pairs.encode(word))


def test_merges_are_left_out_with_the_probability_of_the_setting(byte_pairs, rng):
    drawn = shares(merged(WORD, byte_pairs.scores, 0.3, rng) for _ in range(NUM_DRAWS))
    assert_equally_often(drawn, merge_probabilities(tuple(WORD), byte_pairs.scores, 0.3))
    assert len(drawn) > 5


def test_byte_pairs_are_drawn_as_sentencepiece_draws_them(byte_pairs, rng):
    drawn = shares(merged(WORD, byte_pairs.scores, 0.1, rng) for _ in range(NUM_COMPARED))
    word, how = WORD.removeprefix("▁"), {"enable_sampling": True, "alpha": 0.1, "nbest_size": -1}
    theirs = shares(byte_pairs._processor.encode(word, out_type=str, **how) for _ in range(NUM_COMPARED))
    assert_equally_often(drawn, theirs)


def test_unigram_splits_are_drawn_by_their_smoothed_probabilities(unigram, rng):
    word, scores = WORD, unigram.scores
    drawn = shares(drawn_split(word, last_pieces(word, scores), rng) for _ in range(NUM_DRAWS))
    whole = [split for split in splits_of(word) if all(piece in scores for piece in split)]
    powers = {split: math.exp(SMOOTHING * sum(map(scores.__getitem__, split))) for split in whole}
    total = sum(powers.values())
    assert_equally_often(drawn, {split: power / total for split, power in powers.items()})
    assert len(whole) > 10


def test_unigram_splits_are_drawn_as_sentencepiece_draws_them(unigram, rng):
    lasts = last_pieces(WORD, unigram.scores)
    drawn = shares(drawn_split(WORD, lasts, rng) for _ in range(NUM_COMPARED))
    how = {"enable_sampling": True, "alpha": SMOOTHING, "nbest_size": -1}
    theirs = shares(
        unigram._processor.encode(WORD.removeprefix("▁"), out_type=str, **how) for _ in range(NUM_COMPARED)
    )
    assert_equally_often(drawn, theirs)


def test_a_text_as_long_as_a_sentence_without_spaces_is_split(unigram, rng):
    text = WORD * 200
    for drawn in (
        drawn_split(text, last_pieces(text, unigram.scores), rng),
        merged(text, unigram.scores, 0.1, rng),
    ):
        assert "".join(drawn) == text
        assert 200 < len(drawn) < len(text)


def test_the_setting_is_the_share_of_unigram_words_that_are_drawn(unigram, rng):
    best = unigram.encode(WORD.removeprefix("▁"))
    vocabulary = Vocabulary.of_pieces(unigram)
    always, some = (
        [sampler.draw(best, rng) for _ in range(NUM_DRAWS)]
        for sampler in (PieceSampler(vocabulary, 1.0), PieceSampler(vocabulary, 0.4))
    )
    others = 1 - shares(always)[best]
    assert others > 0.2
    assert abs((1 - shares(some)[best]) - 0.4 * others) < TOLERANCE


@pytest.mark.parametrize(("method", "share"), [("byte_pairs", 0.3), ("unigram", 1.0)])
def test_drawn_pieces_are_of_the_vocabulary_and_decode_to_the_same_words(method, share, texts, request, rng):
    pieces = request.getfixturevalue(method)
    vocabulary = Vocabulary.of_pieces(pieces)
    sampler, writer = PieceSampler(vocabulary, share), TextWriter(vocabulary)
    num_changed = 0
    for text in texts:
        own = pieces.encode(text)
        drawn = sampler.draw(own, rng)
        assert vocabulary.decode(vocabulary.encode(drawn)) == drawn
        assert vocabulary.join(drawn) == text_of_pieces(drawn) == text == writer.text(drawn)
        num_changed += drawn != own
    assert num_changed > 100


def test_syllables_and_spelt_letters_of_mixed_units_stay(texts, rng):
    pieces = learn_pieces(texts, LearnedUnits("mixed", 200))
    vocabulary = Vocabulary.of_pieces(pieces, ["da3", "kai1", "de5", "she4", "zhi4"])
    said = ["da3", "kai1", *pieces.encode("copyright"), "de5", "A", "P", "P", *pieces.encode("work"), "C"]
    drawn = [PieceSampler(vocabulary, 0.5).draw((*said, "zhi4"), rng) for _ in range(100)]
    words = ["da3", "kai1", "copyright", "de5", "APP", "work", "C", "zhi4"]
    assert all([word.text for word in mixed_words(tokens)] == words for tokens in drawn)
    assert len(set(drawn)) > 20
    assert all(vocabulary.are_tokens(tokens) for tokens in drawn)


def test_words_with_a_piece_that_the_model_does_not_have_stay(byte_pairs, rng):
    sampler = PieceSampler(Vocabulary.of_pieces(byte_pairs), 1.0)
    assert sampler.draw(("▁na", "ï", "ve", "▁the"), rng) == ("▁na", "ï", "ve", "▁", "t", "h", "e")


def test_another_process_draws_the_same(byte_pairs, tmp_path):
    program = """
import sys
from pathlib import Path
import numpy as np
from asr.base.text.pieces import Pieces
from asr.base.vocabulary import Vocabulary
from data_pipeline.augment.piece_sampling import PieceSampler
pieces = Pieces.load(Path(sys.argv[1]))
sampler = PieceSampler(Vocabulary.of_pieces(pieces), 0.5)
print(*sampler.draw(pieces.encode("the work of a contributor"), np.random.default_rng((1, 2))))
"""
    byte_pairs.save(tmp_path / "units.model")
    command = [sys.executable, "-c", program, str(tmp_path / "units.model")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    sampler = PieceSampler(Vocabulary.of_pieces(byte_pairs), 0.5)
    here = sampler.draw(byte_pairs.encode("the work of a contributor"), np.random.default_rng((1, 2)))
    assert tuple(printed.split()) == here != byte_pairs.encode("the work of a contributor")


def test_labels_without_pieces_are_refused_with_the_remedy(byte_pairs):
    syllables = Vocabulary(["ni3", "hao3"])
    with pytest.raises(UserError, match=r"augment\.piece_sampling.*syllables.*data\.units=bpe"):
        PieceSampler.of(AugmentConfig(piece_sampling=0.1), syllables)
    with pytest.raises(UserError, match=r"units\.model is missing"):
        PieceSampler.of(AugmentConfig(piece_sampling=0.1), Vocabulary(byte_pairs.tokens))
    assert PieceSampler.of(AugmentConfig(), syllables) is None
