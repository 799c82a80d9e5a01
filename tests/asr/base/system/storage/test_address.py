import os
import pickle
from pathlib import Path

import pytest

from asr.base.errors import UserError
from asr.base.system.storage.address import Address, is_address, path_of, refuse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b/x/a.wav", "s3://b/x/a.wav"),
        ("S3://b//x/./a.wav/", "s3://b/x/a.wav"),
        ("s3://b/x/../a.wav", "s3://b/a.wav"),
        ("memory://b", "memory://b"),
        ("hdfs:///data/a", "hdfs://default/data/a"),
        ("gs://b/数据/a.wav", "gs://b/数据/a.wav"),
    ],
)
def test_an_address_keeps_its_slashes_whatever_is_made_of_it(text, expected):
    path = path_of(text)
    assert isinstance(path, Address)
    assert str(path) == os.fspath(path) == str(pickle.loads(pickle.dumps(path))) == expected
    assert path_of(path) is path
    assert path_of(Path(expected)) == path  # a Path has lost one slash
    assert str(path / "y.txt") == f"{expected}/y.txt"
    assert str((path / "y.txt").parent) == expected
    assert str((path / "y.txt").with_name("z")) == f"{expected}/z"


@pytest.mark.parametrize(
    "text", ["a.wav", "./a.wav", "/data/a.wav", "C:/a.wav", "a:b.wav", "https://x.org/a", "http:/x", "", "."]
)
def test_any_other_name_is_a_plain_path(text):
    assert not is_address(text)
    assert type(path_of(text)) is type(Path())
    assert path_of(text) == Path(text)


def test_a_folder_with_a_colon_at_its_end_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s3:").mkdir()
    assert not isinstance(path_of("s3:/a.wav"), Address)
    assert isinstance(path_of("s3://a.wav"), Address)


def test_an_address_of_this_machine_is_a_plain_path():
    assert path_of("file:///data/a.wav") == Path("/data/a.wav")


def test_paths_below_an_address():
    folder = path_of("s3://b/x")
    assert str(folder / "../y/a.wav") == "s3://b/y/a.wav"
    assert folder / "/data/a.wav" == Path("/data/a.wav")
    assert not isinstance(folder / "/data/a.wav", Address)
    assert str(folder / "gs://c/a.wav") == "gs://c/a.wav"
    assert (folder / "y/a.wav").relative_to(folder) == Path("y/a.wav")
    assert type((folder / "y/a.wav").relative_to(folder)) is type(Path())
    assert (folder / "y").is_relative_to(folder)
    assert not folder.is_relative_to(Path.cwd())
    assert folder.resolve() == folder.absolute() == folder


def test_reading_what_is_at_an_address():
    import fsspec

    fsspec.filesystem("memory").pipe({"/house/a.txt": "你好\n".encode(), "/house/b/c.txt": b"c"})
    folder = path_of("memory://house")
    assert (folder / "a.txt").read_text(encoding="utf-8") == "你好\n"
    assert (folder / "b/c.txt").read_bytes() == b"c"
    assert (folder / "a.txt").exists()
    assert (folder / "a.txt").is_file()
    assert folder.is_dir()
    assert not (folder / "none.txt").exists()
    assert (folder / "a.txt").stat().st_size == 7
    with pytest.raises(FileNotFoundError):
        (folder / "none.txt").stat()
    with pytest.raises(FileNotFoundError, match="nothing is there; correct the address"):
        (folder / "none.txt").read_text()
    assert list(map(str, folder.glob("*.txt"))) == ["memory://house/a.txt"]
    assert list(map(str, folder.rglob("*.txt"))) == ["memory://house/a.txt", "memory://house/b/c.txt"]
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b"]


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.mkdir(parents=True, exist_ok=True),
        lambda path: path.open("wb"),
        lambda path: path.open("a+"),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(missing_ok=True),
        lambda path: path.replace("a"),
    ],
)
def test_nothing_is_written_to_an_address(write):
    with pytest.raises(UserError, match=r"memory://house/new: .*expected a folder on a disk.*copy it there"):
        write(path_of("memory://house/new"))


def test_a_setting_that_must_be_on_a_disk_is_named():
    refuse_address(Path("runs"), "train.runs_dir")
    with pytest.raises(UserError, match=r"s3://b/runs: train.runs_dir: expected a folder on a disk"):
        refuse_address(path_of("s3://b/runs"), "train.runs_dir")
