"""Test that plans, checksums and labels stay what they were: a run must be resumed as it began."""

import hashlib
import itertools
import json
import zlib

import numpy as np
import pytest

from asr.base.config import AugmentConfig
from asr.base.vocabulary import Vocabulary
from data_pipeline.augment.augmenter import Augmenter, num_samples_at, nums_samples_at
from data_pipeline.batches.batching import plan_epoch, plan_in_order
from data_pipeline.batches.dataset import Dataset
from data_pipeline.manifests.manifest import read_manifest

NAMES = ["ni3", "hao3", "ma5", "zhong1", "wen2", "a1", "bu4", "xyz"]
EPOCHS = (0, 4)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "train.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for index in range(3000):
            digest = hashlib.sha256(str(index).encode()).digest()
            record = {
                "id": f"词-{index}",
                "audio": f"audio/{index}.wav",
                "duration_s": 0.3 + digest[0] / 20 + digest[1] / 5120,
                "tokens": " ".join(NAMES[byte % len(NAMES)] for byte in digest[2 : 3 + digest[2] % 20]),
                "speaker": "x",
                "corpus": "ab"[index % 2],
            }
            file.write(f"{json.dumps(record, ensure_ascii=False)}\n")
    return path


def data_of(utterances, weights):
    augmenter = Augmenter.load(AugmentConfig(0.8, 1.25, pauses=0.3), 3)
    return Dataset(utterances, Vocabulary(NAMES[:-1]), 30.0, augmenter, weights)


def fits(num_samples, labels):
    return num_samples // 1280 >= len(labels) + sum(a == b for a, b in itertools.pairwise(labels))


def crc(rows):
    return zlib.crc32(json.dumps(list(rows)).encode())


# what was planned when the utterances of a manifest were a list of objects
@pytest.mark.parametrize(
    ("weights", "epochs", "resumed", "duration_s"),
    [
        ({}, [2163157710, 604067711], 1870059662, 19626.30273437503),
        ({"a": 1.5}, [2931195293, 1251714758], 3583052899, 24537.09140625006),
    ],
    ids=["plain", "weighted"],
)
@pytest.mark.parametrize("as_list", [False, True], ids=["columns", "objects"])
def test_plans_and_checksum_are_those_of_earlier_versions(
    manifest, weights, epochs, resumed, duration_s, as_list
):
    utterances = read_manifest(manifest)
    data = data_of(list(utterances) if as_list else utterances, weights)
    assert [crc(data.epoch(epoch, 7, fits)[0]) for epoch in EPOCHS] == epochs
    assert crc(data.epoch(4, 7, fits, first_batch=5)[0]) == resumed
    assert crc(data.in_order()[0]) == 2386774217
    assert crc(data.labels) == 2466234944
    assert data.checksum == 1536435809
    assert data.duration_s == duration_s


@pytest.mark.parametrize("budget", [1, 5_000, 640_000, 10**9])
def test_batches_are_filled_one_clip_after_the_other(budget):
    rng = np.random.default_rng(budget)
    lengths = np.concatenate([rng.integers(0, 300_000, 2000), [0, 0, 0, 1, 1]])
    order = [place for rows in plan_in_order(lengths, budget) for place in rows]
    assert plan_in_order(lengths, budget) == filled(lengths, order, budget)
    assert sorted(map(len, plan_epoch(lengths, budget, 1, 0))) == sorted(
        map(len, filled(lengths, order, budget))
    )


def filled(lengths, order, budget):
    """Fill batches by the rule: a clip joins unless the batch, padded to it, would be above the budget."""
    batches = [[]]
    for place in order:
        step = max(1, 2 ** (max(1, int(lengths[place])).bit_length() - 1) // 16)
        padded = -(-int(lengths[place]) // step) * step
        if batches[-1] and padded * (len(batches[-1]) + 1) > budget:
            batches.append([])
        batches[-1].append(place)
    return batches


def test_lengths_of_many_clips_are_rounded_as_those_of_one():
    rng = np.random.default_rng(1)
    lengths = np.concatenate([rng.integers(1, 1_000_000, 10_000), [1, 3, 5, 7]])
    factors = np.concatenate([rng.uniform(0.5, 2, 10_000), [2.0, 2.0, 2.0, 2.0]])
    expected = [num_samples_at(*one) for one in zip(lengths.tolist(), factors.tolist(), strict=True)]
    assert nums_samples_at(lengths, factors).tolist() == expected
