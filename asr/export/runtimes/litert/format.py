"""Describe the format `litert`."""

from __future__ import annotations

from pathlib import Path

from asr.export.format import EXTRA_ERRORS, Bounds, Format, Settings, TrainedModel, Written


def _write(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    from asr.export.runtimes.litert.bundle import write_bundle

    return write_bundle(trained, folder, settings)


LITERT = Format(
    about="model.tflite for phones",
    write=_write,
    runtime="asr.export.runtimes.litert.runtime:LiteRtRuntime",
    packages=("ai_edge_litert",),
    extra="litert",
    bounds=Bounds(same_tokens=True),
    quantizations={"int8": Bounds(logit_difference=None, extra_errors=EXTRA_ERRORS)},
)
