"""Describe the format `polyphone`."""

from __future__ import annotations

from pathlib import Path

from asr.base.model_files.model_file import SUFFIX
from asr.export.format import EXTRA_ERRORS, Bounds, Format, Settings, TrainedModel, Written


def _write(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    from asr.export.runtimes.polyphone.bundle import write_bundle

    return write_bundle(trained, folder, settings)


def _pack(folder: Path, target: Path) -> None:
    from asr.export.runtimes.polyphone.bundle import pack_bundle

    pack_bundle(folder, target)


POLYPHONE = Format(
    about="one file, NAME.polyphone, to publish, which commands and train.init_from take in place of a run",
    write=_write,
    runtime="asr.export.runtimes.polyphone.runtime:ModelFileRuntime",
    quantizations={"float16": Bounds(logit_difference=None, extra_errors=EXTRA_ERRORS)},
    suffix=SUFFIX,
    pack=_pack,
)
