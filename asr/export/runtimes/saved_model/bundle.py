"""Write the folder of the format `saved_model`, as TensorFlow Serving takes it: a folder for each version."""

from __future__ import annotations

from pathlib import Path

from asr.export.folder import write_readme, write_tokens
from asr.export.format import Settings, TrainedModel, Written
from asr.export.runtimes.saved_model.runtime import VERSION
from asr.export.runtimes.saved_model.signatures import ServedModel
from asr.export.serving_graph import save_with_signatures


def write_bundle(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the model, its tokens and a README.

    Raises:
        OSError: the folder cannot be written.
    """
    vocabulary = trained.recognizer.vocabulary
    served = ServedModel(trained.recognizer.model, vocabulary)
    model = folder / VERSION
    save_with_signatures(served, model, served.signatures())
    write_tokens(folder, vocabulary)
    write_readme(folder, "saved_model.md")
    files = [str(path.relative_to(folder)) for path in sorted(model.rglob("*")) if path.is_file()]
    return Written(files, {"signatures": list(served.signatures())})
