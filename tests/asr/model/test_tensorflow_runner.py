"""A model on several devices returns what it returns on one."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny import TINY

from asr.base.config import Config, ModelConfig
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.ctc.posteriors import log_posteriors
from asr.model.acoustic_model import make_acoustic_model
from asr.model.devices import Devices, device_errors_as_user_errors, spread_over, start_devices
from asr.model.tensorflow_runner import BATCH_SIGNATURE, TensorFlowRunner
from multigpu.errors import DeviceError

VOCABULARY = Vocabulary("abc")


@pytest.fixture(scope="module")
def model():
    return make_acoustic_model(Config(model=ModelConfig(family=TINY)), VOCABULARY)


@pytest.fixture(scope="module")
def batch():
    num_samples = np.array([16000, 12000, 8000, 16000, 9000], np.int32)
    audio = np.random.default_rng(0).normal(0, 1000, (5, 16000)).astype(np.int16)
    audio[np.arange(16000) >= num_samples[:, None]] = 0
    return audio, num_samples


def test_several_devices_return_the_same_rows_as_one(model, batch):
    devices = start_devices(Devices(3))
    several = TensorFlowRunner(model, spread_over(devices), len(devices))
    values, num_frames = several.compiled(log_posteriors)(*batch)
    expected, expected_frames = log_posteriors(model(*batch))
    assert num_frames.numpy().tolist() == expected_frames.numpy().tolist()
    for row, other, length in zip(values, expected, num_frames.numpy(), strict=True):
        np.testing.assert_allclose(row[:length], other[:length], atol=1e-4)


def test_every_device_gets_a_share_of_the_rows(model, batch):
    shares = []

    def count(logits):
        tf.py_function(lambda values: shares.append(len(values)), [logits.values], [])
        return logits.num_frames

    TensorFlowRunner(model, spread_over(start_devices(Devices(2))), 2).compiled(count)(*batch)
    assert sorted(shares) == [2, 3]


def test_other_parts_of_a_batch_are_passed_to_the_reduction_of_their_rows(model, batch):
    labels, num_labels = np.ones((5, 4), np.int32), np.arange(5, dtype=np.int32)
    step = TensorFlowRunner(model, spread_over(start_devices(Devices(2))), 2).compiled(
        lambda logits, labels, num_labels: (logits.num_frames, labels, num_labels), BATCH_SIGNATURE
    )
    _, returned, counts = step(*batch, labels, num_labels)
    assert returned.numpy().tolist() == labels.tolist()
    assert counts.numpy().tolist() == num_labels.tolist()
    assert step.experimental_get_tracing_count() == 1


def test_errors_of_devices_begin_with_the_parameter_that_is_wrong():
    for message, shown in (("mirrored: no", "`engine`: mirrored: no"), ("`stages`: no", "`stages`: no")):
        with pytest.raises(UserError, match=f"^{shown}$"), device_errors_as_user_errors("engine"):
            raise DeviceError(message)
