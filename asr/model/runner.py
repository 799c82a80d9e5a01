"""Define what recognition needs of a model, whether TensorFlow runs it or another runtime.

`asr.model.tensorflow_runner` runs a trained model by TensorFlow, `asr.model.onnx_runner` its graph by ONNX
Runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from typing_extensions import override

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.ctc.search import LogProbs

# sizes of a batch on one device; several devices process as much each
BATCH_S = 120.0  # of audio, including padding
BATCH_SAMPLES = round(BATCH_S * SAMPLE_RATE_HZ)
FILES_AT_ONCE = 256  # files that are read together, so that clips of similar length share a batch
BYTES_AT_ONCE = 64 << 20

RunClip: TypeAlias = Callable[[Waveform, int], LogProbs]
"""Runs a model on one clip: padded samples, (S,) int16, and how many of them are the clip."""

Reduce: TypeAlias = Callable[..., Any]
"""Maps (logits, *other parts of a batch) to what is kept of them, in the graph where there is one."""


class ReceptiveField(NamedTuple):
    """Which inputs an output depends on.

    Attributes:
        before: inputs before the place of the output, of the first one if several are a chunk.
        after: inputs after the place of the output, of the last one if several are a chunk.
        chunk: number of outputs that depend on the same inputs. Where it is above 1, a model has to get its
            inputs from a place on that is a multiple of this number of outputs.
    """

    before: int
    after: int
    chunk: int = 1


class AudioModel(Protocol):
    """A model from audio to logits."""

    @property
    def frame_samples(self) -> int:
        """Return the samples from one frame of logits to the next."""

    @property
    def frame_s(self) -> float:
        """Return the seconds from one frame of logits to the next."""

    @property
    def first_middle_s(self) -> float:
        """Return the second in the middle of the first window of features."""

    @property
    def ignores_silence(self) -> bool:
        """Return whether silence around speech, and pauses within it, do not change the logits of speech."""

    def receptive_field(self) -> ReceptiveField | None:
        """Return the samples that logits t depend on, around sample `frame_samples` t; None for all."""


class ModelRunner(Protocol):
    """A model that can be run over batches of audio.

    Attributes:
        num_devices: number of devices among which a batch is divided.
    """

    num_devices: int

    @property
    def model(self) -> AudioModel:
        """Return the model that it runs."""

    def compiled(self, reduce: Reduce) -> Callable[..., Any]:
        """Return a function (audio, num_samples) -> reduce(logits); see `asr.base.types.Batch`."""

    def compiled_with_labels(self, reduce: Reduce) -> Callable[..., Any]:
        """Return a function (audio, num_samples, *labels) -> reduce(logits, *labels) of a whole batch."""
        logits_of = self.compiled(lambda logits: logits)
        return lambda audio, num_samples, *labels: reduce(logits_of(audio, num_samples), *labels)

    def clip_runner(self) -> RunClip:
        """Return what runs the model on one clip at a time, on a single device."""


class WrappedRunner(ModelRunner):
    """A runner on top of another one; subclasses define `compiled`.

    Attributes:
        runner: runs the model.
    """

    def __init__(self, runner: ModelRunner) -> None:
        self.runner = runner
        self.num_devices = runner.num_devices

    @property
    @override
    def model(self) -> AudioModel:
        return self.runner.model

    @override
    def clip_runner(self) -> RunClip:
        return self.runner.clip_runner()
