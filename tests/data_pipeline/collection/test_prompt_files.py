from pathlib import Path

import pytest

from asr.base.errors import UserError
from data_pipeline.collection.prompt_files import is_plain_text, written_texts


def test_kinds_of_files_are_known_by_their_suffix():
    assert [is_plain_text(Path(name)) for name in ("a.txt", "a", "a.TSV", "a.xlsx", "m.jsonl")] == [
        *(True, True),
        *(False, False, False),
    ]


def test_labels_stay_with_a_text_that_is_not_cut(tmp_path):
    long = "我们明天早上一起去火车站接你的爷爷和奶奶，" * 2
    path = tmp_path / "p.tsv"
    path.write_text(f"text\ttokens\n你好\tni3 hao3\n{long}\two3\n\tni3 men5\n", encoding="utf-8")
    found = [(one.text, one.tokens) for one in written_texts(path)]
    assert found == [
        ("你好", ("ni3", "hao3")),
        (long[: len(long) // 2], ()),
        (long[len(long) // 2 :], ()),
        ("ni3 men5", ("ni3", "men5")),
    ]


def test_a_broken_row_is_an_error_with_its_line(tmp_path):
    (tmp_path / "p.csv").write_text('text,id\n"你好,1\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"p\.csv:2"):
        written_texts(tmp_path / "p.csv")
