"""Corpora that a training lacks are downloaded, after it said what that takes."""

import dataclasses
import logging
import re
import shutil

import pytest
from helpers.archive_server import archive_server
from helpers.corpora.miniatures import miniature

from asr.base.errors import UserError
from data_pipeline.corpora import CORPORA
from data_pipeline.preparation.combined_corpora import parts_of, prepare_joint
from data_pipeline.preparation.downloaded_sources import download_sources


@pytest.fixture
def served(clips, monkeypatch):
    """Yield a server of THCHS-30 in miniature, whose first answer breaks off."""
    corpus, files = miniature("thchs30", clips)
    monkeypatch.setitem(CORPORA, "thchs30", corpus)
    with archive_server(files, cut="/18/") as server:
        yield server


def download(folder, server, corpora="thchs30"):
    parts = parts_of(corpora, str(folder / "corpora" / "thchs30"))
    download_sources(parts, folder / "data", server.address)
    return parts


def test_missing_corpus_is_downloaded_with_resume_and_only_once(served, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    parts = download(tmp_path, served)
    (first, begin), (second, resumed) = served.asked
    assert first == second
    assert begin == 0 < resumed
    assert (tmp_path / "corpora/thchs30/data_thchs30/train").is_dir()
    assert re.search(r"thchs30: downloads [\d.]+\wB .* data\.source .*Apache-2\.0", caplog.text)
    download(tmp_path, served)
    prepare_joint(parts, tmp_path / "data")
    shutil.rmtree(tmp_path / "corpora")
    download(tmp_path, served)  # what is prepared needs no source
    assert len(served.asked) == 2


def test_unfinished_download_is_continued(served, tmp_path):
    folder = tmp_path / "corpora" / "thchs30"
    folder.mkdir(parents=True)
    ((path, content),) = served.files.items()
    (folder / f"{path.rpartition('/')[2]}.part").write_bytes(content[:1000])
    download(tmp_path, served)
    assert served.asked[0][1] == 1000
    assert (folder / "data_thchs30").is_dir()


def test_folder_of_ones_own_is_left_as_it_is(served, tmp_path):
    mine = tmp_path / "corpora" / "thchs30" / "unpacked"
    mine.mkdir(parents=True)
    download(tmp_path, served)
    assert not served.asked


def test_folder_unpacked_by_hand_next_to_its_archive_is_left_as_it_is(served, tmp_path):
    folder = tmp_path / "corpora" / "thchs30"
    (folder / "data_thchs30" / "train").mkdir(parents=True)
    ((path, content),) = served.files.items()
    (folder / path.rpartition("/")[2]).write_bytes(content)
    download(tmp_path, served)
    assert not served.asked
    assert not list(folder.glob(".*.unpacked"))


def test_unpacking_that_was_interrupted_is_repeated(served, tmp_path):
    folder = tmp_path / "corpora" / "thchs30"
    ((path, content),) = served.files.items()
    archive = folder / path.rpartition("/")[2]
    (folder / f".{archive.name}.unpacking").mkdir(parents=True)
    archive.write_bytes(content)
    (folder / "README.TXT").touch()
    download(tmp_path, served)
    assert not served.asked  # the archive is whole
    assert (folder / "data_thchs30" / "train").is_dir()


def test_moved_address_names_the_page_and_the_setting(served, tmp_path):
    served.files = {}
    with pytest.raises(
        UserError, match=r"(?s)404.*its page is https://www\.openslr\.org/18/.*data\.source.*data_thchs30/"
    ) as error:
        download(tmp_path, served)
    assert "; other servers: " in str(error.value)
    assert "mirror" not in str(error.value)  # which is of another command


def test_disk_that_is_too_small_for_all_is_an_error_before_the_first_byte(served, tmp_path, monkeypatch):
    huge = dataclasses.replace(CORPORA["aishell1"], size_gb=1e6)
    monkeypatch.setitem(CORPORA, "aishell1", huge)
    parts = parts_of("thchs30, aishell1", str(tmp_path / "corpora"))
    with pytest.raises(UserError, match=r"thchs30, aishell1 \(data\.source\): needs 3\.00PB"):
        download_sources(parts, tmp_path / "data", served.address)
    assert not served.asked


def test_disk_space_counts_what_is_unpacked():
    for name in ("thchs30", "librispeech"):
        assert CORPORA[name].disk_gb == 2 * CORPORA[name].size_gb
    assert 45 < CORPORA["aishell1"].disk_gb < 55  # the archive, those in it, and 178 hours at 32 kB a second
