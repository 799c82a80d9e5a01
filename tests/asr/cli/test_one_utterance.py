"""Test that commands on a single utterance count it in the singular, in what they print and write."""

import re
import shutil
from pathlib import Path

import pytest

from asr.cli.main import main
from data_pipeline.manifests.manifest import write_manifest

# a count of one, then a plural; not a rate or a range, a verb, or a unit
PLURAL = re.compile(r"(?<![\d.,:/-])1 (?!is\b|has\b|was\b|s\b|h\b)([a-z][a-z-]*s)\b(?!/s)")


@pytest.fixture
def one(clips, tmp_path, monkeypatch):
    """Return a folder with one recording, its text, and a manifest of it, as the current one."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(clips[0].audio_path, tmp_path / "a.wav")
    Path("a.txt").write_text(clips[0].text, encoding="utf-8")
    for name in ("train", "dev"):
        write_manifest(tmp_path / f"{name}.jsonl", clips[:1])
    return tmp_path


def written_and_printed(folder, capsys):
    """Return all that a command printed, and the text of the pages that it wrote."""
    captured = capsys.readouterr()
    pages = [
        re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " | ", path.read_text("utf-8"), flags=re.S)
        for path in folder.rglob("*.html")
    ]
    return "\n".join([captured.out, captured.err, *pages])


@pytest.mark.parametrize(
    "command",
    [
        "train {config} --name one --set train.epochs=1 --set data.train=train.jsonl "
        "--set data.dev=dev.jsonl --set data.test=dev.jsonl --set train.runs_dir=runs",
        "evaluate {run} dev.jsonl --tokens",
        "evaluate {run} dev.jsonl --tokens --compare {run}/report.json",
        "transcribe {run} . --tokens --format text",
        "doctor train.jsonl dev.jsonl",
        "inspect train.jsonl dev.jsonl",
        "pack train.jsonl packed",
        "prepare folder . out",
        "lm train a.txt --out lm",
        "runs runs",
        "augment a.wav --out augmented",
    ],
)
def test_one_is_counted_in_the_singular(command, one, trained_run, clip_config, capsys):
    run = shutil.copytree(trained_run, one / "runs" / "clips")
    for page in run.glob("*.html"):
        page.unlink()
    main([part.format(run=run, config=clip_config) for part in command.split()])
    text = written_and_printed(one, capsys)
    assert text.strip()
    assert not [match[0] for match in PLURAL.finditer(" ".join(text.replace("\n", "\n|").split()))]
