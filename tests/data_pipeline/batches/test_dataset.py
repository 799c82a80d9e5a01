import collections
import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.labelled_in_pieces import labelled_in_pieces

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from asr.base.types import Batch, MachineLabel, WeightedBatch
from asr.base.vocabulary import Vocabulary
from data_pipeline.augment.augmenter import Augmenter, num_samples_at, pause_samples, speed_factors
from data_pipeline.augment.piece_sampling import PieceSampler
from data_pipeline.batches.batching import padded_length
from data_pipeline.batches.dataset import Dataset
from data_pipeline.batches.decoded_recordings import DecodedRecordings

FASTER = AugmentConfig(speed_min=0.8, speed_max=1.25)
ALL_FASTER = AugmentConfig(speed_min=1.1, speed_max=1.25, pauses=0.0)
NOISY = AugmentConfig(
    speed_min=0.9, speed_max=1.1, noise="coloured", reverb="rooms", gain_db_min=-6.0, gain_db_max=3.0
)


@pytest.fixture
def dataset(clips):
    return augmented(Dataset(clips, Vocabulary.of_utterances(clips), batch_s=5.0), AugmentConfig(pauses=0.0))


def augmented(dataset, config, seed=1):
    return dataclasses.replace(dataset, augmenter=Augmenter.load(config, seed))


def anything_fits(num_samples, labels):
    return True


def rows(plan, batches):
    """Return each utterance's samples and labels by its index; the padding is checked and removed."""
    found = {}
    for places, batch in zip(plan, batches, strict=True):
        audio, num_samples, labels, num_labels = (np.asarray(part) for part in batch)
        for row, place in enumerate(places):
            assert not audio[row, num_samples[row] :].any()
            assert not labels[row, num_labels[row] :].any()
            assert place not in found
            found[place] = audio[row, : num_samples[row]], labels[row, : num_labels[row]].tolist()
    return found


def test_batches_contain_the_samples_and_labels_of_the_files(dataset, clips):
    found = rows(*dataset.in_order())
    assert len(found) == len(clips)
    for place, (audio, labels) in found.items():
        np.testing.assert_array_equal(audio, read_audio(clips[place].audio_path))
        assert dataset.vocabulary.decode(labels) == clips[place].tokens


def test_augmented_epoch_is_reproducible_and_the_next_one_differs(dataset, clips):
    def epoch(number):
        return rows(*augmented(dataset, NOISY).epoch(number, 1, anything_fits))

    first, again, second = epoch(0), epoch(0), epoch(1)
    assert len(first) == len(clips)
    for place in first:
        np.testing.assert_array_equal(first[place][0], again[place][0])
        assert len(first[place][0]) != len(second[place][0])


def test_noise_differs_in_every_epoch(dataset):
    def epoch(number):
        config = AugmentConfig(noise="coloured", noise_probability=1.0, pauses=0.0)
        return rows(*augmented(dataset, config).epoch(number, 1, anything_fits))

    first, second = epoch(0), epoch(1)
    for place, (audio, _) in first.items():
        assert np.any(audio != second[place][0])


def test_interrupted_epoch_resumes_at_any_batch(dataset):
    noisy = augmented(dataset, NOISY)
    plan, batches = noisy.epoch(1, 1, anything_fits)
    whole = [tuple(map(np.asarray, batch)) for batch in batches]
    assert len(plan) > 3
    for first in (1, len(plan) - 1, len(plan)):
        rest, batches = noisy.epoch(1, 1, anything_fits, first_batch=first)
        assert rest == plan[first:]
        left = [tuple(map(np.asarray, batch)) for batch in batches]
        assert len(left) == len(whole) - first
        for there, here in zip(whole[first:], left, strict=True):
            for a, b in zip(there, here, strict=True):
                np.testing.assert_array_equal(a, b)


def test_resumed_epoch_reads_nothing_before_its_first_batch(dataset, clips, tmp_path):
    plan, _ = dataset.epoch(0, 1, anything_fits)
    gone = [
        dataclasses.replace(clip, audio_path=str(tmp_path / "gone.wav")) if place in plan[0] else clip
        for place, clip in enumerate(clips)
    ]
    _, batches = dataclasses.replace(dataset, utterances=gone).epoch(0, 1, anything_fits, first_batch=1)
    assert len(list(batches)) == len(plan) - 1


def test_workers_share_one_plan_and_read_their_own_rows(dataset, clips):
    plan, _ = dataset.epoch(0, 1, anything_fits)
    seen = []
    for worker in (0, 1):
        local_rows = functools.partial(every_other, worker)
        own_plan, batches = dataset.epoch(0, 1, anything_fits, local_rows)
        assert own_plan == plan
        for places, batch in zip(plan, batches, strict=True):
            own = local_rows(places)
            seen += own
            lengths = [len(read_audio(clips[place].audio_path)) for place in own]
            assert np.asarray(batch.num_samples).tolist() == lengths
    assert set(seen) == set(range(len(clips)))


def every_other(worker, places):
    return places[worker::2] or places[:1]


def test_planned_lengths_include_speed_and_pauses(dataset):
    config = dataclasses.replace(FASTER, pauses=1.0)
    varied = augmented(dataset, config)
    found = rows(*varied.epoch(0, 1, anything_fits))
    speeds = speed_factors(config, 1, 0, dataset.keys)
    pauses = pause_samples(config, 1, 0, dataset.keys).sum(axis=1)
    assert pauses.any()
    for place, (audio, _) in found.items():
        assert len(audio) == num_samples_at(int(dataset.num_samples[place]), speeds[place]) + pauses[place]
    for places, batch in zip(*varied.epoch(0, 1, anything_fits), strict=True):
        assert len(places) == 1 or batch.audio.shape[1] * len(places) <= dataset.batch_s * SAMPLE_RATE_HZ


def test_batches_come_in_few_shapes(dataset):
    faster = augmented(dataset, FASTER)
    for epoch in range(3):
        for batch in faster.epoch(epoch, 1, anything_fits)[1]:
            longest = int(np.max(batch.num_samples))
            assert batch.audio.shape[1] == padded_length(longest)
            assert batch.labels.shape[1] == padded_length(int(np.max(batch.num_labels)))


def test_clip_too_short_for_its_labels_when_sped_up_keeps_its_speed(dataset, clips):
    crowded = dataset.labels[3]
    found = rows(*augmented(dataset, ALL_FASTER).epoch(0, 1, lambda n, labels: labels != crowded))
    for place, (audio, _) in found.items():
        unchanged = len(read_audio(clips[place].audio_path))
        assert len(audio) == unchanged if place == 3 else len(audio) < unchanged


def test_missing_file_raises_the_reader_s_own_error(dataset, clips, tmp_path):
    gone = dataclasses.replace(clips[0], id="gone", audio_path=str(tmp_path / "gone.wav"))
    _, batches = Dataset([*clips[:3], gone], dataset.vocabulary, 5.0).in_order()
    with pytest.raises(UserError, match=r"gone\.wav: cannot read this file"):
        list(batches)


def counts(dataset, epoch):
    plan, _ = dataset.epoch(epoch, 1, anything_fits)
    return collections.Counter(place for places in plan for place in places)


@pytest.fixture
def joint(dataset):
    """Return a data set whose utterances are of two corpora in turn."""
    clips = [
        dataclasses.replace(clip, corpus="ab"[place % 2]) for place, clip in enumerate(dataset.utterances)
    ]
    return dataclasses.replace(augmented(dataset, FASTER), utterances=clips)


def test_weights_say_how_often_an_epoch_has_a_clip(joint):
    twice = dataclasses.replace(joint, weights={"a": 2.0})
    for epoch in (0, 1):
        assert counts(twice, epoch) == {place: 2 - place % 2 for place in range(len(joint.utterances))}
    own_s = [sum(u.duration_s for u in joint.utterances if u.corpus == name) for name in "ab"]
    assert twice.duration_s == pytest.approx(2 * own_s[0] + own_s[1])


def test_fractions_of_a_weight_are_drawn_in_every_epoch(joint):
    some = dataclasses.replace(joint, weights={"b": 1.5})
    epochs = [counts(some, epoch) for epoch in range(40)]
    assert epochs[3] == counts(some, 3)
    assert len({tuple(sorted(epoch.items())) for epoch in epochs}) > 1
    for place in range(len(joint.utterances)):
        found = [epoch[place] for epoch in epochs]
        assert set(found) == ({1, 2} if place % 2 else {1})
        assert not place % 2 or 1.25 < np.mean(found) < 1.75


def test_no_epoch_is_empty_however_low_the_weights(joint):
    few = dataclasses.replace(joint, weights={"a": 0.01, "b": 0.01})
    sizes = [sum(counts(few, epoch).values()) for epoch in range(20)]
    assert set(sizes) <= {1, 2}
    assert len({place for epoch in range(20) for place, count in counts(few, epoch).items() if count}) > 5


def test_copies_of_a_clip_are_varied_differently(joint):
    plan, batches = dataclasses.replace(joint, weights={"a": 3.0}).epoch(0, 1, anything_fits)
    lengths = collections.defaultdict(set)
    for places, batch in zip(plan, batches, strict=True):
        for place, num_samples, labels in zip(places, batch.num_samples, batch.labels, strict=True):
            lengths[place].add(int(num_samples))
            assert labels[: len(joint.labels[place])].tolist() == joint.labels[place]
    assert all(len(lengths[place]) == (1 if place % 2 else 3) for place in lengths)


def test_weights_of_one_change_nothing(joint):
    weighted = dataclasses.replace(joint, weights={"a": 1.0})
    assert weighted.epoch(2, 1, anything_fits)[0] == joint.epoch(2, 1, anything_fits)[0]


@pytest.fixture
def compressed(clips, tmp_path):
    """Return clips as FLAC, which may be removed."""
    utterances = []
    for clip in clips[:4]:
        path = tmp_path / f"{clip.id}.flac"
        soundfile.write(path, read_audio(clip.audio_path), SAMPLE_RATE_HZ, subtype="PCM_16")
        utterances.append(dataclasses.replace(clip, audio_path=str(path)))
    return utterances


def test_compressed_recordings_are_decoded_in_the_first_epoch_alone(compressed, clips):
    dataset = augmented(Dataset(compressed, Vocabulary.of_utterances(compressed), 5.0), NOISY)
    rows(*dataset.epoch(0, 1, anything_fits))
    for utterance in compressed:
        Path(utterance.audio_path).unlink()
    unpacked = augmented(Dataset(clips[:4], dataset.vocabulary, 5.0), NOISY)
    for epoch in (1, 2):
        found, expected = (rows(*each.epoch(epoch, 1, anything_fits)) for each in (dataset, unpacked))
        assert found.keys() == expected.keys()
        for place, (audio, labels) in expected.items():
            np.testing.assert_array_equal(found[place][0], audio)
            assert found[place][1] == labels


def test_no_more_recordings_are_kept_than_the_limit_allows(compressed):
    first, second = (utterance.audio_path for utterance in compressed[:2])
    waveforms = [read_audio(path) for path in (first, second)]
    recordings = DecodedRecordings(limit=waveforms[0].nbytes + waveforms[1].nbytes - 1)
    for path in (first, second):
        recordings.read(path)
        Path(path).unlink()
    np.testing.assert_array_equal(recordings.read(first), waveforms[0])
    with pytest.raises(UserError, match="cannot read this file"):
        recordings.read(second)


LABEL = MachineLabel("runs/a", "epoch-0001", "0.1.0", "2026-11-26", 0.95, "/a.wav")


def with_machine_labels(dataset, label_weight):
    """Return a dataset in which a model has labelled every other utterance."""
    utterances = [
        dataclasses.replace(utterance, labelled_by=LABEL if index % 2 else None)
        for index, utterance in enumerate(dataset.utterances)
    ]
    return dataclasses.replace(dataset, utterances=utterances, label_weight=label_weight)


def test_rows_that_a_model_labelled_have_their_weight_and_the_others_one(dataset):
    weighted = with_machine_labels(augmented(dataset, FASTER), 0.25)

    def second_half(numbers):
        return list(numbers[len(numbers) // 2 :])

    for local_rows in (list, second_half):
        plan, batches = weighted.epoch(0, 1, anything_fits, local_rows, first_batch=1)
        found = 0
        for places, batch in zip(plan, batches, strict=True):
            assert isinstance(batch, WeightedBatch)
            expected = [0.25 if place % 2 else 1.0 for place in local_rows(places)]
            assert batch.weights.tolist() == expected
            assert batch.weights.dtype == np.float32
            found += len(expected)
        assert found > 4


def test_a_label_weight_of_one_changes_no_batch(dataset):
    plan, batches = with_machine_labels(augmented(dataset, FASTER), 1.0).epoch(0, 1, anything_fits)
    same_plan, same = augmented(dataset, FASTER).epoch(0, 1, anything_fits)
    assert plan == same_plan
    for one, other in zip(batches, same, strict=True):
        assert type(one) is Batch
        for ours, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(scope="module")
def sampled(clips):
    """Return a data set whose words are split in other ways."""
    labelled, vocabulary = labelled_in_pieces(clips)
    dataset = augmented(Dataset(labelled, vocabulary, batch_s=5.0), FASTER)
    return dataclasses.replace(dataset, piece_sampler=PieceSampler(vocabulary, 0.3))


def drawn(dataset, epoch=0, fits=anything_fits, **options):
    """Return the tokens of each utterance in an epoch."""
    found = rows(*dataset.epoch(epoch, 1, fits, **options))
    return {place: dataset.vocabulary.decode(labels) for place, (_, labels) in found.items()}


def test_labels_of_an_epoch_are_other_pieces_of_the_same_words(sampled):
    first, again, second = drawn(sampled), drawn(sampled), drawn(sampled, epoch=1)
    own = {place: utterance.tokens for place, utterance in enumerate(sampled.utterances)}
    assert first == again
    assert len({tuple(sorted(each.items())) for each in (own, first, second)}) == 3
    for labels in (first, second):
        assert {place: sampled.vocabulary.join(tokens) for place, tokens in labels.items()} == {
            place: sampled.vocabulary.join(tokens) for place, tokens in own.items()
        }


def test_pieces_are_drawn_by_the_utterance_wherever_its_row_is(sampled):
    whole, plan = drawn(sampled), sampled.epoch(0, 1, anything_fits)[0]
    for worker in (0, 1):
        local_rows = functools.partial(every_other, worker)
        _, batches = sampled.epoch(0, 1, anything_fits, local_rows, first_batch=1)
        for places, batch in zip(plan[1:], batches, strict=True):
            for place, labels, num in zip(local_rows(places), batch.labels, batch.num_labels, strict=True):
                assert sampled.vocabulary.decode(np.asarray(labels)[: int(num)]) == whole[place]
    backwards = dataclasses.replace(sampled, utterances=sampled.utterances[::-1])
    last = len(whole) - 1
    assert drawn(backwards) == {last - place: tokens for place, tokens in whole.items()}


def test_another_seed_draws_other_pieces(sampled):
    other = dataclasses.replace(sampled, augmenter=Augmenter.load(FASTER, 2))
    assert drawn(other) != drawn(sampled)


def test_drawn_pieces_that_do_not_fit_their_frames_are_the_usual_ones(sampled):
    longest = max(map(len, sampled.labels))
    asked = []

    def fits(num_samples, labels):
        asked.append((num_samples, len(labels)))
        return len(labels) <= longest

    labels = drawn(sampled, fits=fits)
    freely = drawn(sampled)
    too_long = [place for place, tokens in freely.items() if len(tokens) > longest]
    assert too_long
    for place, tokens in freely.items():
        own = sampled.utterances[place].tokens
        assert labels[place] == (own if place in too_long else tokens)
    speeds = speed_factors(FASTER, 1, 0, sampled.keys)
    lengths = {num_samples_at(int(n), speed) for n, speed in zip(sampled.num_samples, speeds, strict=True)}
    assert {num_samples for num_samples, _ in asked} == lengths  # as fast as they are, without pauses


def test_drawn_labels_come_in_few_lengths(sampled):
    for epoch in range(3):
        for batch in sampled.epoch(epoch, 1, anything_fits)[1]:
            longest = padded_length(int(np.max(batch.num_labels)))
            assert batch.labels.shape[1] % 8 == 0
            assert longest <= batch.labels.shape[1] < longest + 8


def test_pieces_of_copies_of_a_clip_are_drawn_apart(sampled):
    clips = [dataclasses.replace(clip, corpus="a") for clip in sampled.utterances]
    plan, batches = dataclasses.replace(sampled, utterances=clips, weights={"a": 5.0}).epoch(
        0, 1, anything_fits
    )
    found = collections.defaultdict(set)
    for places, batch in zip(plan, batches, strict=True):
        for place, labels in zip(places, np.asarray(batch.labels), strict=True):
            found[place].add(tuple(labels[labels > 0]))
    assert all(len(labels) > 1 for labels in found.values())


def test_without_sampling_every_batch_is_as_it_was(sampled):
    off = dataclasses.replace(sampled, piece_sampler=PieceSampler.of(FASTER, sampled.vocabulary))
    assert off.piece_sampler is None
    for epoch in (0, 1):
        on, (plan, batches) = (
            rows(*sampled.epoch(epoch, 1, anything_fits)),
            off.epoch(epoch, 1, anything_fits),
        )
        for place, (audio, labels) in rows(plan, batches).items():
            assert off.vocabulary.decode(labels) == off.utterances[place].tokens
            np.testing.assert_array_equal(audio, on[place][0])  # nor does sampling change a sound
    assert off.in_order()[0] == sampled.in_order()[0]
    for place, (_, labels) in rows(*sampled.in_order()).items():
        assert labels == off.labels[place]  # what is not trained on has its usual pieces
