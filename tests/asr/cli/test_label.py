import dataclasses
import shlex
import shutil

import pytest

from asr.cli.main import main
from asr.transcription.recognizer import Recognizer
from data_pipeline.manifests.manifest import read_manifest, write_manifest


@pytest.fixture(scope="module")
def dev(clips, separable_run, tmp_path_factory):
    """Return a manifest of 24 utterances, the text of which is what the run recognizes."""
    recognizer = Recognizer.load(separable_run)
    rows = [
        dataclasses.replace(
            clip, id=f"{clip.id}-{copy}", tokens=recognizer.transcribe(clip.audio_path).tokens
        )
        for clip in clips
        for copy in range(2)
    ]
    path = tmp_path_factory.mktemp("dev") / "dev.jsonl"
    write_manifest(path, rows)
    return path


def test_label_writes_a_manifest_and_names_the_next_commands(clips, separable_run, dev, tmp_path, capsys):
    for clip in clips[:3]:
        shutil.copy(clip.audio_path, tmp_path)
    out = tmp_path / "out" / "labelled.jsonl"
    assert main(["label", str(separable_run), str(tmp_path), "--dev", str(dev), "--out", str(out)]) == 0
    assert [len(row.tokens) > 0 for row in read_manifest(out)] == [True] * 3
    printed = capsys.readouterr().out
    assert "confidence calibrated on 24 utterances" in printed
    assert "expected calibration error" in printed
    commands = [shlex.split(line) for line in printed.splitlines() if line.startswith("    asr ")]
    assert [words[1] for words in commands] == ["train", "compare", "label"]
    assert f"data.machine_labelled={out}" in commands[0]
    assert not list(out.parent.glob("*.unfinished"))


def test_a_few_transcripts_cannot_calibrate_the_confidence(clips, separable_run, tmp_path, capsys):
    """The dev set of this run has four utterances."""
    audio = clips[0].audio_path
    assert main(["label", str(separable_run), audio, "--out", str(tmp_path / "l.jsonl")]) == 2
    assert "name a larger manifest with --dev" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min-confidence", "90"], "--min-confidence: expected 0 to 1, received 90"),
        (["--dev", "gone.jsonl"], "gone.jsonl: no such manifest"),
        (["--out", "labelled.txt"], "--out labelled.txt: expected the name of a new manifest"),
    ],
)
def test_wrong_options_are_refused_before_a_model_is_loaded(
    options, message, clips, separable_run, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Recognizer, "of_choice", None)
    command = ["label", str(separable_run), clips[0].audio_path, "--out", "labelled.jsonl", *options]
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_the_dev_set_itself_is_not_overwritten(clips, separable_run, dev, capsys):
    before = dev.read_bytes()
    command = ["label", str(separable_run), clips[0].audio_path, "--dev", str(dev), "--out", str(dev)]
    assert main(command) == 2
    assert dev.read_bytes() == before
