import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT

from asr.base.config import TrainConfig
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.training.optimization.out_of_memory import memory_errors_as_user_errors
from data_pipeline.batches.dataset import pad_batch

CONFIG = TrainConfig(batch_s=30.0)


def clips_of(*durations_s):
    return [Utterance(f"clip{n}", f"clip{n}.wav", s, "", ("a", "b")) for n, s in enumerate(durations_s)]


def batch_of(utterances):
    audio = [np.zeros(round(u.duration_s * 16000), np.int16) for u in utterances]
    return pad_batch(audio, [[1, 2]] * len(utterances))


@pytest.fixture(scope="module")
def real_error():
    """Return the error that TensorFlow raises, after retrying for ten seconds, if an allocation fails."""

    @tf.function
    def more_than_any_machine_has():
        return tf.reduce_sum(tf.random.normal([2**25, 2**25]))

    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        more_than_any_machine_has()
    return caught.value


def message_of(error, utterances, config=CONFIG, num_devices=1):
    with (
        pytest.raises(UserError) as caught,
        memory_errors_as_user_errors(utterances, batch_of(utterances), config, num_devices),
    ):
        raise error
    return str(caught.value)


@pytest.mark.slow
def test_out_of_memory_error_names_batch_longest_clip_and_setting(real_error):
    message = message_of(real_error, clips_of(2.0, 8.0, 3.0))
    assert message.startswith("CPU:0: out of memory with a batch of 3 clips: 24.6 s of audio with padding")
    assert "6 labels, the longest clip clip1 of 8.0 s" in message
    assert "Lower train.batch_s from 30 to 12, or set train.accumulate to 2" in message
    assert "asr tune-batch" in message


@pytest.mark.slow
def test_out_of_memory_error_counts_both_views_of_consistency(real_error):
    config = TrainConfig(batch_s=30.0, consistency=0.2)
    message = message_of(real_error, clips_of(2.0, 8.0), config)
    assert "a batch of 2 clips in 2 views (train.consistency): 32.8 s of audio" in message
    assert "Lower train.batch_s from 30 to 15" in message
    assert "set train.consistency to 0" in message_of(real_error, clips_of(8.0), config)


@pytest.mark.slow
def test_out_of_memory_with_a_single_clip_suggests_no_smaller_batch(real_error):
    message = message_of(real_error, clips_of(8.0))
    assert "a single clip: clip0 (clip0.wav), 8.0 s, 2 labels" in message
    assert "split them" in message
    assert "batch_s" not in message


@pytest.mark.slow
def test_accumulation_is_suggested_only_if_parts_have_several_clips(real_error):
    assert "accumulate" not in message_of(real_error, clips_of(2.0, 8.0), num_devices=2)
    assert "accumulate to 4" in message_of(real_error, clips_of(2.0, 8.0, 2.0), TrainConfig(accumulate=2))


def test_full_disk_is_not_reported_as_out_of_memory():
    utterances = clips_of(1.0)
    with (
        pytest.raises(tf.errors.ResourceExhaustedError),
        memory_errors_as_user_errors(utterances, batch_of(utterances), CONFIG),
    ):
        tf.io.write_file("/dev/full", "a" * 100_000)


def test_errors_other_than_out_of_memory_are_raised_unchanged():
    utterances = clips_of(1.0)
    with (
        pytest.raises(tf.errors.InvalidArgumentError),
        memory_errors_as_user_errors(utterances, batch_of(utterances), CONFIG),
    ):
        tf.reshape(tf.zeros([3]), [2])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_training_step_without_enough_memory_is_reported(tmp_path):
    program = """
import resource
import numpy as np
import tensorflow as tf
from asr.model.acoustic_model import make_acoustic_model
from asr.base.config import Config
from asr.training.optimization.out_of_memory import memory_errors_as_user_errors
from asr.training.optimization.objective import make_objective
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from data_pipeline.batches.dataset import pad_batch

model = make_acoustic_model(Config(), Vocabulary(["a"]))
objective = make_objective(Config().train, None)
@tf.function
def step(*batch):
    with tf.GradientTape() as tape:
        loss, _ = objective(model, *batch)
    return tape.gradient(loss, model.trainable_variables)

def train(num_rows):
    clips = [Utterance(f"clip{n}", "", 100.0, "", ("a",)) for n in range(num_rows)]
    batch = pad_batch([np.ones(1_600_000, np.int16)] * num_rows, [[1]] * num_rows)
    with memory_errors_as_user_errors(clips, batch, Config().train):
        step(*map(tf.constant, batch))

taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 400_000_000,) * 2)
try:
    train(8)
except UserError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "out of memory with a batch of 8 clips: 819.2 s of audio" in done.stdout, done.stderr[-2000:]
