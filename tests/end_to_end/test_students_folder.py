"""Prepare a student's folder in one command: what can be used is used, everything else is named."""

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from helpers import ROOT
from helpers.corpora.students_folder import Spoken, build

from asr.base.text.hanzi_text import is_hanzi
from asr.cli.main import main
from data_pipeline.corpora.forms.named_by_text import text_in_name
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE
from data_pipeline.manifests.manifest import read_manifest

SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Return recordings of the project's own corpus, the shortest first, each text once."""
    folder = tmp_path_factory.mktemp("demo")
    with zipfile.ZipFile(ARCHIVE) as archive:
        records = [json.loads(line) for line in archive.read("manifest.jsonl").decode().splitlines()]
        by_text = {record["text"]: record for record in sorted(records, key=lambda one: one["duration_s"])}
        chosen = list(by_text.values())[:70]
        return [Spoken(Path(archive.extract(one["audio"], folder)), one["text"]) for one in chosen]


def check(folder, out, capsys):
    """Prepare a folder: its texts are used once each, the rest is named. Return what the command printed."""
    assert main(["prepare", "folder", str(folder.path), str(out)]) == 0
    utterances = [u for path in sorted(out.glob("*.jsonl")) for u in read_manifest(path)]
    assert Counter(u.text for u in utterances) == Counter(folder.texts)
    assert all(Path(u.audio_path).is_file() for u in utterances)
    rows = [line.split("\t") for line in (out / "left_out.tsv").read_text("utf-8").splitlines()]
    assert Counter(Path(what).name for _, what, _ in rows) == Counter(folder.unusable)
    assert all(detail for _, _, detail in rows)
    return capsys.readouterr().out


def test_every_recording_of_a_small_students_folder_is_used_or_named(demo, tmp_path, capsys):
    words = [one for one in demo if is_hanzi(one.text)][:25]
    sentences = [one for one in demo if one not in words][:30]
    output = check(build(tmp_path / "我的录音", words, sentences, 0), tmp_path / "out", capsys)
    # one more than are used: 坏.mp3, which cannot be read
    assert "26 in names of files, 20 in tables, 5 in .TextGrid, 5 in .srt" in output
    assert (
        f"the name is the text of 26 recordings, such as 词语/{min(one.text for one in words)}.mp3" in output
    )
    assert "录音表.csv: 20 files found by name below" in output
    assert "tier '句子' of 1 TextGrid was read, such as 朗读.TextGrid; not read: syllables" in output
    assert "left out: 4 of 59" in output


def test_phones_files_and_a_film_in_a_students_folder_are_used(demo, tmp_path, capsys):
    output = check(build(tmp_path / "mine", demo[:5], demo[5:40], 10), tmp_path / "out", capsys)
    assert "10 in .txt" in output


@pytest.mark.slow
def test_whole_students_folder_is_prepared_by_one_command_and_found_sound(tmp_path, capsys):
    if not SHARED.is_dir():
        pytest.skip(f"needs real recordings in {SHARED}")
    files = sorted((SHARED / "hsk_words" / "audio").glob("cmn-*.mp3"))
    words = [Spoken(path, path.stem.removeprefix("cmn-")) for path in files]
    words = [word for word in words if text_in_name(word.text) == word.text][::11][:600]
    manifest = SHARED / "real_mandarin" / "aishell_sample" / "all.jsonl"
    records = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    sentences = [Spoken(manifest.parent / one["audio"], one["text"]) for one in records]
    folder = build(tmp_path / "我的录音", words, sentences[:120], 10)
    output = check(folder, tmp_path / "out", capsys)
    assert "601 in names of files, 100 in tables" in output
    manifests = sorted(map(str, (tmp_path / "out").glob("*.jsonl")))
    assert main(["doctor", *manifests, "--json", "-", "--html", str(tmp_path / "doctor.html")]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    # both are true: one speaker says all, and some syllables are in one set only
    assert {one["code"] for one in findings if one["severity"] != "note"} <= {
        "shared-speaker",
        "unseen-token",
    }
