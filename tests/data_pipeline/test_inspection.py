from pathlib import Path

import pytest

from asr.base.types import Utterance
from data_pipeline.inspection import inspect_manifests, inspect_utterances, unseen_labels
from data_pipeline.manifest import write_manifest


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


def test_labels_other_than_syllables_have_no_part_counts(train):
    assert inspect_utterances("m", [*train, utterance("z", 1.0, "hello")]).part_counts == {}


def test_unseen_labels_are_those_missing_in_the_first_manifest(train):
    dev = inspect_utterances("dev", [utterance("d", 1.0, "ni3 men5 qu4")])
    same = inspect_utterances("test", train[:1])
    assert unseen_labels([inspect_utterances("train", train), dev, same]) == {"dev": ["men5", "qu4"]}


def test_inspect_manifests_returns_training_manifests_first(train, tmp_path):
    for name, rows in {"dev": train[:1], "train": train}.items():
        write_manifest(tmp_path / f"{name}.jsonl", rows)
    found = inspect_manifests([tmp_path / "dev.jsonl", tmp_path / "train.jsonl"])
    assert [(Path(one.name).stem, len(one.durations_s)) for one in found] == [
        ("train", len(train)),
        ("dev", 1),
    ]
