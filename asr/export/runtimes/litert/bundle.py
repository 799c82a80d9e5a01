"""Write the folder of the format `litert`: the model, its tokens, and what runs it."""

from __future__ import annotations

from pathlib import Path

from asr.export.folder import write_readme, write_scripts
from asr.export.format import Settings, TrainedModel, Written
from asr.export.runtimes.litert.model import SIGNATURES, litert_model
from asr.export.runtimes.litert.runtime import FILE


def write_bundle(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the files of the format `litert`.

    Raises:
        UserError: LiteRT has no operator for a layer.
    """
    content = litert_model(trained.recognizer.model, quantized=settings.quantize == "int8")
    (folder / FILE).write_bytes(content)
    write_scripts(folder, trained.recognizer.vocabulary)
    write_readme(folder, "litert.md")
    return Written([FILE], {"samples_of_signatures": dict(SIGNATURES)})
