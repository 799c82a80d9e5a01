"""Checks that decoders turn logits into hypotheses with times, confidences, alternatives and text."""

import numpy as np
import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.ctc.beam_search import BeamSearch
from asr.ctc.confidence import token_confidences
from asr.ctc.forced_alignment import align_tokens
from asr.ctc.hot_words import HotWords
from asr.ctc.search import make_search
from asr.ctc.word_rescoring import WordChoice
from asr.language.hanzi.converter import Converter
from asr.language.ngram.model import NGramModel, NGrams
from asr.transcription.decoder import Decoder
from asr.transcription.text_writer import TextWriter

VOCABULARY = Vocabulary(["hao2", "hao3", "ni3", "zhong1"])
FRAMES = [
    {"ni3": 0.9},
    {},
    {"hao2": 0.52, "hao3": 0.44},  # the most probable syllable forms no word
    {},
]


@pytest.fixture(scope="module")
def converter():
    return Converter.load()


@pytest.fixture
def logits():
    """Return the logits of two clips: the frames above, and none."""
    probabilities = np.full((4, len(VOCABULARY)), 0.002, np.float32)
    for row, said in zip(probabilities, FRAMES, strict=True):
        for token, probability in said.items():
            row[VOCABULARY.encode([token])] = probability
        row[0] = 1 - row[1:].sum()
    values = np.log(np.stack([probabilities, probabilities]))
    return Logits(values, np.array([4, 0], np.int32))


def decoded(logits, settings, converter=None, writes_hanzi=True):
    search = make_search(VOCABULARY, 0.08, settings, converter=converter)
    decoder = Decoder(search, TextWriter(VOCABULARY, converter if writes_hanzi else None))
    return decoder.segments(search.reduce(logits), [0.32, 0.0])


def test_greedy_decoding_takes_the_best_label_of_each_frame(logits, converter):
    best, empty = decoded(logits, DecoderSettings(), converter=converter)
    assert best.tokens == ("ni3", "hao2")
    assert best.times_s == (0.0, 0.16)
    assert best.confidences == pytest.approx((0.9, 0.52), abs=1e-5)
    assert (empty.tokens, empty.text, empty.words) == ((), "", ())


def test_rescoring_by_words_reorders_the_hypotheses_of_the_search(logits, converter):
    settings = DecoderSettings(beam=8, n_best=2)
    best, empty = decoded(logits, settings, converter=converter)
    assert (best.tokens, best.text) == (("ni3", "hao3"), "你好")
    assert best.times_s == (0.0, 0.16)
    assert best.alternatives[0].tokens == ("ni3", "hao2")
    assert best.alternatives[0].score > best.score
    assert len(best.confidences) == 2
    assert (empty.tokens, empty.text, empty.confidences) == ((), "", ())


def test_text_in_syllables_is_that_of_the_rescored_hypothesis(logits, converter):
    settings = DecoderSettings(beam=8)
    assert decoded(logits, settings, converter, writes_hanzi=False)[0].text == "ni3 hao3"


def test_a_rescored_hypothesis_has_the_confidence_of_the_best_one(logits, converter):
    """A hypothesis chosen by words has a lower score than another, which must not lower its confidences."""
    language_model = NGramModel.of_ngrams(
        ["<unk>", "<s>", "</s>", *VOCABULARY.tokens[1:]],
        [
            NGrams(np.arange(7)[:, None], np.full(7, -0.8, np.float32), np.zeros(7, np.float32)),
            NGrams(np.array([[1, 5]]), np.array([-0.5], np.float32), np.zeros(1, np.float32)),
        ],
    )
    settings = DecoderSettings(beam=8)
    search = BeamSearch(VOCABULARY, settings, language_model)
    candidates = search.decode(logits.values[:1], logits.num_frames[:1])[0]
    chosen = WordChoice(search, converter).best_first(candidates, logits.values[0])
    assert VOCABULARY.decode(chosen[0].ids) == ("ni3", "hao3")
    assert chosen[0].score < candidates[0].score
    confidences = token_confidences(chosen, align_tokens(logits.values[0], chosen[0].ids))
    assert min(confidences) > 0.4


def test_rescoring_with_weight_0_keeps_the_order(logits, converter):
    settings = DecoderSettings(beam=8, n_best=3, hanzi_weight=0.0)
    best, _ = decoded(logits, settings, converter=converter)
    assert best.tokens == ("ni3", "hao2")
    scores = [best.score, *(other.score for other in best.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3


def test_beam_search_scores_sum_over_alignments(logits):
    best, _ = decoded(logits, DecoderSettings(beam=64))
    greedy, _ = decoded(logits, DecoderSettings())
    assert best.tokens == greedy.tokens
    assert best.text == "ni3 hao2"
    assert best.acoustic_score == pytest.approx(best.score)
    assert greedy.acoustic_score < best.acoustic_score < 0


def test_decoder_with_alternatives_searches_and_is_otherwise_the_same(logits, converter):
    greedy = Decoder(make_search(VOCABULARY, 0.08, DecoderSettings()), TextWriter(VOCABULARY, converter))
    changed = greedy.with_(n_best=3)
    best, _ = changed.segments(changed.search.reduce(logits), [0.32, 0.0])
    assert (best.text, len(best.alternatives)) == ("你好", 2)
    more = changed.with_(n_best=2)
    assert len(more.segments(more.search.reduce(logits), [0.32, 0.0])[0].alternatives) == 2


def test_decoder_favours_hot_words_of_its_own(logits):
    greedy = Decoder.greedy(VOCABULARY, 0.08)
    favouring = greedy.with_(HotWords.of(["ni3 zhong1\t3"], VOCABULARY))
    best, _ = favouring.segments(favouring.search.reduce(logits), [0.32, 0.0])
    assert best.tokens == ("ni3", "zhong1")
    kept = favouring.with_(n_best=2)
    assert kept.segments(kept.search.reduce(logits), [0.32, 0.0])[0].tokens == ("ni3", "zhong1")
