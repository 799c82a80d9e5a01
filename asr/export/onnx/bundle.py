"""Write the folder of the format `onnx`: the model, its tokens, and what runs it."""

from __future__ import annotations

from pathlib import Path

import onnx

from asr.export.folder import write_readme, write_scripts
from asr.export.format import Settings, TrainedModel, Written
from asr.export.onnx.model import onnx_model
from asr.export.onnx.quantize import with_int8_weights
from asr.export.onnx.runtime import FILE


def write_bundle(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the files of the format `onnx`."""
    vocabulary = trained.recognizer.vocabulary
    metadata = {key: str(trained.about[key]) for key in ("run", "checkpoint", "sample_rate_hz", "unit")}
    model = onnx_model(trained.recognizer.model, len(vocabulary), metadata)
    if settings.quantize == "int8":
        model = with_int8_weights(model)
    onnx.save(model, folder / FILE)
    write_scripts(folder, vocabulary)
    write_readme(folder, "onnx.md")
    return Written([FILE], {})
