import pytest

from asr.base.files import read_lines, whole_file
from asr.base.types import UserError


def test_only_line_feeds_end_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\u2028still one\r\ntwo\n\nfour\n".encode())
    assert read_lines(path, "list") == ["one\u2028still one", "two", "", "four"]


def test_unreadable_files_are_named(tmp_path):
    (tmp_path / "gbk.txt").write_bytes("你好".encode("gbk"))
    with pytest.raises(UserError, match=r"gbk\.txt: not UTF-8"):
        read_lines(tmp_path / "gbk.txt", "list")
    with pytest.raises(UserError, match=r"none\.txt: cannot read this list \(No such file"):
        read_lines(tmp_path / "none.txt", "list")


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    with whole_file(path, "list") as file:
        file.write(b"old")
    with pytest.raises(TypeError), whole_file(path, "list") as file:
        file.writelines([b"ne", None])
    assert path.read_bytes() == b"old"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match=r"file/a\.txt: cannot write this list"),
        whole_file(tmp_path / "file" / "a.txt", "list"),
    ):
        pass
