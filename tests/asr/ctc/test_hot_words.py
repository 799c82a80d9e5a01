"""Checks how hot words are parsed into tokens, and that boosts are exact."""

import itertools
import tracemalloc

import numpy as np
import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.text.pieces import learn_pieces
from asr.base.text.units import AS_MANY_AS_POSSIBLE, LearnedUnits
from asr.base.vocabulary import Vocabulary
from asr.ctc.beam_search import BeamSearch
from asr.ctc.hot_words import HotWords
from asr.ctc.prefixes import hot_word_step
from data_pipeline.labels.from_text import label

SYLLABLES = Vocabulary(["bei3", "da4", "hang2", "jing1", "xing2", "xue2", "yin2", "ying2"])


def boost_by_definition(ids, weights):
    """Return the boost by its definition: from left to right, the longest word that begins at each place."""
    total, place = 0.0, 0
    while place < len(ids):
        words = [word for word in weights if ids[place : place + len(word)] == word]
        if words:
            longest = max(words, key=len)
            total += len(longest) * weights[longest]
            place += len(longest)
        else:
            place += 1
    return total


@pytest.mark.parametrize(
    "weights",
    [
        {(1, 2, 3): 1.0},
        {(1,): 1.0, (1, 2, 3): 2.0, (2, 3): 1.0, (3, 3): 0.5},
        {(1, 2, 1, 2, 3): 1.0, (2, 1): 4.0, (1, 2): 0.25},
        {(1, 1, 1, 2): 1.0, (1, 1): 1.0},
        {(3, 2): 1.0, (3, 2, 1, 3): 0.1, (1, 3, 1): 3.0, (2, 1): 1.0},
    ],
)
def test_boosts_count_whole_words_the_longest_first(weights):
    tables = HotWords(weights).tables(2.0)
    for ids in itertools.product((1, 2, 3), repeat=8):
        state, total = 0, 0.0
        for token in ids:
            most = tables.most[state]
            state, boost = hot_word_step(tables, state, token)
            assert boost <= most + 1e-9
            total += boost
        total += tables.final[state] - tables.lent[state]
        assert total == pytest.approx(2.0 * boost_by_definition(ids, weights), abs=1e-9)


def test_boosts_of_random_words_equal_the_definition():
    draw = np.random.default_rng(1)
    for _ in range(60):
        words = {tuple(draw.integers(1, 4, draw.integers(1, 6)).tolist()) for _ in range(6)}
        weights = {word: float(draw.uniform(0.1, 3)) for word in words}
        tables = HotWords(weights).tables(1.0)
        ids = tuple(draw.integers(1, 4, 200).tolist())
        state, total = 0, 0.0
        for token in ids:
            state, boost = hot_word_step(tables, state, token)
            total += boost
        total += tables.final[state] - tables.lent[state]
        assert total == pytest.approx(boost_by_definition(ids, weights), abs=1e-6)


def test_scores_of_finished_candidates_include_the_boost():
    weights = {(1, 2): 1.0, (2, 3, 1): 2.0, (3,): 0.5}
    settings = DecoderSettings(beam=4096, min_token_log_prob=-1e9, beam_width=1e9, hot_word_boost=1.5)
    search = BeamSearch(Vocabulary("abc"), settings, hot_words=HotWords(weights))
    flat = np.full((1, 6, 4), np.log(0.25), np.float32)
    candidates = search.decode(flat, np.array([6]))[0]
    assert len(candidates) > 300
    for candidate in candidates:
        boost = candidate.score - candidate.acoustic
        assert boost == pytest.approx(1.5 * boost_by_definition(candidate.ids, weights), abs=1e-9)


def test_an_incomplete_word_has_no_boost_in_the_midst_of_an_utterance_or_at_its_end():
    settings = DecoderSettings(beam=64, hot_word_boost=1.0)
    search = BeamSearch(Vocabulary("abc"), settings, hot_words=HotWords({(1, 2, 3): 1.0}))
    state = search.start()
    search.feed(state, np.log(np.array([[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1]], np.float32)))
    for finished in (False, True):
        best = next(c for c in search.candidates(state, finished) if c.ids == (1, 2))
        assert best.score == best.acoustic


SAID = (3, 4, 5, 6, 4, 3)


@pytest.fixture
def said_with_a_hint_of_the_first_token():
    """Give (1, T, V) log probabilities of `SAID`, where token 1 may be within the second and the last."""
    rows = np.full((2 * len(SAID), 7), 1e-6)
    rows[::2, 0] = rows[range(1, len(rows), 2), SAID] = 1.0
    rows[[3, -1], 1] = 0.01
    return np.log(rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)[None]


@pytest.mark.parametrize("beam", [2, 4, 16, 64])
@pytest.mark.parametrize("weight", [1, 3, 8, 20, 50, 1e6])
@pytest.mark.parametrize("word", [(1, 2), (1, 2, 2, 1)])
def test_a_hot_word_that_is_only_begun_takes_nothing_from_what_was_said(
    said_with_a_hint_of_the_first_token, word, weight, beam
):
    search = BeamSearch(Vocabulary("abcdef"), DecoderSettings(beam=beam), hot_words=HotWords({word: weight}))
    log_probs = said_with_a_hint_of_the_first_token
    assert search.decode(log_probs, np.array([log_probs.shape[1]]))[0][0].ids == SAID


@pytest.mark.parametrize("weight", [3, 20, 1e6])
def test_hot_words_of_any_weight_add_nothing_that_the_sound_excludes(weight):
    draw = np.random.default_rng(7)
    logits = draw.normal(0, 4, (1, 60, 7)).astype(np.float32)
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    settings = DecoderSettings(beam=16, beam_width=6.0)
    plain, favoured = (
        BeamSearch(Vocabulary("abcdef"), settings, hot_words=words).decode(log_probs, np.array([60]))[0][0]
        for words in (None, HotWords({(1, 2): weight, (3, 5, 2): weight}))
    )
    assert favoured.ids != plain.ids
    assert favoured.acoustic > plain.acoustic - settings.beam_width - 0.1


def test_equal_results_without_hot_words_and_with_words_that_never_begin():
    log_probs = np.log(np.random.default_rng(8).dirichlet(np.ones(7), 40)).astype(np.float32)[None]
    log_probs[:, :, 6] = -np.inf
    settings = DecoderSettings(beam=8)
    plain, other = (
        BeamSearch(Vocabulary("abcdef"), settings, hot_words=words).decode(log_probs, np.array([40]))[0]
        for words in (None, HotWords({(6, 1): 50.0}))
    )
    assert plain[0] == other[0]


def test_a_boosted_word_wins_over_a_more_probable_token():
    rows = np.array([[0.05, 0.9, 0.05, 0.0], [0.05, 0.0, 0.6, 0.35], [0.9, 0.05, 0.05, 0.0]])
    log_probs = np.log(np.maximum(rows, 1e-6)).astype(np.float32)[None]
    plain = BeamSearch(Vocabulary("abc"), DecoderSettings(beam=8))
    favoured = BeamSearch(Vocabulary("abc"), DecoderSettings(beam=8), hot_words=HotWords({(1, 3): 1.0}))
    assert plain.decode(log_probs, np.array([3]))[0][0].ids == (1, 2)
    assert favoured.decode(log_probs, np.array([3]))[0][0].ids == (1, 3)


def test_hanzi_are_matched_by_their_pinyin():
    words = HotWords.of(["银行", "", "北京大学\t2.5"], SYLLABLES, label)
    yin_hang, beijing = ["yin2", "hang2"], ["bei3", "jing1", "da4", "xue2"]
    assert words.weights == {
        tuple(SYLLABLES.encode(yin_hang)): 1.0,
        tuple(SYLLABLES.encode(beijing)): 2.5,
    }
    assert HotWords.of(["吟航"], SYLLABLES, label).weights == {tuple(SYLLABLES.encode(yin_hang)): 1.0}


def test_homophones_get_the_larger_weight():
    words = HotWords.of(["银行\t2", "吟航\t3", "yin2 hang2"], SYLLABLES, label)
    assert list(words.weights.values()) == [3.0]


def test_a_word_can_be_written_as_tokens():
    words = HotWords.of(["yin2 xing2\t0.5"], SYLLABLES)
    assert words.weights == {tuple(SYLLABLES.encode(["yin2", "xing2"])): 0.5}


def test_words_are_spelled_in_a_vocabulary_of_characters():
    hanzi = Vocabulary("北京银行")
    assert HotWords.of(["北京 银行"], hanzi).weights == {(1, 2, 3, 4): 1.0}
    letters = Vocabulary([*"abcdnorw", "▁"])
    assert HotWords.of(["Word Canoe".replace("e", "")], letters).weights == {
        tuple(letters.encode("word▁cano")): 1.0
    }


@pytest.mark.parametrize(
    ("word", "unit", "texts"),
    [
        ("STOP", "words", ["stop now"]),
        ("go, left", "words", ["go left"]),
        ("O’Brien", "characters", ["o'brien is here"]),
        ("《北京》", "characters", ["北京 好"]),
        ("ＡＢＣ", "characters", ["abc def"]),
        ("U.S.", "characters", ["u s a"]),
        ("Turn It", "pieces", ["turn it on"] * 3),
    ],
)
def test_words_are_written_as_usual_in_any_unit(word, unit, texts):
    if unit == "pieces":
        vocabulary = Vocabulary.of_pieces(learn_pieces(texts, LearnedUnits("bpe", AS_MANY_AS_POSSIBLE)))
        expected = vocabulary.expect_pieces().encode("turn it")
    else:
        vocabulary = Vocabulary(dict.fromkeys(token for text in texts for token in label(text, unit)))
        assert vocabulary.unit == unit
        expected = [token for token in label(word, unit) if token in vocabulary]
    assert HotWords.of([word], vocabulary, label).weights == {tuple(vocabulary.encode(expected)): 1.0}


def test_signs_that_a_vocabulary_has_may_be_in_hot_words():
    vocabulary = Vocabulary(["c", "+", "a"])
    assert HotWords.of(["C+"], vocabulary, label).weights == {(1, 2): 1.0}


def test_words_are_split_at_spaces_in_a_vocabulary_of_words():
    assert HotWords.of(["new york"], Vocabulary(["new", "york", "old"])).weights == {(1, 2): 1.0}


def test_lines_that_cannot_be_used_are_listed_with_reasons(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("银行\n上海\n北京\tmuch\n北京\t-1\nABC\n\t2\nyin2 hang3\n", encoding="utf-8")
    hot_words = HotWords.load(path, SYLLABLES, label)
    assert len(hot_words.weights) == 1
    message = hot_words.left_out
    assert message.startswith("6 hot words cannot be used:")
    for named in (
        "line 2, '上海': label 'shang4'",
        "line 3, '北京': expected a weight above 0",
        "line 4, '北京': expected a weight above 0",
        "line 5, 'ABC': ",
        "line 6, '': expected a word",
        "line 7, 'yin2 hang3': label 'hang3'",
    ):
        assert named in message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_list_is_read_in_any_common_encoding(encoding, tmp_path):
    (tmp_path / "words.txt").write_bytes("银行\r\n\r\n北京\t2\r\n".encode(encoding))
    expected = HotWords.of(["银行", "北京\t2"], SYLLABLES, label).weights
    assert HotWords.load(tmp_path / "words.txt", SYLLABLES, label).weights == expected


def test_a_long_list_of_unusable_lines_is_shortened():
    with pytest.raises(UserError, match="25 hot words cannot be used") as raised:
        HotWords.of(["上海"] * 25, SYLLABLES, label)
    assert str(raised.value).endswith("and 15 more")


def test_a_list_without_words_is_an_error(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n\n", encoding="utf-8")
    with pytest.raises(UserError, match="no hot words"):
        HotWords.load(path, SYLLABLES, label)


def test_long_word_takes_time_and_memory_of_its_length():
    long_word = (1, 2) * 10_000 + (3,)
    tracemalloc.start()
    tables = HotWords({long_word: 1.0, (1, 2, 1, 4): 1.0, (2, 1): 0.5}).tables(1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2000 * len(long_word)  # bytes; its prefixes have 80,000 for each token
    assert len(tables.fails) == len(long_word) + 1 + 1 + 2
    state, total = 0, 0.0
    for token in (1, 2, *long_word):
        state, boost = hot_word_step(tables, state, token)
        total += boost
    assert total + tables.final[state] - tables.lent[state] == pytest.approx(0.5 * 2 * 10_000)


def test_hot_words_are_in_the_unit_that_the_vocabulary_has_everywhere_else():
    mixed = Vocabulary(["bei3", "jing1", "yin2", "phone", "mobile"])
    assert mixed.unit == "words"
    with pytest.raises(UserError, match="北京"):
        HotWords.of(["北京"], mixed, label)


def test_hot_words_of_a_script_with_vowel_signs_are_its_characters():
    hindi = Vocabulary(["हि", "न्", "दी"])
    assert hindi.unit == "characters"
    assert list(HotWords.of(["हिन्दी"], hindi).weights) == [(1, 2, 3)]


def test_reading_hot_words_reports_how_many_lines_are_done(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("银行\n" * 400, encoding="utf-8")
    reports = []
    HotWords.load(path, SYLLABLES, label, reports.append)
    assert [work.done for work in reports] == [*range(0, 400, 2), 400]
    assert {(work.task, work.total) for work in reports} == {("reading hot words", 400)}


def test_hot_words_of_characters_keep_vowel_signs_on_their_character():
    characters = Vocabulary(["न", "म", "स्", "ते"])
    assert HotWords.of(["नमस्ते"], characters).weights == {(1, 2, 3, 4): 1.0}
