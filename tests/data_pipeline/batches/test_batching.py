import json
import zipfile

import numpy as np
import pytest

from data_pipeline.batches.batching import padded_length, plan_epoch, plan_in_order
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE


@pytest.fixture(scope="module")
def lengths():
    with zipfile.ZipFile(ARCHIVE) as archive:
        lines = archive.read("manifest.jsonl").decode().splitlines()
    return [round(json.loads(line)["duration_s"] * 16000) for line in lines]


@pytest.mark.parametrize(
    "plan", [lambda n: plan_epoch(n, 640_000, 1, 0), lambda n: plan_in_order(n, 640_000)]
)
def test_plan_has_every_clip_once_within_the_budget_and_little_padding(plan, lengths):
    batches = plan(lengths)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    padded = [padded_length(max(lengths[p] for p in batch)) * len(batch) for batch in batches]
    assert max(padded) <= 640_000
    assert padding_share(lengths, batches) == pytest.approx(1 - sum(lengths) / sum(padded))
    assert padding_share(lengths, batches) < 0.06


def padding_share(num_samples, batches):
    """Return the share of padding among the samples of all batches."""
    padded = sum(padded_length(max(num_samples[place] for place in batch)) * len(batch) for batch in batches)
    return 1 - sum(num_samples[place] for batch in batches for place in batch) / padded


def test_padding_stays_low_when_lengths_vary_much():
    lengths = np.random.default_rng(0).lognormal(11, 0.6, 5000).astype(int).tolist()
    assert padding_share(lengths, plan_epoch(lengths, 16000 * 200, 1, 0)) < 0.06


def test_batches_of_many_epochs_have_few_shapes(lengths):
    shapes = set()
    num_batches = 0
    for epoch in range(20):
        faster = (np.array(lengths) / np.random.default_rng(epoch).uniform(0.8, 1.25, len(lengths))).astype(
            int
        )
        plan = plan_epoch(faster, 640_000, 1, epoch)
        num_batches += len(plan)
        shapes |= {(len(batch), padded_length(max(faster[place] for place in batch))) for batch in plan}
    assert len(shapes) < 80
    assert num_batches > 1500


@pytest.mark.parametrize("num_samples", [1, 15, 16, 17, 400, 16000, 16384, 16385, 31999, 10**6, 10**8])
def test_padded_length_is_at_most_a_sixteenth_longer_and_idempotent(num_samples):
    padded = padded_length(num_samples)
    assert num_samples <= padded <= num_samples * 17 / 16
    assert padded_length(padded) == padded


def test_clips_are_combined_differently_in_every_epoch(lengths):
    def neighbours(epoch):
        return {place: set(batch) for batch in plan_epoch(lengths, 640_000, 1, epoch) for place in batch}

    one, other = neighbours(0), neighbours(1)
    shared = [len(one[p] & other[p]) / len(one[p]) for p in range(len(lengths))]
    assert np.mean(shared) < 0.5


def test_plan_depends_only_on_lengths_seed_and_epoch(lengths):
    assert plan_epoch(lengths, 640_000, 1, 3) == plan_epoch(lengths, 640_000, 1, 3)
    assert plan_epoch(lengths, 640_000, 1, 3) != plan_epoch(lengths, 640_000, 1, 4)
    assert plan_epoch(lengths, 640_000, 1, 3) != plan_epoch(lengths, 640_000, 2, 3)


def test_long_and_short_batches_are_shuffled(lengths):
    means = [np.mean([lengths[p] for p in batch]) for batch in plan_epoch(lengths, 640_000, 1, 0)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


def test_clip_above_the_budget_has_its_own_batch():
    assert sorted(plan_epoch([10, 500, 10], 100, 1, 0), key=len) == [[1], [0, 2]] or sorted(
        map(sorted, plan_epoch([10, 500, 10], 100, 1, 0)), key=len
    ) == [[1], [0, 2]]
    assert sorted(map(sorted, plan_in_order([10, 500, 10], 100)), key=len) == [[1], [0, 2]]
