import html
import re

import pytest

from asr.base.types import Utterance
from asr.cli.main import main
from data_pipeline.manifests.manifest import write_manifest


def utterance(name, duration_s, tokens, speaker=""):
    return Utterance(name, f"{name}.wav", duration_s, "", tuple(tokens.split()), speaker)


@pytest.fixture
def train():
    rows = [utterance(f"u{i}", 2.0, "ni3 hao3 ma5", "anna") for i in range(12)]
    return [*rows, utterance("x", 1.0, "an4 ni3", "bert"), utterance("y", 3.0, "zhi1", "bert")]


def test_inspect_prints_and_draws_statistics(train, tmp_path, capsys):
    write_manifest(tmp_path / "train.jsonl", train)
    write_manifest(tmp_path / "<dev> & 甲.jsonl", [utterance("d", 1.0, "men5")])
    manifests = [str(tmp_path / "train.jsonl"), str(tmp_path / "<dev> & 甲.jsonl")]
    page = tmp_path / "page.html"
    assert main(["inspect", *manifests, "--html", str(page)]) == 0
    output = capsys.readouterr().out
    assert "28 s, 14 utterances" in output
    assert "2, from 4 s to 24 s each" in output
    assert "ni3 13, hao3 12" in output
    assert "labels that do not occur in" in output
    assert re.search(r"Mandarin's syllables +5 of 1,\d{3}, 1\.1% of what is said", output)
    assert re.search(r"missing, by use +de5, ", output)
    text = page.read_text(encoding="utf-8")
    assert "<dev>" not in text
    words = html.unescape(re.sub("<[^>]+>", " ", text))
    assert "<dev> & 甲" in words
    for expected in (
        "Durations",
        "Labels by frequency",
        "Not in training",
        "Initials by finals",
        "Coverage of Mandarin",
        "5 of the 1,",
        "men5",
        "甲",
        "initials",
    ):
        assert expected in words


def test_recordings_without_a_speaker_are_not_counted_as_one(train, tmp_path, capsys):
    write_manifest(tmp_path / "m.jsonl", [*train, utterance("z", 300.0, "ni3")])
    assert main(["inspect", str(tmp_path / "m.jsonl")]) == 0
    assert "2, from 4 s to 24 s each" in capsys.readouterr().out


def test_inspect_accepts_a_manifest_without_labels(tmp_path, capsys):
    write_manifest(tmp_path / "m.jsonl", [utterance("a", 1.0, "")])
    assert main(["inspect", str(tmp_path / "m.jsonl"), "--html", str(tmp_path / "m.html")]) == 0
    assert "1 utterance" in capsys.readouterr().out


def test_inspect_compares_with_train_and_overwrites_no_manifest(train, tmp_path, capsys):
    write_manifest(tmp_path / "train.jsonl", train)
    write_manifest(tmp_path / "dev.jsonl", [utterance("d", 1.0, "men5")])
    manifests = [str(tmp_path / "dev.jsonl"), str(tmp_path / "train.jsonl")]
    assert main(["inspect", *manifests, "--html", str(tmp_path / "page.html")]) == 0
    assert "dev.jsonl: labels that do not occur in" in capsys.readouterr().out
    for command in ("inspect", "doctor"):
        assert main([command, manifests[0], "--html", manifests[1]]) == 2
        assert "would be overwritten" in capsys.readouterr().err


def test_inspect_names_a_broken_manifest(tmp_path, capsys):
    (tmp_path / "m.jsonl").write_text("no json", encoding="utf-8")
    assert main(["inspect", str(tmp_path / "m.jsonl")]) == 2
    assert "m.jsonl:1: not a JSON object" in capsys.readouterr().err
