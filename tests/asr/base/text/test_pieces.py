"""Pieces of words are learned from text, and in a row they are the text."""

import random

import pytest
from sentencepiece import SentencePieceTrainer

from asr.base.errors import UserError
from asr.base.text.pieces import UNITS_MODEL, Pieces, learn_pieces, text_of_pieces
from asr.base.text.units import LearnedUnits, read_units, unit_of
from asr.base.vocabulary import Vocabulary
from asr.export.folder import write_tokens

WORDS = ("turn", "turning", "the", "light", "lights", "lightest", "on", "don't", "twenty-one", "naïve")
LEARNED = LearnedUnits("bpe", 60)


@pytest.fixture(scope="module")
def texts():
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=6)) for _ in range(80)]


@pytest.mark.parametrize("units", [LEARNED, LearnedUnits("unigram", 30)])
def test_as_many_pieces_are_learned_as_were_asked_for_and_they_are_the_text(texts, units):
    pieces = learn_pieces(texts, units)
    assert len(pieces.tokens) == len(set(pieces.tokens)) == units.number
    assert unit_of(pieces.tokens) == "pieces"
    for text in (*texts, "no one thought", "t"):
        assert text_of_pieces(pieces.encode(text)) == text
        assert set(pieces.encode(text)) <= {*pieces.tokens}
    assert max(map(len, pieces.encode("turn the lights"))) > 3  # not letters alone


def test_the_same_text_gives_the_same_model(texts, tmp_path):
    for name in ("a", "b"):
        learn_pieces(texts, LEARNED).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_saved_model_splits_as_before_and_names_what_it_does_not_know(texts, tmp_path):
    pieces = learn_pieces(texts, LEARNED)
    pieces.save(tmp_path / "units.model")
    loaded = Pieces.load(tmp_path / "units.model")
    assert loaded.encode("turning lights") == pieces.encode("turning lights")
    assert loaded.unknown_characters("turn jazz on jam") == "jzm"
    assert loaded.unknown_characters("turn on") == ""


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (LearnedUnits("bpe", 3), "bpe:3: .* 20 different characters"),
        (LearnedUnits("bpe", 20), "no piece is longer than a character"),
        (LearnedUnits("unigram", 5000), "unigram:5000: .* too few different words for 5,000 pieces"),
    ],
)
def test_a_number_that_the_text_does_not_allow_is_refused(texts, units, message):
    with pytest.raises(UserError, match=message):
        learn_pieces(texts, units)


def test_the_largest_number_that_an_error_names_can_be_learned(texts):
    with pytest.raises(UserError) as error:
        learn_pieces(texts, LearnedUnits("bpe", 5000))
    largest = read_units(str(error.value).split("`")[1])
    assert len(learn_pieces(texts, largest).tokens) == largest.number


def test_what_is_not_a_model_is_refused(tmp_path):
    (tmp_path / "units.model").write_bytes(b"[data]\n")
    with pytest.raises(UserError, match=r"units.model: expected a model of sentencepiece"):
        Pieces.load(tmp_path / "units.model")
    with pytest.raises(UserError, match=r"other.model: cannot read"):
        Pieces.load(tmp_path / "other.model")
    with pytest.raises(UserError, match="no pieces can be learned from 0 texts"):
        learn_pieces([], LEARNED)


@pytest.mark.parametrize("wrong", ["bpe", "bpe:0", "bpe:five", "wordpiece:500", "BPE:500", ""])
def test_units_that_do_not_exist_are_refused(wrong):
    with pytest.raises(UserError, match="such as bpe:500"):
        read_units(wrong)


def test_published_model_does_not_name_the_files_that_it_is_from(tmp_path):
    text = tmp_path / "customers.txt"
    text.write_text("turn the light on\nturn it off\n" * 20, encoding="utf-8")
    prefix = tmp_path / "mine"
    SentencePieceTrainer.train(
        input=str(text), model_prefix=str(prefix), vocab_size=25, model_type="bpe", minloglevel=1
    )
    pieces = Pieces.load(prefix.with_suffix(".model"))
    write_tokens(tmp_path, Vocabulary.of_pieces(pieces))
    published = Pieces.load(tmp_path / UNITS_MODEL)
    assert b"customers" not in (tmp_path / UNITS_MODEL).read_bytes()
    assert str(tmp_path).encode() not in (tmp_path / UNITS_MODEL).read_bytes()
    assert (published.tokens, published.scores) == (pieces.tokens, pieces.scores)
    assert published.encode("turn it on") == pieces.encode("turn it on")
