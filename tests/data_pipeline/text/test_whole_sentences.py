import gzip
import json

import pytest

from data_pipeline.text.whole_sentences import sentences_in, whole_sentences


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("今天下雨，我没去。你呢？我也没去！", ["今天下雨，我没去。", "你呢？", "我也没去！"]),
        ("他说：“我不去。”然后走了……真的？！", ["他说：“我不去。”", "然后走了……", "真的？！"]),
        ("“我不去。她也不去。”", ["我不去。", "她也不去。"]),  # half a pair of quotation marks is no use
        ("打开客厅的灯", ["打开客厅的灯"]),  # a command, a title
        ("第一句完了。第二句没有写", ["第一句完了。"]),
        ("床前明月光 疑是地上霜", ["床前明月光，疑是地上霜"]),
        ("、，我们走吧。", ["我们走吧。"]),
        ("text\tpinyin", []),
        ("17\t我们走吧。\two3 men5", ["我们走吧。"]),
        ("好。", []),  # one hanzi
        ("很" * 37 + "长。短的有。", ["短的有。"]),
        ("苹果；梨；桃子。", ["苹果；梨；桃子。"]),
        ("", []),
    ],
)
def test_sentences_of_a_line(line, sentences):
    assert list(sentences_in(line)) == sentences


def test_words_with_tags_become_plain_sentences(tmp_path):
    path = tmp_path / "tagged.txt"
    path.write_text("我们/r  走/v  吧/y  。/w  \n好/a  的/u  ，/w  再见/v  ！/w\n" * 3, encoding="utf-8")
    assert list(whole_sentences([str(path)]))[:2] == ["我们走吧。", "好的，再见！"]


def test_texts_tables_and_manifests_are_read(tmp_path):
    (tmp_path / "a.txt").write_bytes("我们走吧。他们都来了。\n".encode("gb18030"))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("压缩的也行。".encode()))
    (tmp_path / "c.tsv").write_text("text\ttokens\n表格里的。\tbiao3 ge2 li3 de5\n", encoding="utf-8")
    record = {"id": "a", "audio": "a.wav", "duration_s": 1, "text": "清单里的", "tokens": "a1"}
    (tmp_path / "d.jsonl").write_text(json.dumps(record), encoding="utf-8")
    found = list(whole_sentences([str(tmp_path)]))
    assert found == ["我们走吧。", "他们都来了。", "压缩的也行。", "表格里的。", "清单里的"]
