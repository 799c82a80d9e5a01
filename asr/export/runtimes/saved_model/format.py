"""Describe the format `saved_model`."""

from __future__ import annotations

from pathlib import Path

from asr.export.format import Bounds, Format, Settings, TrainedModel, Written


def _write(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    from asr.export.runtimes.saved_model.bundle import write_bundle

    return write_bundle(trained, folder)


SAVED_MODEL = Format(
    about="a SavedModel for TensorFlow Serving",
    write=_write,
    runtime="asr.export.runtimes.saved_model.runtime:SavedModelRuntime",
    bounds=Bounds(same_tokens=True),
)
