"""Tests of unpacking valid, damaged and malicious archives."""

import contextlib
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import zipfile

import pytest
from helpers import ROOT
from helpers.processes import killed_at_opening

from asr.base.errors import UserError
from data_pipeline.download.archives import is_unpacked, unpack

NOISE = random.Random(1).randbytes(100_000)


def entry(name, content=b"", kind=tarfile.REGTYPE, link="", **facts):
    """Return a tar entry; `facts` may contradict its content."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info, content


def folder(name):
    return entry(name, kind=tarfile.DIRTYPE)


def symlink(name, target):
    return entry(name, kind=tarfile.SYMTYPE, link=target)


def hard_link(name, target):
    return entry(name, kind=tarfile.LNKTYPE, link=target)


def write_tar(path, *entries, mode="w"):
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.fileobj.write(info.tobuf(tarfile.PAX_FORMAT))
            tar.fileobj.write(content + bytes(-len(content) % 512))
            tar.offset = tar.fileobj.tell()
    return path


def write_zip(path, *entries):
    """Write a zip file of entries (name or ZipInfo, content)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in entries:
            bundle.writestr(name, content)
    return path


@pytest.fixture
def place(tmp_path):
    """Return a folder to unpack into, deep enough that files written outside of it are seen."""
    target = tmp_path / "outer" / "inner" / "target"
    target.mkdir(parents=True)
    return target


def tree(path):
    return {
        found.relative_to(path).as_posix(): str(found.readlink())
        if found.is_symlink()
        else found.read_bytes()
        for found in path.rglob("*")
        if found.is_symlink() or (found.is_file() and not found.name.startswith("."))
    }


def refused(archive, place, message):
    top = place.parents[1]
    before = tree(top)
    with pytest.raises(UserError, match=message) as caught:
        unpack(archive, place)
    assert str(caught.value).startswith(str(archive))
    assert tree(top) == before
    assert list(place.iterdir()) == []
    assert not is_unpacked(archive, place)


def stays_inside(archive, place):
    """Assert that an archive is refused, or that no file and no link of it leads out of the folder."""
    outside = {path: content for path, content in tree(place.parents[1]).items() if "target/" not in path}
    with contextlib.suppress(UserError):
        unpack(archive, place)
    after = {path: content for path, content in tree(place.parents[1]).items() if "target/" not in path}
    assert after == outside
    assert all(path.resolve().is_relative_to(place) for path in place.rglob("*"))


ORDINARY = [
    folder("c"),
    entry("c/a.wav", NOISE),
    entry("./c/deep/er/b.txt", "你好".encode()),
    entry("c/empty"),
]
UNPACKED = {"c/a.wav": NOISE, "c/deep/er/b.txt": "你好".encode(), "c/empty": b""}


@pytest.mark.parametrize("suffix", ["", "gz", "bz2", "xz"])
def test_tar_files_of_every_compression_are_unpacked(place, tmp_path, suffix):
    archive = write_tar(tmp_path / "a", *ORDINARY, mode=f"w:{suffix}")
    unpack(archive, place)
    assert tree(place) == UNPACKED
    assert archive.exists()
    assert is_unpacked(archive, place)


def test_zip_files_are_unpacked(place, tmp_path):
    archive = write_zip(tmp_path / "a.zip", ("c/", b""), *UNPACKED.items())
    unpack(archive, place)
    assert tree(place) == UNPACKED


def test_links_within_the_folder_are_created(place, tmp_path):
    archive = write_tar(
        tmp_path / "a.tar",
        symlink("c/train/a.wav", "../data/a.wav"),  # before its target, as in THCHS-30
        entry("c/data/a.wav", NOISE),
        hard_link("c/b.wav", "c/data/a.wav"),
        symlink("c/dangling", "nowhere"),
    )
    unpack(archive, place)
    assert (place / "c/train/a.wav").read_bytes() == NOISE
    assert (place / "c/b.wav").samefile(place / "c/data/a.wav")
    assert os.readlink(place / "c/dangling") == "nowhere"  # noqa: PTH115


WAYS_OUT = [
    "../evil",
    "c/../../evil",
    "c/..",
    "/evil",
    "//evil",
    "C:/evil",
    "C:evil",
    "c/D:evil",
    "..\\evil",
    "c\\..\\..\\evil",
    "\\evil",
    "\\\\host\\share\\evil",
]


@pytest.mark.parametrize("name", WAYS_OUT)
def test_paths_out_of_the_folder_write_nothing_there(place, tmp_path, name):
    sound = entry("c/a.wav", NOISE)
    stays_inside(write_tar(tmp_path / "a.tar", sound, entry(name, b"x")), place)
    stays_inside(write_tar(tmp_path / "b.tar", sound, folder(name)), place)
    stays_inside(write_zip(tmp_path / "a.zip", ("c/a.wav", NOISE), (name, b"x")), place)


@pytest.mark.parametrize(
    "entries",
    [
        [symlink("c/out", "/etc")],
        [symlink("c/out", "../..")],
        [symlink("out", "..")],
        [symlink("c/out", "C:/")],
        [symlink("c/out", "..\\..\\secret")],
        [symlink("c/out", "")],
        # links that are harmless alone: the second goes up from where the first leads
        [folder("a/b"), symlink("here", "a/b"), symlink("a/out", "../here/../../..")],
        [symlink("c/here", "."), symlink("out", "c/here/../../secret")],
        # a chain by which a link is made through a link
        [symlink("a/b/up", "../.."), symlink("a/b/up/out", "../../../secret")],
        [symlink("x", "."), entry("x/evil", b"x")],
        [entry("x/evil", b"x"), symlink("x", ".")],
        [symlink("x", "y"), entry("x", b"x")],
        [hard_link("out", "../secret")],
        [hard_link("out", "/etc/passwd")],
        [symlink("x", "/etc/passwd"), hard_link("y", "x")],
        [symlink("c/x", "y"), hard_link("c/z", "c/x")],
        [hard_link("x", "later"), entry("later")],
        [entry("x"), hard_link("x", "x")],
        [folder("x"), hard_link("y", "x")],
    ],
)
def test_links_that_lead_out_or_are_written_through_reach_nothing_there(place, tmp_path, entries):
    (place.parent / "secret").write_bytes(b"secret")
    stays_inside(write_tar(tmp_path / "a.tar", *entries), place)


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"])
def test_devices_and_pipes_in_tar_files_are_an_error(place, tmp_path, kind):
    refused(write_tar(tmp_path / "a.tar", entry("x", kind=kind)), place, "'x' is a special file")


@pytest.mark.parametrize("entries", [[entry("a"), entry("a/b")], [entry("a/b"), entry("a")]])
def test_entry_that_is_both_file_and_folder_is_an_error(place, tmp_path, entries):
    refused(write_tar(tmp_path / "a.tar", *entries), place, "truncated or damaged .*directory")


def test_archive_larger_than_free_space_is_an_error_before_writing(place, tmp_path):
    huge = write_tar(tmp_path / "a.tar", entry("c/a.wav", NOISE), entry("huge", size=1 << 40))
    refused(huge, place, r"needs 1.10TB, .* are free")
    sparse = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 50)}
    with tarfile.open(tmp_path / "b.tgz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(entry("sparse", b"x", pax_headers=sparse)[0], io.BytesIO(b"x"))
    refused(tmp_path / "b.tgz", place, "needs 1.13PB")


@pytest.mark.parametrize("kind", ["tar", "gz", "bz2", "zip"])
def test_truncated_archive_is_an_error(place, tmp_path, kind):
    whole = tmp_path / "whole"
    if kind == "zip":
        write_zip(whole, *UNPACKED.items())
    else:
        write_tar(whole, *ORDINARY, mode="w" if kind == "tar" else f"w:{kind}")
    data = whole.read_bytes()
    if kind == "tar":
        data = data.rstrip(b"\0")
    cuts = [0, 1, 100, 511, 512, 513, 1024, len(data) // 2, len(data) * 9 // 10, len(data) - 1]
    for num_bytes in cuts:
        archive = tmp_path / f"cut-{num_bytes}"
        archive.write_bytes(data[:num_bytes])
        refused(archive, place, "truncated or damaged .*download it again")


@pytest.mark.parametrize("kind", ["tar", "gz"])
def test_damaged_tar_header_is_not_treated_as_the_end(place, tmp_path, kind):
    archive = write_tar(tmp_path / "a", entry("a", b"1"), entry("b", b"2"), entry("c", b"3"), mode="w")
    data = bytearray(archive.read_bytes())
    data[1024 + 5] ^= 1  # in the header of b
    archive.write_bytes(data)
    if kind == "gz":
        import gzip

        archive.write_bytes(gzip.compress(data))
    refused(archive, place, "truncated or damaged")


def test_flipped_bit_in_a_compressed_archive_is_an_error(place, tmp_path):
    for kind in ("gz", "bz2", "zip"):
        archive = tmp_path / kind
        if kind == "zip":
            write_zip(archive, *UNPACKED.items())
        else:
            write_tar(archive, *ORDINARY, mode=f"w:{kind}")
        data = bytearray(archive.read_bytes())
        data[len(data) // 2] ^= 1
        archive.write_bytes(data)
        refused(archive, place, "truncated or damaged")


@pytest.mark.parametrize("content", [b"<html>log in</html>" * 100, b"", bytes(20_000), b"PK\3\4 no zip"])
def test_file_that_is_not_an_archive_is_an_error(place, tmp_path, content):
    archive = tmp_path / "a.tgz"
    archive.write_bytes(content)
    refused(archive, place, "truncated or damaged")


def test_encrypted_zip_file_is_an_error(place, tmp_path):
    archive = write_zip(tmp_path / "a.zip", ("x", b"1"))
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    archive.write_bytes(data)
    refused(archive, place, "is encrypted")


def test_archives_of_a_corpus_unpack_into_shared_folders(place, tmp_path):
    for split in ("dev", "train"):
        entries = [entry(f"Libri/{split}/a.flac", split.encode()), entry("Libri/README", b"the same")]
        unpack(write_tar(tmp_path / f"{split}.tar", *entries), place)
    assert tree(place) == {
        "Libri/dev/a.flac": b"dev",
        "Libri/train/a.flac": b"train",
        "Libri/README": b"the same",
    }


def test_unpacking_never_overwrites_a_different_file(place, tmp_path):
    (place / "c").mkdir()
    (place / "c" / "a.wav").write_bytes(b"mine")
    archive = write_tar(tmp_path / "a.tar", entry("b.wav", b"1"), entry("c/a.wav", b"2"))
    with pytest.raises(UserError, match=r"c/a.wav: differs .*; move it"):
        unpack(archive, place)
    assert tree(place) == {"c/a.wav": b"mine"}


def test_unpacking_does_not_write_through_an_existing_link(place, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place / "c").symlink_to(elsewhere)
    with pytest.raises(UserError, match="differs"):
        unpack(write_tar(tmp_path / "a.tar", entry("c/a.wav", NOISE)), place)
    assert list(elsewhere.iterdir()) == []


def test_is_unpacked_requires_the_same_archive_and_existing_files(place, tmp_path):
    archive = write_tar(tmp_path / "a.tar", entry("c/a.wav", b"1"))
    assert not is_unpacked(archive, place)
    unpack(archive, place)
    write_tar(archive, entry("c/a.wav", b"1"), entry("c/b.wav", NOISE))
    assert not is_unpacked(archive, place)
    unpack(archive, place)
    assert is_unpacked(archive, place)
    archive.unlink()
    assert is_unpacked(archive, place)
    (place / "c" / "b.wav").unlink()
    assert not is_unpacked(archive, place)


PROGRAM = (
    "import sys, pathlib; from data_pipeline.download.archives import unpack; "
    "unpack(*map(pathlib.Path, sys.argv[1:]))"
)


def test_killed_unpacking_does_not_count_as_unpacked(place, tmp_path):
    files = {"c/first": b"1", "c/last": b"2"}
    archive = write_tar(tmp_path / "a.tar", *(entry(*file) for file in files.items()))
    program = killed_at_opening("c/last", PROGRAM)
    process = subprocess.run([sys.executable, "-c", program, archive, place], cwd=ROOT)
    assert process.returncode == -signal.SIGKILL
    hidden = place / ".a.tar.unpacking" / "c"
    assert [path.name for path in hidden.iterdir()] == ["first"]
    assert not (place / "c").exists()
    assert not is_unpacked(archive, place)
    unpack(archive, place)
    assert tree(place) == files
    assert not hidden.parent.exists()


def test_unpacking_to_a_full_disk_is_an_error_and_leaves_nothing(place, tmp_path):
    archive = write_tar(tmp_path / "a.tar", entry("c/a.wav", NOISE))
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)); "
    process = subprocess.run(
        [sys.executable, "-c", limit + PROGRAM, archive, place], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert "cannot write this unpacked file (File too large)" in process.stderr
    assert list(place.iterdir()) == []
