import string

import pytest

from asr.base.errors import UserError
from asr.base.text.pieces import learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.types import Utterance
from asr.base.vocabulary import BLANK, Vocabulary


def utterance(tokens):
    return Utterance("u", "u.wav", 1.0, "", tuple(tokens.split()))


def test_ids_start_after_the_blank_and_survive_saving(tmp_path):
    vocabulary = Vocabulary(["ma1", "an4"])
    assert vocabulary.encode(["an4", "ma1", "an4"]) == [2, 1, 2]
    vocabulary.save(tmp_path / "v.txt")
    assert Vocabulary.load(tmp_path / "v.txt").tokens == (BLANK, "ma1", "an4")


def test_the_order_of_utterances_does_not_change_ids():
    one = Vocabulary.of_utterances([utterance("b a"), utterance("c a")])
    other = Vocabulary.of_utterances([utterance("a c"), utterance("b")])
    assert one.tokens == other.tokens


def test_a_label_that_is_not_in_the_vocabulary_is_named():
    with pytest.raises(UserError, match="'xyz9' is not in the vocabulary"):
        Vocabulary(["a1", "b1"]).encode(["a1", "xyz9"])


@pytest.mark.parametrize("tokens", [["a", "a"], ["a b"], [""], [BLANK]])
def test_ambiguous_tokens_are_refused(tokens):
    with pytest.raises(UserError, match="vocabulary: "):
        Vocabulary(tokens)


def test_a_vocabulary_file_without_the_blank_is_refused(tmp_path):
    (tmp_path / "v.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match="expected <blank> on the first line"):
        Vocabulary.load(tmp_path / "v.txt")
    (tmp_path / "v.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        Vocabulary.load(tmp_path / "v.txt")


def test_characters_are_joined_without_spaces_and_syllables_with():
    assert Vocabulary(["你", "好"]).join(["你", "好"]) == "你好"
    assert Vocabulary(["ni3", "hao3"]).join(["ni3", "hao3"]) == "ni3 hao3"


def test_syllables_share_parts_and_other_tokens_do_not():
    parts = Vocabulary(["ma1", "ma3", "an4", "a"]).syllable_parts()
    assert len({len(row) for row in parts}) == 1
    blank, ma1, ma3, an4, letter = map(set, parts)
    assert len(ma1 & ma3) == 2  # initial and final
    assert not blank & (ma1 | an4 | letter)
    assert not letter & (ma1 | an4)


def test_syllables_have_an_initial_and_a_final_with_its_tone_as_phones():
    vocabulary = Vocabulary(["zhi1", "ma3", "a3", "er2", "ng2", "x"])
    phones = vocabulary.phones()
    spelled = [phones.decode(ids) for ids in vocabulary.phone_ids()]
    assert spelled == [(), ("zh-", "-i1"), ("m-", "a3"), ("a3",), ("er2",), ("ng2",), ("x",)]
    assert len(phones) == 1 + 7  # a3 is one


@pytest.fixture(scope="module")
def pieces():
    return learn_pieces(["turn the light on", "turn on the lights", "lighter"] * 4, LearnedUnits("bpe", 25))


def test_a_vocabulary_of_pieces_is_saved_with_its_model(pieces, tmp_path):
    Vocabulary.of_pieces(pieces).save(tmp_path / "vocabulary.txt")
    loaded = Vocabulary.load(tmp_path / "vocabulary.txt")
    assert loaded.tokens == (BLANK, *pieces.tokens)
    assert (loaded.unit, loaded.token_name, loaded.is_spaced) == ("pieces", "piece", False)
    tokens = loaded.expect_pieces().encode("turn the lights on")
    assert loaded.join(loaded.decode(loaded.encode(tokens))) == "turn the lights on"


def test_a_model_of_other_pieces_than_the_vocabulary_is_refused(pieces, tmp_path):
    Vocabulary.of_pieces(pieces).save(tmp_path / "vocabulary.txt")
    other = learn_pieces(["one two three four", "fourteen"] * 4, LearnedUnits("bpe", 20))
    other.save(tmp_path / "units.model")
    with pytest.raises(UserError, match=r"has other pieces than vocabulary.txt"):
        Vocabulary.load(tmp_path / "vocabulary.txt")
    (tmp_path / "units.model").unlink()
    with pytest.raises(UserError, match=r"units.model is missing"):
        Vocabulary.load(tmp_path / "vocabulary.txt").expect_pieces()


def test_letters_that_are_pieces_are_not_taken_for_the_pieces_of_a_text(pieces):
    vocabulary = Vocabulary.of_pieces(pieces)
    assert {"t", "o", "n"} <= {*vocabulary.tokens}
    assert not vocabulary.are_tokens(["t", "o", "n"])
    assert vocabulary.are_tokens(list(pieces.encode("ton")))


def test_a_mixed_vocabulary_has_syllables_all_letters_and_all_pieces_and_is_saved_with_their_model(tmp_path):
    pieces = learn_pieces(["iphone", "ok wifi", "iphone"], LearnedUnits("mixed", 40))
    Vocabulary.of_pieces(pieces, ["wo3", "kan4"]).save(tmp_path / "vocabulary.txt")
    loaded = Vocabulary.load(tmp_path / "vocabulary.txt")
    assert loaded.tokens == (BLANK, "kan4", "wo3", *string.ascii_uppercase, *pieces.tokens)
    assert (loaded.unit, loaded.token_name, loaded.is_mandarin) == ("mixed", "mixed unit", True)
    tokens = ["wo3", "kan4", "C", "T", *loaded.expect_pieces().encode("iphone wifi")]
    assert loaded.decode(loaded.encode(tokens)) == tuple(tokens)
    assert loaded.join(tokens) == "wo3 kan4 CT iphone wifi"
    assert all(map(loaded.are_tokens, (tokens, tokens[2:], tokens[4:])))
    assert not loaded.are_tokens(["o", "k"])
    learn_pieces(["hello world"], LearnedUnits("mixed", 35)).save(tmp_path / "units.model")
    with pytest.raises(UserError, match=r"has other pieces than vocabulary.txt"):
        Vocabulary.load(tmp_path / "vocabulary.txt")
