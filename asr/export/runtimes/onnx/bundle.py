"""Write the folder of the format `onnx`: the model, its tokens, and what runs it."""

from __future__ import annotations

from pathlib import Path

from asr.export.folder import write_decoder, write_readme, write_scripts
from asr.export.format import Settings, TrainedModel, Written
from asr.export.runtimes.onnx.quantize import save_model
from asr.export.runtimes.onnx.runtime import FILE
from asr.model.onnx.model import onnx_model


def write_bundle(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the files of the format `onnx`."""
    vocabulary = trained.recognizer.vocabulary
    model = onnx_model(trained.recognizer.model, len(vocabulary), trained.metadata)
    save_model(model, folder / FILE, settings)
    write_scripts(folder, vocabulary)
    write_decoder(folder, trained.run)
    write_readme(folder, "onnx.md")
    return Written([FILE], {})
