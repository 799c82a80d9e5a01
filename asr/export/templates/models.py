"""Run the model of a folder: model.onnx by ONNX Runtime, model.tflite by LiteRT."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Model: TypeAlias = Callable[[Floats], Floats]
"""Maps samples (S,) at 16 kHz from -1 to 1, at least 400, to logits (T, V)."""


def load_model(folder: Path) -> Model:
    """Return the model of a folder."""
    if (folder / "model.onnx").is_file():
        return load_onnx(folder / "model.onnx")
    return load_litert(folder / "model.tflite")


def load_onnx(path: Path) -> Model:
    """Return a model that ONNX Runtime runs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # threads that wait by spinning take the cores from other programs
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(audio: Floats) -> Floats:
        inputs = {"audio": audio[None], "num_samples": np.array([len(audio)], np.int64)}
        logits, num_frames = session.run(None, inputs)
        frames: Floats = logits[0, : num_frames[0]]
        return frames

    return run


def load_litert(path: Path) -> Model:
    """Return a model that LiteRT runs."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(path), num_threads=os.cpu_count()).get_signature_runner("any_length")

    def run(audio: Floats) -> Floats:
        outputs: dict[str, Any] = runner(audio=audio[None], num_samples=np.array([len(audio)], np.int32))
        frames: Floats = outputs["logits"][0, : outputs["num_frames"][0]]
        return frames

    return run
