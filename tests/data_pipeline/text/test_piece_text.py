"""Text of any language is a stream of pieces for language models."""

import numpy as np
import pytest

from asr.base.errors import UserError
from asr.base.text.pieces import learn_pieces, text_of_pieces
from asr.base.text.units import LearnedUnits
from asr.base.types import Utterance
from data_pipeline.manifests.manifest import write_manifest
from data_pipeline.text.piece_text import PieceText

TEXTS = ["turn the light on", "turn the lights off", "a lighter night"]


@pytest.fixture(scope="module")
def pieces():
    return learn_pieces(TEXTS * 3, LearnedUnits("bpe", 30))


def words_in(text):
    """Return the sentences of the stream of words."""
    words = text.vocabulary("words")
    ids = np.concatenate([block for block, _ in text.blocks("words", 1, 0)])
    parts = np.split(ids, np.flatnonzero(ids == 0) + 1)[:-1]
    return [" ".join(words[index - 1] for index in part[:-1]) for part in parts]


def sentences(text, pieces):
    """Return the sentences of the stream as text."""
    ids = np.concatenate([block for block, _ in text.blocks("pieces", 3, 2)])
    parts = np.split(ids, np.flatnonzero(ids == 2) + 1)[:-1]
    return [text_of_pieces(pieces.tokens[index - 3] for index in part[:-1]) for part in parts]


def test_sentences_of_files_are_split_normalized_and_counted(pieces, tmp_path):
    (tmp_path / "a.txt").write_text("Turn the light on! A night.\n\nTurn it 50% off\nZoo\nthe end", "utf-8")
    text = PieceText([str(tmp_path / "a.txt")], pieces, tmp_path)
    assert sentences(text, pieces) == ["turn the light on", "a night"]
    assert (text.num_sentences, text.num_words) == (2, 6)
    assert sum(text.left_out.values()) == 3  # a sign that is read aloud, and characters that no piece has
    assert text.vocabulary("pieces") == list(pieces.tokens)


def test_the_words_that_pieces_spell_are_a_stream_beside_that_of_pieces(pieces, tmp_path):
    (tmp_path / "a.txt").write_text("Turn the light on! The night.", "utf-8")
    text = PieceText([str(tmp_path / "a.txt")], pieces, tmp_path, words=True)
    assert words_in(text) == sentences(text, pieces) == ["turn the light on", "the night"]
    assert text.vocabulary("words") == ["turn", "the", "light", "on", "night"]


def test_words_of_mixed_text_are_syllables_letters_and_latin_words(tmp_path):
    pieces = learn_pieces(["iphone wifi"] * 3, LearnedUnits("mixed", 40))
    (tmp_path / "a.txt").write_text("打开iPhone，看CCTV5。", "utf-8")
    text = PieceText([str(tmp_path / "a.txt")], pieces, tmp_path, unit="mixed", words=True)
    assert words_in(text) == ["da3 kai1 iphone kan4 C C T V wu3"]
    assert {"zun1", "Z"} <= {*text.vocabulary("words")}  # in Mandarin, not in the text
    assert not {*pieces.tokens} & {*text.vocabulary("words")}


def test_labels_of_manifests_count_as_they_are(pieces, tmp_path):
    tokens = ("▁", *"turn")
    utterances = [Utterance("a", "a.wav", 1.0, "Turn", tokens), Utterance("b", "b.wav", 1.0, "the light", ())]
    write_manifest(tmp_path / "m.jsonl", utterances)
    text = PieceText([str(tmp_path / "m.jsonl")], pieces, tmp_path)
    (block, num_words), *_ = text.blocks("pieces", 0, -1)
    assert num_words == 3
    assert tuple(pieces.tokens[index] for index in block[: len(tokens)]) == tokens
    assert sentences(text, pieces) == ["turn", "the light"]


def test_text_without_any_piece_is_refused(pieces, tmp_path):
    (tmp_path / "a.txt").write_text("今天天气很好。", "utf-8")
    with pytest.raises(UserError, match="no text in the pieces"):
        PieceText([str(tmp_path / "a.txt")], pieces, tmp_path)


def test_mixed_text_is_a_stream_of_syllables_letters_and_pieces(tmp_path):
    pieces = learn_pieces(["iphone wifi"] * 3, LearnedUnits("mixed", 40))
    (tmp_path / "a.txt").write_text("打开iPhone，看CCTV5。今天天气很好！Привет。", "utf-8")
    text = PieceText([str(tmp_path / "a.txt")], pieces, tmp_path, unit="mixed")
    tokens = text.vocabulary("mixed")
    ((block, num_words),) = text.blocks("mixed", 1, 0)
    said = [tokens[index - 1] for index in block if index]
    iphone = " ".join(pieces.encode("iphone"))
    assert " ".join(said) == f"da3 kai1 {iphone} kan4 C C T V wu3 jin1 tian1 tian1 qi4 hen3 hao3"
    assert (text.num_sentences, num_words) == (2, 12)
    assert sum(text.left_out.values()) == 1
    assert {"zun1", "Z"} <= {*tokens}  # in Mandarin, not in the text
