"""Describe the format `onnx`."""

from __future__ import annotations

from pathlib import Path

from asr.export.format import EXTRA_ERRORS, Bounds, Format, Settings, TrainedModel, Written


def _write(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    from asr.export.runtimes.onnx.bundle import write_bundle

    return write_bundle(trained, folder, settings)


ONNX = Format(
    about="a folder for ONNX Runtime, with a script that needs little more",
    write=_write,
    runtime="asr.export.runtimes.onnx.runtime:OnnxRuntime",
    quantizations={"int8": Bounds(logit_difference=None, extra_errors=EXTRA_ERRORS)},
)
