from pathlib import Path

import pytest

from asr.base.types import Utterance
from data_pipeline.inspection.statistics import Unseen, inspect_manifests, inspect_utterances
from data_pipeline.manifests.manifest import write_manifest


def utterance(name, duration_s, tokens, speaker=""):
    return Utterance(name, f"{name}.wav", duration_s, "", tuple(tokens.split()), speaker)


@pytest.fixture
def train():
    rows = [utterance(f"u{i}", 2.0, "ni3 hao3 ma5", "anna") for i in range(12)]
    return [*rows, utterance("x", 1.0, "an4 ni3", "bert"), utterance("y", 3.0, "zhi1", "bert")]


def test_statistics_of_a_manifest(train):
    found = inspect_utterances("train", train)
    assert found.duration_s == 28.0
    assert found.num_sentences == 3
    assert found.speaker_s == {"anna": 24.0, "bert": 4.0}
    assert found.label_counts == {"ni3": 13, "hao3": 12, "ma5": 12, "an4": 1, "zhi1": 1}
    assert found.rare_labels == {"an4": 1, "zhi1": 1}
    assert found.tokens_per_s[-2:] == [2.0, pytest.approx(1 / 3)]
    assert found.part_counts["tone"] == {"1": 1, "3": 25, "4": 1, "5": 12}
    assert found.part_counts["initial"] == {"n": 13, "h": 12, "m": 12, "none": 1, "zh": 1}
    assert found.part_counts["final"]["-i"] == 1


def test_labels_other_than_syllables_have_no_part_counts_and_no_coverage(train):
    found = inspect_utterances("m", [*train, utterance("z", 1.0, "hello")])
    assert (found.part_counts, found.coverage) == ({}, None)


def test_coverage_counts_the_syllables_of_a_manifest(train):
    coverage = inspect_utterances("train", train).coverage
    assert coverage.num_covered == 5
    assert "de5" in coverage.missing
    assert "ni3" not in coverage.missing


def test_unseen_are_labels_and_syllables_that_training_lacks_with_their_audio(train):
    first = inspect_utterances("train", train)
    rows = [utterance("d", 1.0, "ni4 men5 qu4"), utterance("e", 2.5, "qu4 hao3"), utterance("f", 9.0, "ni3")]
    labels, syllables = inspect_utterances("dev", rows, first).unseen
    assert labels == Unseen("labels", {"qu4": 2, "men5": 1, "ni4": 1}, 2, 3.5)
    assert syllables == Unseen("syllables without tone", {"qu": 2, "men": 1}, 2, 3.5)
    assert [unseen.counts for unseen in inspect_utterances("test", train[:1], first).unseen] == [{}, {}]
    assert first.unseen == ()


def test_unseen_labels_other_than_syllables_have_no_finals():
    first = inspect_utterances("train", [utterance("a", 1.0, "h e y")])
    (letters,) = inspect_utterances("dev", [utterance("b", 1.0, "h o")], first).unseen
    assert letters == Unseen("labels", {"o": 1}, 1, 1.0)


def test_inspect_manifests_returns_training_manifests_first(train, tmp_path):
    for name, rows in {"dev": train[:1], "train": train}.items():
        write_manifest(tmp_path / f"{name}.jsonl", rows)
    found = inspect_manifests([tmp_path / "dev.jsonl", tmp_path / "train.jsonl"])
    assert [(Path(one.name).stem, len(one.durations_s)) for one in found] == [
        ("train", len(train)),
        ("dev", 1),
    ]
