"""Sentences of Mandarin with Latin words become mixed labels, and the hanzi are read as without them."""

import pytest

from asr.base.text.pieces import learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.vocabulary import Vocabulary
from data_pipeline.labels.aligned_text import written_tokens
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import ReadingPolicy, label, label_all
from data_pipeline.labels.in_pieces import pieces_of
from data_pipeline.labels.readings.user_table import UserTable


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("我需要看CCTV5", "wo3 xu1 yao4 kan4 C C T V wu3"),
        ("打开iPhone的设置！", "da3 kai1 ▁iphone de5 she4 zhi4"),
        ("这个ＡＰＰ很好用", "zhe4 ge5 A P P hen3 hao3 yong4"),
        ("OK，我们走", "▁ok wo3 men5 zou3"),
        ("Wi-Fi 的密码", "▁wi ▁fi de5 mi4 ma3"),
        ("U.S.A.在哪里", "U S A zai4 na3 li3"),
        ("去café喝水", "qu4 ▁cafe he1 shui3"),
        ("hello", "▁hello"),
        ("今天天气", "jin1 tian1 tian1 qi4"),
        ("银行app和行长", "yin2 hang2 A P P he2 hang2 zhang3"),
    ],
)
def test_hanzi_become_syllables_and_latin_words_letters_or_words(text, labels):
    assert label(text, "mixed") == tuple(labels.split())


def test_many_texts_get_the_labels_that_each_has_alone():
    texts = ["我需要看CCTV5", "Привет", "银行app", "你好"]
    found = label_all(texts, "mixed")
    assert isinstance(found[1], UnlabelledError)
    assert [found[0], *found[2:]] == [label(text, "mixed") for text in (texts[0], *texts[2:])]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Привет你好", "other scripts"),
        ("カラオケ", "other scripts"),
        ("买3个iPhone", "digits apart from letters"),
        ("USB3.0", "number with a sign"),
        ("AT&T", "sign that is read aloud"),
        ("，。", "no spoken text"),
        ("'", "no spoken text"),
    ],
)
def test_a_text_that_cannot_be_labelled_has_a_reason(text, reason):
    with pytest.raises(UnlabelledError, match=reason):
        label(text, "mixed")


def test_tones_do_not_change_across_a_latin_word_and_words_do_not_extend_across_one():
    spoken = ReadingPolicy("spoken")
    assert label("你好", "mixed", spoken) == ("ni2", "hao3")
    assert label("你APP好", "mixed", spoken) == ("ni3", "A", "P", "P", "hao3")
    assert label("银APP行", "mixed")[-1] == label("行", "mixed")[0] != "hang2"


def test_the_users_table_has_hanzi_and_latin_words(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("App app  # as a word\nKFC ken3 de2 ji1\n朝阳 zhao1 yang2\n", encoding="utf-8")
    policy = ReadingPolicy(table=UserTable.load(path))
    found = label("朝阳的kfc有APP", "mixed", policy)
    assert " ".join(found) == "zhao1 yang2 de5 ken3 de2 ji1 you3 ▁app"
    assert label("朝阳", "syllables", policy) == ("zhao1", "yang2")


@pytest.fixture(scope="module")
def pieces():
    return learn_pieces(["iphone wifi", "ok iphone"], LearnedUnits("mixed", 40))


def test_spoken_words_alone_are_split_into_pieces_of_any_letters(pieces):
    found = pieces_of("看CCTV5和iPhone", pieces, "mixed")
    assert " ".join(found) == f"kan4 C C T V wu3 he2 {' '.join(pieces.encode('iphone'))}"
    assert "".join(pieces_of("jazz", pieces, "mixed")) == "▁jazz"  # j, a and z are not in the texts
    assert set(pieces.encode("jazz")) <= {*pieces.tokens}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("看CCTV5，", ["看", "C", "C", "T", "V", "五，"]),
        ("打开 iPhone “APP” 好", ["打", "开 ", "iPhone ", "“A", "P", "P” ", "好"]),
        ("ni3 A ▁iphone", ["ni3 ", "A ", "▁iphone"]),
    ],
)
def test_each_token_of_a_text_to_align_has_its_part_of_the_text(pieces, text, parts):
    pieces = learn_pieces(["iphone"] * 3, LearnedUnits("mixed", 0))
    assert pieces.encode("iphone") == ("▁iphone",)
    vocabulary = Vocabulary.of_pieces(pieces, ["kan4", "da3", "kai1", "hao3", "wu3", "ni3"])
    assert [one.text for one in written_tokens(text, vocabulary)] == parts
