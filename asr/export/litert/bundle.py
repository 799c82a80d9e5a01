"""Write the folder of the format `litert`."""

from __future__ import annotations

import shutil
from pathlib import Path

from asr.export.folder import TEMPLATES, write_tokens
from asr.export.format import Settings, TrainedModel, Written
from asr.export.litert.model import SIGNATURES, litert_model
from asr.export.litert.runtime import FILE


def write_bundle(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the model, its tokens and a README."""
    content = litert_model(trained.recognizer.model, quantized=settings.quantize == "int8")
    (folder / FILE).write_bytes(content)
    write_tokens(folder / "tokens.txt", trained.recognizer.vocabulary)
    shutil.copy(TEMPLATES / "litert.md", folder / "README.md")
    return Written([FILE], {"samples_of_signatures": dict(SIGNATURES)})
