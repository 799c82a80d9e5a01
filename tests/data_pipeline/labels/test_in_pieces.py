"""Text becomes pieces as it becomes characters."""

import pytest

from asr.base.text.pieces import learn_pieces, text_of_pieces
from asr.base.text.units import LearnedUnits
from asr.base.vocabulary import Vocabulary
from data_pipeline.labels.aligned_text import written_tokens
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import label
from data_pipeline.labels.in_pieces import pieces_of

TEXTS = ["don't turn the light on", "turn twenty-one lights on", "你好 世界", "नि का 3"]


@pytest.fixture(scope="module")
def pieces():
    texts = [text_of_pieces(label(text, "characters")) for text in TEXTS] * 3
    return learn_pieces(texts, LearnedUnits("bpe", 50))


@pytest.mark.parametrize("text", ["Don’t turn… the LIGHTS on!", "ｔｕｒｎ ３", "你好，世界。", "नि 3 का"])
def test_pieces_in_a_row_are_the_text_of_the_characters(pieces, text):
    found = pieces_of(text, pieces)
    assert text_of_pieces(found) == text_of_pieces(label(text, "characters"))
    assert set(found) <= {*pieces.tokens}


@pytest.mark.parametrize("text", ["50% off", "quiz", "!", "他"])
def test_text_that_cannot_be_split_has_a_reason(pieces, text):
    with pytest.raises(UnlabelledError):
        pieces_of(text, pieces)


def test_each_piece_of_a_text_to_align_has_its_part_of_the_text(pieces):
    vocabulary = Vocabulary.of_pieces(pieces)
    text = "Don't turn “the Lights” on!"
    written = written_tokens(text, vocabulary)
    assert [one.token for one in written] == list(pieces.encode("don't turn the lights on"))
    assert "".join(one.text for one in written) == text
    for one in written:
        letters = one.token.removeprefix("▁")
        assert letters in one.text.lower()
