"""Run an acoustic model by ONNX Runtime on the CPU: audio -> logits, without TensorFlow.

session = OnnxSession(Path("demo-onnx/model.onnx").read_bytes())
runner = OnnxRunner(session, OnnxModel.from_json(about))
best_paths = runner.compiled(best_path)
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from typing_extensions import override

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform
from asr.base.types import Logits
from asr.ctc.posteriors import log_softmax
from asr.ctc.search import LogProbs
from asr.model.runner import AudioModel, ModelRunner, ReceptiveField, Reduce

NUM_CORES = os.cpu_count() or 1
CLIPS_AT_A_TIME = 4  # more do not fit into a core's cache


@dataclass(frozen=True)
class OnnxModel:
    """What recognition needs to know of a graph; an `asr.model.runner.AudioModel`."""

    frame_samples: int
    frame_s: float
    first_middle_s: float
    ignores_silence: bool
    field: ReceptiveField | None

    @classmethod
    def of(cls, model: AudioModel) -> OnnxModel:
        """Return what is known of another model."""
        return cls(
            model.frame_samples,
            model.frame_s,
            model.first_middle_s,
            model.ignores_silence,
            model.receptive_field(),
        )

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> OnnxModel:
        """Return what `as_json` described; folders of earlier versions lack the last two."""
        field = about["receptive_field_samples"]
        return cls(
            int(about["frame_samples"]),
            float(about["frame_s"]),
            float(about.get("first_middle_s", WINDOW_SAMPLES / 2 / SAMPLE_RATE_HZ)),
            bool(about.get("ignores_silence", False)),
            None if field is None else ReceptiveField(**field),
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as it is written beside a graph."""
        return {
            "frame_samples": self.frame_samples,
            "frame_s": self.frame_s,
            "first_middle_s": self.first_middle_s,
            "receptive_field_samples": None if self.field is None else self.field._asdict(),
            "ignores_silence": self.ignores_silence,
        }

    def receptive_field(self) -> ReceptiveField | None:
        """Return the samples that logits t depend on, around sample `frame_samples` t; None for all."""
        return self.field


class OnnxSession:
    """A session of ONNX Runtime with a graph that `asr.model.onnx.model.onnx_model` describes.

    All cores work on a single clip. A batch is divided into parts of a few clips, each of which one core runs
    by itself: its values stay in the core's cache, and no core waits for another after every operator.

    Args:
        graph: contents of the file, kept for the batches' session, since the file may be replaced meanwhile.
    """

    def __init__(self, graph: bytes) -> None:
        self._graph = graph
        self._session = _session(graph, num_threads=0)

    def metadata(self) -> dict[str, str]:
        """Return what the graph says about itself."""
        found: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        return found

    def run(self, audio: Waveform, num_samples: npt.NDArray[np.int32]) -> Logits:
        """Return the logits of a batch.

        Args:
            audio: (B, S) int16 at 16 kHz, padded with zeros.
            num_samples: (B,) the length of each clip.
        """
        if len(audio) == 1:
            return _run(self._session, audio, num_samples)
        session, pool = self._one_core
        size = min(CLIPS_AT_A_TIME, -(-len(audio) // NUM_CORES))
        rows = [slice(begin, begin + size) for begin in range(0, len(audio), size)]
        parts = list(pool.map(lambda part: _run(session, audio[part], num_samples[part]), rows))
        num_frames = np.concatenate([part.num_frames for part in parts])
        most = max(part.values.shape[1] for part in parts)
        values = np.zeros((len(audio), most, parts[0].values.shape[2]), np.float32)
        for part, (found, _) in zip(rows, parts, strict=True):
            values[part, : found.shape[1]] = found
        return Logits(values, num_frames)

    @functools.cached_property
    def _one_core(self) -> tuple[onnxruntime.InferenceSession, ThreadPoolExecutor]:
        """Return a session that takes one core, and the threads that run it side by side."""
        return _session(self._graph, num_threads=1), ThreadPoolExecutor(NUM_CORES)


class OnnxRunner(ModelRunner):
    """A graph in ONNX Runtime that can be run over batches of audio.

    Args:
        session: runs the graph.
        model: what is known of it.
    """

    num_devices = 1

    def __init__(self, session: OnnxSession, model: OnnxModel) -> None:
        self._session, self._model = session, model

    @property
    @override
    def model(self) -> OnnxModel:
        return self._model

    @override
    def compiled(self, reduce: Reduce) -> Callable[..., Any]:
        return lambda audio, num_samples: reduce(self._session.run(audio, num_samples))

    @override
    def clip_runner(self) -> Callable[[Waveform, int], LogProbs]:
        return self._log_probs

    def _log_probs(self, padded: Waveform, num_samples: int) -> LogProbs:
        values, num_frames = self._session.run(padded[None], np.array([num_samples], np.int32))
        log_probs: LogProbs = log_softmax(values[0, : num_frames[0]])
        return log_probs


def _run(
    session: onnxruntime.InferenceSession, audio: Waveform, num_samples: npt.NDArray[np.int32]
) -> Logits:
    """Return the logits of clips (B, S), of which padding after the longest is left out."""
    scaled = audio[:, : num_samples.max()] * np.float32(1 / INT16_SCALE)
    inputs = {"audio": scaled, "num_samples": num_samples.astype(np.int64)}
    return Logits(*session.run(None, inputs))


def _session(graph: bytes, num_threads: int) -> onnxruntime.InferenceSession:
    """Return a graph on a number of threads, or on one for each core if it is 0."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    # threads that wait by spinning take the core from those they wait for, where there are other processes
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
