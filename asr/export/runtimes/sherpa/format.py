"""Describe the format `sherpa`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from asr.export.format import EXTRA_ERRORS, Bounds, Format, Settings, TrainedModel, Written


def _write(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    from asr.export.runtimes.sherpa.folder import write_folder

    return write_folder(trained, folder, settings)


BOUNDS = Bounds(
    logit_difference=None, changed_tokens=0.01, extra_errors=EXTRA_ERRORS, extra_written_errors=0.01
)

SHERPA = Format(
    about="a folder for sherpa-onnx, on phones and in its twelve languages",
    write=_write,
    runtime="asr.export.runtimes.sherpa.runtime:SherpaRuntime",
    packages=("sherpa_onnx",),
    extra="sherpa",
    bounds=BOUNDS,
    quantizations={"int8": dataclasses.replace(BOUNDS, changed_tokens=0.03)},
)
