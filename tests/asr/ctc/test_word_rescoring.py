"""Checks how words choose among the syllables that a search over sound leaves open."""

import itertools

import numpy as np
import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.ctc.beam_search import BeamSearch
from asr.ctc.forced_alignment import label_losses
from asr.ctc.hot_words import HotWords
from asr.ctc.search import NBestSearch
from asr.ctc.word_rescoring import WordChoice, alternatives
from asr.language.hanzi.converter import Converter
from asr.language.ngram.folder import fusion_model
from asr.language.ngram.model import NGramModel, NGrams

SYLLABLES = ["wo3", "men5", "ming2", "tian1", "qu4", "bei3", "jing1"]
WRONG = ["wo1", "men4", "ming4", "tian4", "qu2", "bei4", "jing3"]
VOCABULARY = Vocabulary([*SYLLABLES, *WRONG])


@pytest.fixture(scope="module")
def converter():
    return Converter.load()


def frames(*said, noise=1e-4):
    """Return log probabilities of frames, each followed by one of silence, given what may be said in each."""
    rows = []
    for probabilities in itertools.chain(*((one, {}) for one in said)):
        row = np.full(len(VOCABULARY), noise)
        for token, probability in probabilities.items():
            row[VOCABULARY.encode([token])] = probability
        row[0] += 1.0 - row.sum()
        rows.append(row)
    return np.log(np.array(rows)).astype(np.float32)


def doubtful(wrong=0.52, right=0.44):
    """Return seven syllables, of each of which another is more probable."""
    return frames(*({bad: wrong, good: right} for good, bad in zip(SYLLABLES, WRONG, strict=True)))


def chosen(log_probs, converter, model=None, hot_words=None, **settings):
    search = BeamSearch(VOCABULARY, DecoderSettings(**{"beam": 2} | settings), model, hot_words)
    candidates = search.decode(log_probs[None], np.array([len(log_probs)]))[0]
    return candidates, WordChoice(search, converter).best_first(candidates, log_probs)


def tokens_of(candidate):
    return VOCABULARY.decode(candidate.ids)


def test_words_find_a_sentence_that_is_not_in_the_beam(converter):
    log_probs = doubtful()
    before, after = chosen(log_probs, converter)
    assert tokens_of(before[0]) == tuple(WRONG)
    assert all(tokens_of(one) != tuple(SYLLABLES) for one in before)
    assert tokens_of(after[0]) == tuple(SYLLABLES)
    assert list(after[1:]) == list(before)


def test_chosen_sentence_has_the_score_of_all_its_alignments(converter):
    log_probs = doubtful()
    _, (first, *_) = chosen(log_probs, converter)
    ids = np.array([first.ids], np.int32)
    loss = label_losses((log_probs[None], np.array([len(log_probs)])), ids, np.array([len(first.ids)]))
    assert first.acoustic == first.score == pytest.approx(-loss[0], abs=1e-4)


def test_sound_wins_where_it_is_sure(converter):
    _, (first, *_) = chosen(doubtful(wrong=0.99, right=1e-4), converter)
    assert tokens_of(first) == tuple(WRONG)


def test_scores_of_alternatives_are_sums_over_all_alignments():
    said = [{"ming2": 0.3, "ming4": 0.2}, {"ming2": 0.2, "tian1": 0.1}, {"ming4": 0.1}]
    log_probs = frames(*said, noise=0.01)[[0, 2, 3, 4]]
    ((ids, scores),) = alternatives(tuple(VOCABULARY.encode(["ming2"])), log_probs)
    assert sorted(ids) == list(range(len(VOCABULARY)))  # each syllable, and none
    labels, lengths = np.array(ids, np.int32)[:, None], np.sign(ids)
    rows = np.repeat(log_probs[None], len(ids), axis=0)
    assert scores == pytest.approx((-label_losses((rows, np.full(len(ids), 4)), labels, lengths)).tolist())


def test_words_count_by_their_weight(converter):
    log_probs = doubtful(wrong=0.9, right=0.05)
    for weight, expected in ((0.1, WRONG), (2.0, SYLLABLES)):
        _, (first, *_) = chosen(log_probs, converter, hanzi_weight=weight)
        assert tokens_of(first) == tuple(expected)


def test_weight_0_keeps_the_order(converter):
    before, after = chosen(doubtful(), converter, hanzi_weight=0.0)
    assert list(after) == list(before)


def with_one_too_many():
    """Return the frames of 我们 jing3 明天去北京, where other tones are more probable."""
    said = [{bad: 0.52, good: 0.44} for good, bad in zip(SYLLABLES, WRONG, strict=True)]
    return frames(*said[:2], {"jing3": 0.55}, *said[2:])


def test_syllable_that_forms_no_word_may_be_none(converter):
    before, (first, *_) = chosen(with_one_too_many(), converter)
    assert tokens_of(before[0]) == (*WRONG[:2], "jing3", *WRONG[2:])
    assert tokens_of(first) == tuple(SYLLABLES)


def test_hot_words_stay_as_the_search_found_them(converter):
    hot_words = HotWords.of(["bei4 jing3\t1"], VOCABULARY)
    before, (first, *_) = chosen(doubtful(), converter, hot_words=hot_words)
    assert tokens_of(first) == (*SYLLABLES[:5], "bei4", "jing3")
    assert first.score - first.acoustic == pytest.approx(before[0].score - before[0].acoustic)
    _, (first, *_) = chosen(doubtful(), converter, hot_words=hot_words, hot_word_boost=0.0)
    assert tokens_of(first) == tuple(SYLLABLES)


@pytest.fixture
def language_model():
    """Return one to which all syllables are nearly the same."""
    words = ["<unk>", "<s>", "</s>", *VOCABULARY.tokens[1:]]
    all_zero = np.zeros(len(words), np.float32)
    pair = NGrams(np.array([[1, 3]]), np.array([-1.0], np.float32), np.zeros(1, np.float32))
    return NGramModel.of_ngrams(
        words, [NGrams(np.arange(len(words))[:, None], all_zero - 1.2, all_zero), pair]
    )


def test_with_a_model_of_other_text_words_choose_among_the_candidates(converter, language_model):
    before, after = chosen(doubtful(), converter, language_model, beam=8)
    assert set(after) == set(before)
    assert after[0] != before[0]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return two folders of `asr lm train`, of which the first knows the sentence."""
    made = []
    for text in ("我们明天去北京", "今天天气很好，我们去北京"):
        folder = tmp_path_factory.mktemp("lm")
        (folder / "text.txt").write_text(f"{text}\n", encoding="utf-8")
        assert main(["lm", "train", str(folder / "text.txt"), "--out", str(folder / "lm")]) == 0
        made.append(folder / "lm")
    return made


def with_model(folder, words, log_probs=None, **settings):
    log_probs = doubtful() if log_probs is None else log_probs
    model = fusion_model(folder, VOCABULARY)
    settings = {"language_model": str(folder), "lm_weight": 0.01, "token_bonus": 0.5} | settings
    return model, *chosen(log_probs, Converter.load(words), model, **settings)


def test_with_a_model_whose_words_are_known_they_choose_among_the_alternatives(folders):
    model, before, (first, *_) = with_model(folders[0], folders[0])
    assert all(tokens_of(one) != tuple(SYLLABLES) for one in before)
    assert tokens_of(first) == tuple(SYLLABLES)
    assert first.language == pytest.approx(sum(model.log_probs(SYLLABLES)))
    assert first.score == pytest.approx(first.acoustic + 0.01 * first.language + 0.5 * len(SYLLABLES))


def test_fewer_syllables_have_fewer_bonuses(folders):
    _, (before, *_), (first, *_) = with_model(folders[0], folders[0], with_one_too_many(), token_bonus=2.0)
    assert len(before.ids) == len(first.ids) + 1
    assert first.score == pytest.approx(first.acoustic + 0.01 * first.language + 2.0 * len(first.ids))


def test_words_of_another_text_choose_among_the_candidates(folders):
    _, before, after = with_model(folders[0], folders[1])
    assert set(after) == set(before)


def test_a_sentence_of_the_beam_keeps_the_score_that_it_has_there(folders):
    _, before, (first, *_) = with_model(folders[0], folders[0], beam=512, beam_width=100.0)
    assert tokens_of(first) == tuple(SYLLABLES)
    assert first in before
    assert first != before[0]


def test_equal_neighbours_that_have_no_frame_between_them_are_not_chosen(converter):
    log_probs = frames({"tian1": 0.9}, {"tian4": 0.6, "tian1": 0.35})
    _, (first, *_) = chosen(log_probs, converter)
    assert tokens_of(first) == ("tian1", "tian1")  # 天天
    without_silence = log_probs[::2]
    _, (first, *_) = chosen(without_silence, converter)
    assert tokens_of(first) == ("tian1", "tian4")


def test_silence_has_no_words(converter):
    before, after = chosen(frames({}, {}), converter)
    assert list(after) == list(before)
    assert after[0].ids == ()


def test_stream_calls_nothing_final_that_words_may_change(converter):
    log_probs = doubtful()
    search = NBestSearch(BeamSearch(VOCABULARY, DecoderSettings(beam=2)), 0.04, converter)
    state = search.start()
    search.feed(state, log_probs)
    assert search.partial(state) == (tuple(WRONG), 0)
    (best,) = search.finish(state)
    assert best.tokens == tuple(SYLLABLES)
    assert best.confidences == pytest.approx([0.44] * 7, abs=0.01)  # by the sound
