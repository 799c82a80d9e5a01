import re
from collections import Counter

import pytest
from openpyxl import Workbook

from asr.base.errors import UserError
from asr.base.text.hanzi_text import hanzi_in
from asr.base.types import Utterance
from data_pipeline.collection.prompts import Prompt, expected_duration_s, own_prompts, read_prompts
from data_pipeline.labels.from_text import label_all
from data_pipeline.labels.syllable_use import coverage_of
from data_pipeline.manifests.manifest import write_manifest


@pytest.fixture(scope="module")
def own():
    return own_prompts("syllables")


@pytest.fixture
def sentences(tmp_path):
    def write(text, name="sentences.txt", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def texts(prompts):
    return [prompt.text for prompt in prompts]


def covered(prompts, duration_s):
    """Return the coverage of the prompts that are read in this time."""
    seen, now_s = set(), 0.0
    for prompt in prompts:
        now_s += expected_duration_s(prompt)
        if now_s > duration_s:
            break
        seen.update(prompt.tokens)
    return coverage_of(seen)


def test_ten_minutes_of_own_sentences_cover_nine_tenths_of_what_is_said(own):
    assert covered(own, 300).share > 0.8
    assert covered(own, 600).share > 0.9
    assert covered(own, 1800).share > 0.98


def test_own_sentences_last_more_than_half_an_hour_and_differ(own):
    assert sum(map(expected_duration_s, own)) > 2400
    assert len({prompt.id for prompt in own}) == len({prompt.text for prompt in own}) == len(own)


def test_own_sentences_are_short_and_in_common_hanzi(own):
    for prompt in own:
        hanzi = hanzi_in(prompt.text)
        assert 5 <= len(hanzi) <= 25, prompt.text
        assert "".join(hanzi).encode("gb2312"), prompt.text
        assert re.fullmatch(r"[\u4e00-\u9fff，。？！、]+[。？！]", prompt.text), prompt.text


def test_labels_of_own_sentences_are_those_that_training_gives_them(own):
    some = own[::9]
    assert label_all(texts(some), "syllables") == [prompt.tokens for prompt in some]


def test_own_sentences_in_characters_have_one_label_a_hanzi():
    for prompt in own_prompts("characters")[:20]:
        assert prompt.tokens == tuple(hanzi_in(prompt.text))
        assert prompt.syllables_by_character() is None


def test_units_without_own_sentences_need_prompts():
    with pytest.raises(UserError, match="prompts"):
        own_prompts("words")


def test_pinyin_is_aligned_with_the_characters():
    prompt = Prompt("", "“花儿，女！”", ("hua1", "er5", "nv3"))
    assert prompt.syllables_by_character() == (None, "huā", "er", None, "nǚ", None, None)
    assert Prompt("", "花儿", ("hua1",)).syllables_by_character() is None
    assert Prompt("", "cat", ("c", "a", "t")).syllables_by_character() is None


@pytest.mark.parametrize(
    ("text", "tokens", "places"),
    [
        ("“花儿，女！”", "hua1 er5 nv3", ((1, 2), (2, 3), (4, 5))),
        ("Don't go!", "▁don ' t ▁go", ((0, 3), (3, 4), (4, 5), (6, 8))),
        ("A cat.", "a ▁ c a t", ((0, 1), (1, 1), (2, 3), (3, 4), (4, 5))),
        ("Turn it, on", "turn it on", ((0, 4), (5, 7), (9, 11))),
        ("我有20块", "wo3 you3 er4 shi2 kuai4", None),
        ("cat", "c t", None),
        ("Don’t stop", "▁don't ▁stop", ((0, 5), (6, 10))),
        (
            "我用APP，打开ｉＰhone",
            "wo3 yong4 A P P da3 kai1 ▁iphone",
            (*((i, i + 1) for i in (0, 1, 2, 3, 4, 6, 7)), (8, 14)),
        ),
    ],
)
def test_labels_have_places_in_the_text_they_spell(text, tokens, places):
    assert Prompt("", text, tuple(tokens.split())).places() == places


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_a_text_gives_each_line_once_whatever_its_encoding(sentences, encoding):
    path = sentences("今天天气很好。\n\n银行在哪里？\n今天天气很好\n", encoding=encoding)
    found = read_prompts(path, "syllables")
    assert texts(found.kept) == ["今天天气很好。", "银行在哪里？"]
    assert found.kept[1].tokens == ("yin2", "hang2", "zai4", "na3", "li3")


@pytest.mark.parametrize("text", ["दिन दीन दान कि की का", "มา ม้า ไหม ไหม้", "can't cant we'll well"])
def test_sentences_that_differ_in_a_sign_of_a_word_are_all_prompts(sentences, text):
    words = text.split()
    assert texts(read_prompts(sentences("\n".join(words)), "words").kept) == words


@pytest.mark.parametrize(
    ("text", "same"),
    [("他说'你好'", "他说你好。"), ("Don’t!", "don't"), ("'Stop'", "stop"), ("你好❤️", "你好")],
)
def test_sentences_that_differ_in_punctuation_are_one_prompt(sentences, text, same):
    assert texts(read_prompts(sentences(f"{text}\n{same}"), "characters").kept) == [text]


def test_ids_depend_on_the_words_only(sentences):
    (one,) = read_prompts(sentences("你好，世界。"), "syllables").kept
    (other,) = read_prompts(sentences("其他。\n你好世界\n", "other.txt"), "syllables").kept[1:]
    assert one.id == other.id
    assert re.fullmatch("[0-9a-f]{16}", one.id)


def test_a_long_line_is_cut_at_its_punctuation(sentences):
    long = "清晨的阳光照在地板上，小猫在窗台上伸懒腰。"
    long += "奶奶在院子里浇花，爷爷坐在树下读报纸，邻居家的孩子在门口踢毽子。"
    found = texts(read_prompts(sentences(long), "syllables").kept)
    assert "".join(found) == long
    assert len(found) == 3
    assert all(len(hanzi_in(text)) <= 25 for text in found)


def test_a_long_english_line_is_cut_into_sentences(sentences):
    parts = [
        "It was already late in the evening.",
        "Nobody answered the telephone, so we walked on, past the old station and the harbour,",
        "over the wooden bridge and up the hill, until we found the mill.",
    ]
    assert texts(read_prompts(sentences(" ".join(parts)), "words").kept) == parts


def test_what_cannot_be_labelled_is_left_out_with_the_reason(sentences):
    path = sentences("今天天气很好。\n打开WiFi吧。\nこんにちは\n")
    found = read_prompts(path, "syllables")
    assert texts(found.kept) == ["今天天气很好。"]
    assert [(out.what, "Latin letters" in out.reason) for out in found.left_out] == [
        (f"{path}:2", True),
        (f"{path}:3", False),
    ]


def test_digits_are_written_out_as_they_are_spoken(sentences):
    pytest.importorskip("wetext")
    (prompt,) = read_prompts(sentences("我有20块钱。"), "syllables").kept
    assert prompt.text == "我有二十块钱。"
    assert prompt.tokens == ("wo3", "you3", "er4", "shi2", "kuai4", "qian2")


def test_an_endless_line_is_left_out(sentences):
    found = read_prompts(sentences("你好。\n" + "我们去" * 30), "syllables")
    assert texts(found.kept) == ["你好。"]
    assert "too long" in found.left_out[0].reason


@pytest.mark.parametrize("text", ["hello world\n", "\n  \n", ""])
def test_a_file_without_a_usable_sentence_is_an_error(sentences, text):
    with pytest.raises(UserError, match=r"sentences\.txt"):
        read_prompts(sentences(text), "syllables")


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_prompts(tmp_path / "none.txt", "syllables")


def test_tables_need_a_column_of_texts_only_and_keep_their_order(sentences, tmp_path):
    rows = ["再见。", "你好。", "谢谢你。"]
    book = Workbook()
    for row in [["我的句子"], ["编号", "文本"], *([number, row] for number, row in enumerate(rows))]:
        book.active.append(row)
    book.save(tmp_path / "prompts.xlsx")
    tsv = sentences("id\tsentence\n" + "".join(f"{row[0]}\t{row}\n" for row in rows), "prompts.tsv")
    for path in (tmp_path / "prompts.xlsx", tsv, sentences("文本\n" + "\n".join(rows), "prompts.csv")):
        assert texts(read_prompts(path, "syllables", goal_s=0.1).kept) == rows
    with pytest.raises(UserError, match="文本"):
        read_prompts(sentences("编号,说话人\n1,甲\n", "none.csv"), "syllables")


def test_a_manifest_keeps_its_labels_and_its_order(tmp_path):
    rows = [("b", "长大", "zhang3 da4"), ("a", "银行", "yin2 xing2")]
    path = tmp_path / "m.jsonl"
    write_manifest(
        path, [Utterance(name, "a.wav", 1.0, text, tuple(tokens.split())) for name, text, tokens in rows]
    )
    assert [prompt.tokens for prompt in read_prompts(path, "syllables", goal_s=0.1).kept] == [
        ("zhang3", "da4"),
        ("yin2", "xing2"),
    ]
    assert read_prompts(path, "characters").kept[0].tokens == ("长", "大")


def test_a_plain_text_longer_than_the_goal_is_ordered_by_what_it_teaches(sentences):
    lines = ["the cat sat", "the cat sat there", "that cat sat", "the cat", "big dogs jump quickly"]
    path = sentences("\n".join(lines))
    assert texts(read_prompts(path, "characters").kept) == lines
    ordered = texts(read_prompts(path, "characters", goal_s=1.0).kept)
    assert "big dogs jump quickly" in ordered[:2]
    assert Counter(ordered) == Counter(lines)
