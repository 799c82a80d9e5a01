"""Load what a server serves: a run directory, or a folder that `asr export` wrote, without TensorFlow."""

from __future__ import annotations

from pathlib import Path

from asr.export.runtimes.onnx.recognizer import ExportedModel
from asr.runs.run import Run


def open_model(directory: Path) -> Run | ExportedModel:
    """Open a run or an exported folder.

    Raises:
        UserError: the directory holds neither.
    """
    return ExportedModel.open(directory) if ExportedModel.is_in(directory) else Run.open(directory)
