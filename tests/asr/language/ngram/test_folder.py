"""A folder of language models provides the one that fits an acoustic model; others are refused."""

import numpy as np
import pytest

from asr.base.errors import UserError
from asr.base.text.pinyin import is_syllable, mandarin_syllables
from asr.base.vocabulary import Vocabulary
from asr.language.ngram.folder import (
    ModelInfo,
    UnitInfo,
    converts_to_hanzi,
    fusion_model,
    is_over_words,
    model_path,
    pronunciations_path,
    read_info,
    units_in,
    write_info,
)
from asr.language.ngram.model import NGramModel, NGrams
from asr.language.ngram.model_file import load_model, save_model

SYLLABLES = ("ni3", "hao3", "ma5")
CHARACTERS = ("你", "好", "吗")


def save(path, words):
    words = ("<unk>", "<s>", "</s>", *words)
    ids = np.arange(len(words), dtype=np.int32)[:, None]
    zeros = np.zeros(len(words), np.float32)
    pairs = NGrams(np.array([[1, 2]], np.int32), np.full(1, -0.5, np.float32), zeros[:1])
    save_model(path, NGramModel.of_ngrams(words, [NGrams(ids, zeros - 1, zeros), pairs]))
    return path


@pytest.fixture
def folder(tmp_path):
    save(model_path(tmp_path, "syllables"), SYLLABLES)
    save(model_path(tmp_path, "characters"), CHARACTERS)
    return tmp_path


def test_the_model_over_the_vocabularys_unit_is_loaded_from_a_folder(folder):
    assert units_in(folder) == ("syllables", "characters")
    for tokens in (SYLLABLES, CHARACTERS):
        assert fusion_model(folder, Vocabulary(tokens)).words[3:] == list(tokens)


def test_a_folder_without_the_unit_is_refused_with_the_units_it_has(folder):
    with pytest.raises(UserError, match=r"expected words\.klm.*received syllables, characters; "):
        fusion_model(folder, Vocabulary(("你好", "好吗", "吗")))


def test_a_language_model_file_may_have_any_name(tmp_path):
    path = save(tmp_path / "lm", SYLLABLES)
    assert fusion_model(path, Vocabulary(SYLLABLES)).words[3:] == list(SYLLABLES)


@pytest.mark.parametrize(
    "words", [CHARACTERS, ("ni", "hao", "ma"), ("你好", "好吗", "吗"), ("bu4", "shi4", "de5", "ta1")]
)
def test_a_model_of_another_unit_set_is_refused_with_samples_of_both(words, tmp_path):
    path = save(tmp_path / "lm.klm", words)
    with pytest.raises(
        UserError, match=r"unit set.*expected words such as ni3, hao3, ma5, received such as"
    ) as error:
        fusion_model(path, Vocabulary(SYLLABLES))
    assert f"received such as {', '.join(words)}; train" in str(error.value)


def test_a_model_over_words_is_refused_even_if_all_characters_are_words(tmp_path):
    path = save(tmp_path / "lm.klm", (*CHARACTERS, "你好", "好吗"))
    with pytest.raises(UserError, match="3 of the acoustic model's 3 characters"):
        fusion_model(path, Vocabulary(CHARACTERS))


def test_a_model_may_lack_some_tokens_and_have_others(tmp_path):
    path = save(tmp_path / "lm.klm", (*SYLLABLES, "ta1", "men5"))
    vocabulary = Vocabulary((*SYLLABLES, "lv4", "nve4"))
    assert fusion_model(path, vocabulary).ids_of(vocabulary.tokens).tolist() == [0, 3, 4, 5, 0, 0]


MANDARIN = [token for token in mandarin_syllables() if is_syllable(token)]
STRANGE = [f"{initial}{final}9{tone}" for initial in "bpmf" for final in "aeiou" for tone in "12345"]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(MANDARIN, MANDARIN[::6]), (MANDARIN[::6], MANDARIN), (MANDARIN, [*MANDARIN[:40], *STRANGE[:60]])],
    ids=["a small model", "a small vocabulary", "a third shared"],
)
def test_a_small_model_or_vocabulary_is_accepted(tokens, words, tmp_path):
    path = save(tmp_path / "lm.klm", words)
    assert len(fusion_model(path, Vocabulary(tokens)).words) == 3 + len(words)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(MANDARIN, [*MANDARIN[:20], *STRANGE]), ([*MANDARIN[:20], *STRANGE], MANDARIN), (MANDARIN, [])],
    ids=["a small model", "a small vocabulary", "an empty model"],
)
def test_a_model_that_shares_few_tokens_is_refused(tokens, words, tmp_path):
    path = save(tmp_path / "lm.klm", words)
    with pytest.raises(UserError, match=f" {20 if words else 0} of the acoustic model's"):
        fusion_model(path, Vocabulary(tokens))


PIECES = Vocabulary(("▁", "▁no", "t", "n", "o", "e"))
MIXED = Vocabulary(("ma1", "hao3", "A", "▁no", "n", "o", "t", "▁"))


@pytest.mark.parametrize(
    ("vocabulary", "words"),
    [
        (PIECES, ("not", "one", "NOTE", "zebra")),
        (PIECES, ("NO", "ONE")),
        (MIXED, ("ma1", "A", "not", "zebra")),
    ],
)
def test_a_model_over_the_words_that_tokens_spell_is_accepted(vocabulary, words, tmp_path):
    assert fusion_model(save(tmp_path / "lm.arpa", words), vocabulary).words[3:] == list(words)


@pytest.mark.parametrize(
    ("vocabulary", "words", "spelled"),
    [
        (PIECES, ("zebra", "cat", "dog", "no"), "spell 1 of its 4 words"),
        (PIECES, CHARACTERS, "spell 0 of its 3 words"),
        (PIECES, (), "spell 0 of its 0 words"),
        (MIXED, ("not", "one"), "spell 1 of its 2 words"),  # without a syllable
        (MIXED, ("ma1", "hao3"), "spell 2 of its 2 words"),  # without a Latin word
    ],
)
def test_a_model_over_other_words_is_refused(vocabulary, words, spelled, tmp_path):
    path = save(tmp_path / "lm.klm", words)
    with pytest.raises(UserError, match=f"{spelled}.*--units {vocabulary.unit},words"):
        fusion_model(path, vocabulary)


def test_a_model_over_pieces_differs_from_one_over_words_by_the_mark_of_its_pieces(tmp_path):
    def is_over(words, vocabulary):
        return is_over_words(load_model(save(tmp_path / "lm.arpa", words)), vocabulary)

    assert is_over(("no", "not"), PIECES)
    assert not is_over(("▁no", "t"), PIECES)
    assert not is_over(("no", "not"), Vocabulary(("no", "not")))


def test_words_are_taken_rather_than_pieces_unless_they_are_for_hanzi(tmp_path):
    save(model_path(tmp_path, "pieces"), PIECES.tokens[1:])
    assert fusion_model(tmp_path, PIECES).words[3:] == list(PIECES.tokens[1:])
    save(model_path(tmp_path, "words"), ("not", "one"))
    assert fusion_model(tmp_path, PIECES).words[3:] == ["not", "one"]
    pronunciations_path(tmp_path).write_text("你\tni3\t0.0\n", encoding="utf-8")
    assert fusion_model(tmp_path, PIECES).words[3:] == list(PIECES.tokens[1:])


def test_conversion_to_hanzi_needs_words_and_pronunciations(folder):
    assert not converts_to_hanzi(folder)
    pronunciations_path(folder).write_text("你\tni3\t0.0\n", encoding="utf-8")
    assert not converts_to_hanzi(folder)
    save(model_path(folder, "words"), ("你好",))
    assert converts_to_hanzi(folder)
    assert not converts_to_hanzi(model_path(folder, "words"))


def test_a_written_folder_description_is_read_unchanged(tmp_path):
    units = {"syllables": UnitInfo(100, 10, (5, 7, 3), ((0.5, 0.75, 1.0),) * 3)}
    info = ModelInfo("2026-01-02T03:04:05+00:00", ("新闻.txt",), units, 12)
    write_info(tmp_path, info)
    assert read_info(tmp_path) == info


@pytest.mark.parametrize(
    "text", ["", "[]", '{"created": "today"}', '{"created": "", "texts": 3, "units": {}}']
)
def test_a_malformed_folder_description_is_refused(text, tmp_path):
    (tmp_path / "info.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"info\.json: expected what `asr lm train` writes"):
        read_info(tmp_path)


def test_a_missing_folder_description_is_reported(tmp_path):
    with pytest.raises(UserError, match="expected a folder that `asr lm train` made"):
        read_info(tmp_path)
