import pytest

from asr.base.errors import UserError
from asr.base.system.files import read_lines, whole_file, whole_folder


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


def test_a_folder_is_made_completely_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "folder"
    with pytest.raises(TypeError), whole_folder(path, "list") as folder:
        (folder / "a.txt").write_bytes("")
    assert not list(path.parent.iterdir())
    with whole_folder(path, "list") as folder:
        (folder / "a.txt").write_text("a")
        assert not path.exists()
    assert (path / "a.txt").read_text() == "a"
    assert [p.name for p in path.parent.iterdir()] == ["folder"]
    with pytest.raises(UserError, match=r"folder: already exists"), whole_folder(path, "list"):
        pass
    with (
        pytest.raises(UserError, match=r"file/a: cannot write this list"),
        whole_folder(path / "a.txt" / "file/a", "list"),
    ):
        pass
