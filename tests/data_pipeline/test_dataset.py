import dataclasses

import numpy as np
import pytest

from asr.audio import read_audio
from asr.config import AugmentConfig
from asr.types import UserError
from asr.vocabulary import Vocabulary
from data_pipeline.dataset import Dataset

FASTER = AugmentConfig(speed_min=0.8, speed_max=1.25)
ALL_FASTER = AugmentConfig(speed_min=1.1, speed_max=1.25)


@pytest.fixture
def dataset(clips):
    return Dataset(clips, Vocabulary.of_utterances(clips), batch_s=5.0)


def rows(plan, batches):
    """Each utterance's place with its own samples and labels, padding cut off and checked."""
    found = {}
    for places, batch in zip(plan, batches, strict=True):
        audio, num_samples, labels, num_labels = (np.asarray(part) for part in batch)
        for row, place in enumerate(places):
            assert not audio[row, num_samples[row] :].any()
            assert not labels[row, num_labels[row] :].any()
            assert place not in found
            found[place] = audio[row, : num_samples[row]], labels[row, : num_labels[row]].tolist()
    return found


def test_batches_hold_what_the_files_hold(dataset, clips):
    found = rows(*dataset.in_order())
    assert len(found) == len(clips)
    for place, (audio, labels) in found.items():
        np.testing.assert_array_equal(audio, read_audio(clips[place].audio_path))
        assert dataset.vocabulary.decode(labels) == clips[place].tokens


def test_an_epoch_is_reproducible_and_the_next_one_differs(dataset, clips):
    def epoch(number):
        return rows(*dataset.epoch(number, 1, FASTER, lambda n, labels: True))

    first, again, second = epoch(0), epoch(0), epoch(1)
    assert len(first) == len(clips)
    for place in first:
        np.testing.assert_array_equal(first[place][0], again[place][0])
        assert len(first[place][0]) != len(second[place][0])


def test_a_clip_that_would_be_too_fast_for_its_labels_keeps_its_speed(dataset, clips):
    crowded = dataset.labels[3]
    found = rows(*dataset.epoch(0, 1, ALL_FASTER, lambda num_samples, labels: labels != crowded))
    for place, (audio, _) in found.items():
        unchanged = len(read_audio(clips[place].audio_path))
        assert len(audio) == unchanged if place == 3 else len(audio) < unchanged


def test_a_file_that_vanishes_is_named_without_a_stack(dataset, clips, tmp_path):
    gone = dataclasses.replace(clips[0], id="gone", audio_path=str(tmp_path / "gone.wav"))
    _, batches = Dataset([*clips[:3], gone], dataset.vocabulary, 5.0).in_order()
    with pytest.raises(UserError, match=r"gone\.wav: cannot read this file"):
        list(batches)
