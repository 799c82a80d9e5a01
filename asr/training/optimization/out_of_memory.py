"""Report that a device is out of memory: with which batch, how large it is, and the setting to lower.

with memory_errors_as_user_errors(utterances, batch, config.train, engine.num_devices):
    trainer.train_step(batch, num_rows)
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.config import TrainConfig
from asr.base.errors import UserError
from asr.base.text.wording import counted
from asr.base.types import TrainingBatch, Utterance

# a full disk and too many open files are ResourceExhausted as well; a copy to a full GPU is Internal
_MEMORY_MESSAGE = re.compile(
    r"\bOOM\b|out.of.memory|allocate.*memory|allocate request|unable to allocate"
    r"|Dst tensor is not initialized|ALLOC_FAILED",
    re.IGNORECASE | re.DOTALL,
)
_DEVICE = re.compile(r"device:((?:GPU|CPU):\d+)", re.IGNORECASE)
_ERRORS = (tf.errors.ResourceExhaustedError, tf.errors.InternalError, tf.errors.UnknownError, MemoryError)


@contextlib.contextmanager
def memory_errors_as_user_errors(
    utterances: Sequence[Utterance], batch: TrainingBatch, config: TrainConfig, num_devices: int = 1
) -> Iterator[None]:
    """Turn out-of-memory errors of work on a batch into a UserError.

    Args:
        utterances: the batch's rows.
        batch: the batch that is processed.
        config: the message advises to change its `batch_s` and `accumulate`.
        num_devices: of this process; they share the rows.

    Raises:
        UserError: a device is out of memory; any other error is raised unchanged.
    """
    try:
        yield
    except _ERRORS as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(_message(str(error), utterances, batch, config, num_devices)) from None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a device, or the machine, is out of memory."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, _ERRORS) and bool(_MEMORY_MESSAGE.search(str(error)))


def device_of(message: str) -> str:
    """Return the device that a message of TensorFlow names, such as "GPU:0"; empty if it names none."""
    found = _DEVICE.search(message)
    return found.group(1).upper() if found else ""


def _message(
    cause: str,
    utterances: Sequence[Utterance],
    batch: TrainingBatch,
    config: TrainConfig,
    num_devices: int,
) -> str:
    where = device_of(cause)
    prefix = f"{where}: out of memory" if where else "out of memory"
    num_rows, longest_samples = np.shape(batch.audio)
    assert len(utterances) == num_rows
    views = f" in {config.num_views} views (train.consistency)" if config.num_views > 1 else ""
    longest = int(np.argmax(batch.num_samples))
    clip, clip_s = utterances[longest], int(batch.num_samples[longest]) / SAMPLE_RATE_HZ
    if num_rows == 1:
        return (
            f"{prefix} with a batch of a single clip{views}: {clip.id} ({clip.audio_path}), {clip_s:.1f} s, "
            f"{counted(int(batch.num_labels[0]), 'label')}. No batch is smaller: leave clips of this length "
            f"out of the manifest, split them, {'set train.consistency to 0, ' if views else ''}or choose a "
            "smaller model.size"
        )
    audio_s = config.num_views * num_rows * longest_samples / SAMPLE_RATE_HZ
    labels = int(np.sum(batch.num_labels))
    return (
        f"{prefix} with a batch of {num_rows} clips{views}: {audio_s:.1f} s of audio with padding, "
        f"{counted(labels, 'label')}, the longest clip {clip.id} of {clip_s:.1f} s. "
        f"{_remedy(num_rows, audio_s, config, num_devices)}"
    )


def _remedy(num_rows: int, audio_s: float, config: TrainConfig, num_devices: int) -> str:
    lower = _round_down(min(config.batch_s, audio_s) / 2)
    remedy = f"Lower train.batch_s from {config.batch_s:g} to {lower:g}"
    if num_rows > config.accumulate * num_devices:  # otherwise each part is a single clip already
        remedy += f", or set train.accumulate to {2 * config.accumulate} (the same steps, in smaller parts)"
    return f"{remedy}; `asr tune-batch CONFIG` finds the largest batch that fits"


def _round_down(value: float) -> float:
    """Round a value down to two significant digits."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.floor(value / unit + 1e-9) * unit)
