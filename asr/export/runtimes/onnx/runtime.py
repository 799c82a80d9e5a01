"""Run an exported model by ONNX Runtime."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from typing_extensions import override

from asr.audio.recording import INT16_SCALE, pad_waveforms
from asr.base.types import Logits
from asr.export.format import Outputs, Runtime, Waveform

FILE = "model.onnx"
NUM_CORES = os.cpu_count() or 1
CLIPS_AT_A_TIME = 4  # more do not fit into a core's cache


class OnnxRuntime(Runtime):
    """Runs `model.onnx`, whose inputs and outputs `asr.export.runtimes.onnx.model.onnx_model` describes.

    All cores work on a single clip. A batch is divided into parts of a few clips, each of which one core runs
    by itself: its values stay in the core's cache, and no core waits for another behind every operator.

    Args:
        folder: that holds it.
    """

    takes_batches = True

    def __init__(self, folder: Path) -> None:
        # kept for the batches' session, since the folder may be replaced meanwhile
        self._model = (folder / FILE).read_bytes()
        self._session = _session(self._model, num_threads=0)

    @override
    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        logits, num_frames = self.run_batch(*pad_waveforms(waveforms))
        return [Outputs(row[:length]) for row, length in zip(logits, num_frames, strict=True)]

    def run_batch(self, audio: Waveform, num_samples: npt.NDArray[np.int32]) -> Logits:
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
        return _session(self._model, num_threads=1), ThreadPoolExecutor(NUM_CORES)


def _run(
    session: onnxruntime.InferenceSession, audio: Waveform, num_samples: npt.NDArray[np.int32]
) -> Logits:
    """Return the logits of clips (B, S), of which padding behind the longest is left out."""
    scaled = audio[:, : num_samples.max()] * np.float32(1 / INT16_SCALE)
    inputs = {"audio": scaled, "num_samples": num_samples.astype(np.int64)}
    return Logits(*session.run(None, inputs))


def _session(model: bytes, num_threads: int) -> onnxruntime.InferenceSession:
    """Return a model on a number of threads, or on one for each core if it is 0."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    # threads that wait by spinning take the core from those they wait for, where there are other processes
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
