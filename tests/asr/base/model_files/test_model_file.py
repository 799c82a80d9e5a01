"""A model file is unpacked once, and a crafted or damaged one is an error that names what is wrong."""

import io
import json
import os
import random
import stat
import struct
import zipfile

import numpy as np
import pytest
from helpers.model_files import CHECKPOINT, members_of, weights_of, write_members

from asr.base.decoder_settings import (
    GENERAL,
    NOT_EXPORTED,
    DecoderSettings,
    load_settings,
    save_settings,
)
from asr.base.errors import UserError
from asr.base.model_files.model_file import MAX_TEXT_BYTES, about_of, pack, unpacked
from asr.base.system.cache import cache_folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))


def contents_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


def refused(path, what):
    with pytest.raises(UserError, match=what) as caught:
        unpacked(path)
    assert str(path) in str(caught.value)
    assert not list((cache_folder() / "models").glob("*/*/*"))


def test_unpacked_folder_has_the_contents_and_the_name_of_the_file(tmp_path):
    folder = unpacked(write_members(tmp_path / "small.polyphone", members_of()))
    assert folder.name == "small"
    assert contents_of(folder) == members_of()


def test_file_is_unpacked_once_and_another_of_the_same_name_again(tmp_path):
    path = write_members(tmp_path / "small.polyphone", members_of())
    first = unpacked(path)
    (first / "inference").mkdir()
    assert unpacked(path) == first
    assert (first / "inference").exists()
    write_members(path, members_of(recognizes=False))
    assert unpacked(path) != first
    assert not about_of(path)["recognizes"]


def test_folder_is_packed_without_what_does_not_belong_to_a_model(tmp_path):
    folder = unpacked(write_members(tmp_path / "small.polyphone", members_of()))
    for other in ("inference/0.onnx", "state.json", "report.html"):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_text("of this machine", encoding="utf-8")
    pack(folder, tmp_path / "again.polyphone")
    assert contents_of(unpacked(tmp_path / "again.polyphone")) == members_of()
    pack(folder, tmp_path / "same.polyphone")
    assert (tmp_path / "same.polyphone").read_bytes() == (tmp_path / "again.polyphone").read_bytes()


def test_model_is_unpacked_where_the_cache_cannot_be_written(tmp_path):
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    folder = unpacked(write_members(tmp_path / "small.polyphone", members_of()))
    assert contents_of(folder) == members_of()


def test_compressed_members_are_refused_before_they_are_decompressed(tmp_path):
    bomb = weights_of(kernel=np.zeros(1_000_000, np.float32))
    path = write_members(tmp_path / "bomb.polyphone", members_of(bomb), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 20_000
    refused(path, "model.json is compressed")


def test_compressed_weights_within_a_stored_member_are_refused(tmp_path):
    inner = io.BytesIO()
    np.savez_compressed(inner, kernel=np.zeros(1_000_000, np.float32))
    refused(
        write_members(tmp_path / "bomb.polyphone", members_of(inner.getvalue())), "larger than their file"
    )


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """An archive of stored members that overlap is a bomb, too."""
    path = write_members(
        tmp_path / "bomb.polyphone", members_of(weights_of(kernel=np.zeros(100_000, np.float32)))
    )
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"vocabulary.txt") - 46  # of the list of members at the end
    assert content[entry : entry + 4] == b"PK\x01\x02"
    content[entry + 20 : entry + 28] = struct.pack("<II", 400_000, 400_000)
    path.write_bytes(content)
    refused(path, "larger than the file")


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/etc/evil", "checkpoints/../../evil.npz", "C:\\evil", "run.py"]
)
def test_names_that_do_not_belong_to_a_model_are_refused(name, tmp_path):
    refused(write_members(tmp_path / "a.polyphone", {**members_of(), name: b"x"}), "it has a member")
    assert not list(tmp_path.rglob("*evil*"))


def test_link_is_written_as_a_file(tmp_path):
    path = tmp_path / "link.polyphone"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members_of().items():
            member = zipfile.ZipInfo(name)
            if name == "vocabulary.txt":
                member.external_attr, content = (stat.S_IFLNK | 0o777) << 16, b"/etc/passwd"
            archive.writestr(member, content)
    written = unpacked(path) / "vocabulary.txt"
    assert not written.is_symlink()
    assert written.read_bytes() == b"/etc/passwd"


class Harmful:
    def __reduce__(self):
        return os.mkdir, (os.environ["NUMBA_CACHE_DIR"] + "-harmed",)


def test_python_objects_in_the_weights_are_refused_and_not_loaded(tmp_path):
    weights = weights_of(kernel=np.array([Harmful()], dtype=object))
    refused(write_members(tmp_path / "a.polyphone", members_of(weights)), "no numbers, but object")
    assert not (tmp_path / "cache-harmed").exists()


def with_array_header(header):
    inner, header = io.BytesIO(), header.encode()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr(
            "kernel.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"1234"
        )
    return members_of(inner.getvalue())


def test_array_that_states_a_huge_size_is_refused_before_memory_is_taken(tmp_path):
    members = with_array_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}")
    refused(write_members(tmp_path / "a.polyphone", members), "another size than it states")


@pytest.mark.parametrize(
    "header", ["{'descr': ", "(" * 5000, "{'descr': '<f4', 'shape': (-1,)}", "1" * 60_000, ""]
)
def test_damaged_header_of_an_array_is_refused(header, tmp_path):
    refused(write_members(tmp_path / "a.polyphone", with_array_header(header)), "damaged file")


def test_long_text_is_refused(tmp_path):
    members = {**members_of(), "vocabulary.txt": b"x" * (MAX_TEXT_BYTES + 1)}
    refused(write_members(tmp_path / "a.polyphone", members), "vocabulary.txt has 4.19MB, at most 4.19MB")


def test_weights_of_another_digest_are_refused(tmp_path):
    members = members_of(weights_sha256="0" * 64)
    refused(write_members(tmp_path / "a.polyphone", members), "another digest")


def test_later_version_names_the_remedy(tmp_path):
    members = {**members_of(file_version=2), "something_new.json": b"{}"}
    refused(write_members(tmp_path / "a.polyphone", members), "from Polyphone 9.9; .* update it")


def test_configuration_that_names_files_or_functions_is_refused(tmp_path):
    for line in (
        'extends = "/etc/passwd"',
        '[train]\ncallbacks = "os:abort"',
        '[data]\ntrain = "/etc/passwd"',
    ):
        members = {**members_of(), "config.toml": line.encode()}
        refused(write_members(tmp_path / "a.polyphone", members), "expected features and model alone")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('language_model = "/dev/zero"', "language model '/dev/zero', expected"),
        ('language_model = ["general"]', "names the language model"),
        ('hot_words = "/etc/passwd"', "expected a number for 'hot_words'"),
        ("beam = ", "damaged file"),
    ],
)
def test_decoder_settings_that_name_files_are_refused(line, what, tmp_path):
    members = {**members_of(), "decoder.toml": line.encode()}
    refused(write_members(tmp_path / "a.polyphone", members), what)


@pytest.mark.parametrize("language_model", ["", GENERAL, NOT_EXPORTED])
def test_decoder_settings_that_export_writes_are_accepted(language_model, tmp_path):
    save_settings(tmp_path / "decoder.toml", DecoderSettings(beam=8, language_model=language_model))
    members = {**members_of(), "decoder.toml": (tmp_path / "decoder.toml").read_bytes()}
    folder = unpacked(write_members(tmp_path / "a.polyphone", members))
    assert load_settings(folder / "decoder.toml", "lm") == DecoderSettings(beam=8, language_model="lm")
    assert load_settings(folder / "decoder.toml").beam == (1 if language_model == NOT_EXPORTED else 8)


@pytest.mark.parametrize("missing", ["model.json", "config.toml", "vocabulary.txt", CHECKPOINT])
def test_missing_member_is_an_error(missing, tmp_path):
    members = {name: content for name, content in members_of().items() if name != missing}
    refused(write_members(tmp_path / "a.polyphone", members), "damaged file")


@pytest.mark.parametrize("says", [b"[]", b"{", b"[" * 100_000, b"\xff", b'{"format": "polyphone"}', b"{}"])
def test_damaged_description_is_an_error(says, tmp_path):
    refused(write_members(tmp_path / "a.polyphone", {**members_of(), "model.json": says}), "damaged file")


def test_other_files_are_named_as_such(tmp_path):
    for content in (b"", b"RIFF....WAVEfmt ", b"PK\x03\x04"):
        path = tmp_path / "a.polyphone"
        path.write_bytes(content)
        refused(path, "expected a run's directory, or a model file")


def test_every_mutation_is_an_error_or_changes_nothing_that_is_used(tmp_path):
    rng, path = random.Random(5), tmp_path / "a.polyphone"
    whole = write_members(path, members_of()).read_bytes()
    num_errors = 0
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            begin = rng.randrange(len(content))
            content[begin : begin + rng.choice((1, 1, 4))] = rng.randbytes(rng.choice((0, 1, 4)))
        path.write_bytes(content[: rng.choice((len(content), rng.randrange(len(content))))])
        try:
            found = contents_of(unpacked(path))
        except UserError:
            num_errors += 1
        else:
            assert found == members_of()
    assert num_errors > 300


def test_description_is_read_without_unpacking(tmp_path):
    path = write_members(tmp_path / "a.polyphone", members_of())
    assert about_of(path)["run"] == json.loads(members_of()["model.json"])["run"]
    assert not (cache_folder() / "models").exists()
