"""Tests that running text in common encodings becomes sentences of words with their readings."""

import gzip
import io
import random
import sys

import pytest

from asr.base.errors import UserError
from data_pipeline.labels.from_text import label
from data_pipeline.labels.readings.rules import SENTENCE_END
from data_pipeline.text import text_files
from data_pipeline.text.pronunciations import readings_in_phrases
from data_pipeline.text.segmented_text import processes, segment_files, segment_text
from data_pipeline.text.spoken_text import SpokenText
from data_pipeline.text.text_files import BLOCK_BYTES, find_text_files, read_blocks

NEWS = "中国人民银行今天宣布，长大以后的孩子们学习语言。\n他在银行工作，走得很快！\n"


def sentences_of(tmp_path, text, encoding="utf-8"):
    """Return the sentences of a text as lists of words without readings, and what was left out."""
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode(encoding))
    sentences, left_out = [[]], {}
    for block in segment_files([str(path)], []):
        left_out |= block.left_out
        for token in block.tokens:
            if token == 0:
                sentences.append([])
            else:
                sentences[-1].append(block.spoken[token].word)
    assert not sentences.pop()  # each sentence is ended
    return sentences, left_out


def joined(sentences):
    return ["".join(words) for words in sentences]


def test_sentences_end_at_punctuation_and_line_ends(tmp_path):
    sentences, left_out = sentences_of(tmp_path, "今天天气很好，我们去公园吧。\n你呢？好……走!快走")
    assert joined(sentences) == ["今天天气很好", "我们去公园吧", "你呢", "好", "走", "快走"]
    assert not left_out


def test_quotation_marks_and_brackets_do_not_end_a_sentence(tmp_path):
    sentences, _ = sentences_of(tmp_path, "他说“好”，读《红楼梦》的（男）人")
    assert joined(sentences) == ["他说好", "读红楼梦的男人"]


def test_ambiguous_characters_end_the_sentence_and_are_counted(tmp_path):
    sentences, left_out = sentences_of(tmp_path, "在2019年用iPhone拍５０％的照片，カメラ很好")
    assert joined(sentences) == ["在", "年用", "拍", "的照片", "很好"]
    assert left_out == {
        "digits": 6,
        "Latin letters": 6,
        "signs that are read aloud": 1,
        "letters of other scripts": 3,
    }


def test_hanzi_without_a_reading_end_the_sentence_and_are_counted(tmp_path):
    sentences, left_out = sentences_of(tmp_path, "他叫𪚥𫠝好")
    assert joined(sentences)[0].startswith("他叫")
    num_left_out = sum(left_out.values())
    assert sum(map(len, joined(sentences))) + num_left_out == 5
    for sentence in joined(sentences):
        label(sentence, "syllables")  # or raises


def test_text_without_spaces_is_cut_into_words_of_the_dictionary(tmp_path):
    sentences, _ = sentences_of(tmp_path, "中国人民银行今天宣布")
    assert sentences == [["中国人民银行", "今天", "宣布"]]


def test_traditional_characters_are_kept(tmp_path):
    sentences, left_out = sentences_of(tmp_path, "臺灣的語言學習，長大以後")
    assert joined(sentences) == ["臺灣的語言學習", "長大以後"]
    assert not left_out


def test_words_of_one_hanzi_are_read_by_their_context():
    block = segment_text("他曾来过。\n被告曾文彬没有来。")
    assert {spoken.reading for spoken in block.spoken if spoken.word == "曾"} == {None, ("zeng1",)}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_common_encodings_are_detected(encoding, tmp_path):
    sentences, left_out = sentences_of(tmp_path, NEWS, encoding)
    assert joined(sentences)[1] == "长大以后的孩子们学习语言"
    assert not left_out


def test_traditional_characters_in_big5_are_read(tmp_path):
    sentences, left_out = sentences_of(tmp_path, "臺灣的語言學習，長大以後", "big5")
    assert joined(sentences) == ["臺灣的語言學習", "長大以後"]
    assert not left_out


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "big5"])
def test_encoding_is_detected_where_the_first_hanzi_is_far_from_the_beginning(encoding, tmp_path):
    sentences, _ = sentences_of(tmp_path, "a b.\n" * 20_000 + "臺灣的語言學習", encoding)
    assert joined(sentences)[-1] == "臺灣的語言學習"


OTHER_ENCODINGS = {
    "shift_jis": "ひらがなとカタカナ" * 20,
    "euc-jp": "日本語の文章です。東京へ行きました。" * 20,
    "euc-kr": "한국어 문장입니다. 서울에 갔습니다. " * 20,
    "latin-1": "é à ü ß" * 20,
}


@pytest.mark.parametrize(("encoding", "text"), OTHER_ENCODINGS.items(), ids=OTHER_ENCODINGS)
def test_text_in_an_unsupported_encoding_raises(encoding, text, tmp_path):
    with pytest.raises(UserError, match=r"text\.txt: neither UTF-8, UTF-16, GB 18030 nor Big5"):
        sentences_of(tmp_path, text, encoding)


def test_invalid_utf8_in_the_middle_of_a_file_raises_with_the_position(tmp_path):
    path = tmp_path / "broken.txt"
    good = (NEWS * (BLOCK_BYTES // len(NEWS.encode()) + 1)).encode()
    path.write_bytes(good + b"\xff\xfe" + good)
    with pytest.raises(UserError, match=r"begins as utf-8 .* about byte 2,"):
        list(read_blocks(str(path)))


def test_binary_file_raises(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(UserError, match=r"picture\.png: .*binary file"):
        list(read_blocks(str(path)))


def test_gzipped_file_is_read_and_a_truncated_one_raises(tmp_path):
    path = tmp_path / "text"  # gzip is detected by the content, not by the name
    data = gzip.compress((NEWS * 1000).encode())
    path.write_bytes(data)
    assert "".join(block.text for block in read_blocks(str(path))) == NEWS * 1000
    assert sum(block.num_bytes for block in read_blocks(str(path))) == len(data)
    path.write_bytes(data[:-20])
    with pytest.raises(UserError, match="damaged or truncated"):
        list(read_blocks(str(path)))


def test_gzipped_standard_input_is_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(NEWS.encode()))))
    assert "".join(block.text for block in read_blocks("-")) == NEWS


def test_blocks_are_whole_lines_and_together_the_whole_file(tmp_path):
    draw = random.Random(3)
    text = "".join("银" * draw.randrange(200) + "\n" for _ in range(3 * BLOCK_BYTES // 300))
    path = tmp_path / "long.txt"
    path.write_text(text, encoding="utf-8")
    blocks = [block.text for block in read_blocks(str(path))]
    assert len(blocks) > 2
    assert all(block.endswith("\n") for block in blocks)
    assert "".join(blocks) == text


def test_a_line_longer_than_a_block_is_read(tmp_path):
    path = tmp_path / "line.txt"
    path.write_text("银行" * BLOCK_BYTES, encoding="utf-8")
    assert sum(len(block.text) for block in read_blocks(str(path))) == 2 * BLOCK_BYTES


def test_find_text_files_searches_folders_without_hidden_files(tmp_path):
    for name in ("b/2.txt", "a.txt", ".hidden", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(NEWS)
    assert find_text_files([str(tmp_path)]) == [str(tmp_path / "a.txt"), str(tmp_path / "b" / "2.txt")]


@pytest.mark.parametrize(("paths", "message"), [(["nowhere"], "no such file"), (["-", "-"], "only once")])
def test_missing_file_or_repeated_standard_input_raises(paths, message):
    with pytest.raises(UserError, match=message):
        find_text_files(paths)


SEGMENTED = "迈向 充满希望 的 新 世纪 。\n中共中央 总书记 、 国家 主席 发表 讲话\n"


@pytest.mark.parametrize(
    "text",
    [
        SEGMENTED,
        "迈向/v 充满希望/l 的/u 新/a 世纪/n 。/w\n[中共中央/nt 总书记/n]nt 、/w 国家/n 主席/n\n",
        SEGMENTED.replace(" ", "　"),
    ],
    ids=["spaces", "tags", "wide spaces"],
)
def test_words_separated_by_white_space_are_kept(text, tmp_path):
    sentences, left_out = sentences_of(tmp_path, text)
    assert sentences[0] == ["迈向", "充满希望", "的", "新", "世纪"]
    assert sentences[1][:2] == ["中共中央", "总书记"]
    assert not left_out


def test_white_space_between_all_hanzi_is_ignored(tmp_path):
    sentences, _ = sentences_of(tmp_path, "中 国 人 民 银 行 今 天 宣 布\n")
    assert sentences == [["中国人民银行", "今天", "宣布"]]


def test_occasional_white_space_does_not_replace_word_segmentation(tmp_path):
    sentences, _ = sentences_of(tmp_path, "中国人民银行今天宣布 中国人民银行今天宣布\n")
    assert sentences == [["中国人民银行", "今天", "宣布"] * 2]


def test_segmenting_in_several_processes_equals_segmenting_in_one(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 10_000)
    path = tmp_path / "text.txt"
    path.write_text(NEWS * 300, encoding="utf-8")

    def all_of(children):
        return [(b.spoken, b.tokens.tolist(), b.left_out) for b in segment_files([str(path)], children)]

    with processes(None) as children:
        assert children
        assert all_of(children) == all_of([])


def test_many_small_files_are_joined_to_one_block_with_separate_sentences(tmp_path):
    for number in range(50):
        (tmp_path / f"{number}.txt").write_text("银行", encoding="utf-8")  # no line end
    (block,) = segment_files(find_text_files([str(tmp_path)]), [])
    assert [block.spoken[token].word for token in block.tokens] == ["银行", SENTENCE_END] * 50


READ_ALOUD = [
    "他长得很高，头发很长。",
    "我得走了，他跑得快，得到了很多",
    "他慢慢地走在地上",
    "一会儿花儿开了，女儿来了",
    "因为我们认为银行的行长很好",
    "不要一个人还钱，还是还给我吧",
    "三只猫只有一只",
    "他说得慢慢，得很快才行，跑得，地上有水",  # neighbours beyond a pause do not count
]


@pytest.mark.parametrize("text", READ_ALOUD)
def test_syllables_of_a_text_equal_those_of_labels(text, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    spoken = SpokenText([str(path)], tmp_path)
    names = [".", *spoken.vocabulary("syllables")]
    (tokens,) = [tokens for tokens, _ in spoken.blocks("syllables", 1, 0)]
    sentences = " ".join(names[token] for token in tokens).split(" .")[:-1]
    parts = text.replace("。", "").split("，")
    expected = [" ".join(label(part, "syllables")) for part in parts]
    assert [one.strip() for one in sentences] == expected


def test_all_units_give_the_same_sentences(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(NEWS * 20, encoding="utf-8")
    spoken = SpokenText([str(path)], tmp_path)

    def texts(unit):
        names = ["\n", *spoken.vocabulary(unit)]
        return "".join(names[i] for tokens, _ in spoken.blocks(unit, 1, 0) for i in tokens).split("\n")

    assert texts("words") == texts("characters")
    assert len(texts("syllables")) == len(texts("words")) == 4 * 20 + 1
    assert spoken.num_sentences == 4 * 20


def test_reading_probabilities_sum_to_one_and_depend_on_the_context(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("他很长。" * 30 + "他长了。" * 10, encoding="utf-8")
    table = {}
    for word, reading, log_prob in SpokenText([str(path)], tmp_path).pronunciations():
        table.setdefault(word, {})[reading] = 2.718281828459045**log_prob
    assert all(sum(readings.values()) == pytest.approx(1) for readings in table.values())
    assert table["长"][("chang2",)] == pytest.approx(0.75, abs=0.02)
    assert table["长"][("zhang3",)] == pytest.approx(0.25, abs=0.02)


def test_readings_in_phrases_follow_the_label_policy():
    found = readings_in_phrases("行的一不女")
    assert {("xing2",), ("hang2",)} <= set(found["行"])
    assert {("de5",), ("di4",)} <= set(found["的"])
    assert set(found["一"]) == {("yi1",)}
    assert set(found["不"]) == {("bu4",)}
    assert set(found["女"]) == {("nv3",)}
