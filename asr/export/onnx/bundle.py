"""Write the folder of the format `onnx`: the model, its tokens, and what runs it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx

from asr.export.folder import TEMPLATES, write_tokens
from asr.export.format import Settings, TrainedModel, Written
from asr.export.onnx.model import onnx_model
from asr.export.onnx.quantize import with_int8_weights
from asr.export.onnx.runtime import FILE
from asr.language.hanzi.converter import GENERAL_MODEL
from asr.language.hanzi.rare import rare_characters


def write_bundle(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the files of the format `onnx`.

    `recognize.py` and what it imports run the model without Polyphone; of a Mandarin model, `hanzi.py` and
    `hanzi.npz`, the general language model, let it write hanzi.
    """
    vocabulary = trained.recognizer.vocabulary
    metadata = {key: str(trained.about[key]) for key in ("run", "checkpoint", "sample_rate_hz", "unit")}
    model = onnx_model(trained.recognizer.model, len(vocabulary), metadata)
    if settings.quantize == "int8":
        model = with_int8_weights(model)
    onnx.save(model, folder / FILE)
    write_tokens(folder / "tokens.txt", vocabulary)
    for name in ("recognize.py", "recordings.py", "README.md"):
        shutil.copy(TEMPLATES / name, folder)
    if vocabulary.is_mandarin:
        write_hanzi(folder)
    return Written([FILE], {})


def write_hanzi(folder: Path) -> None:
    """Write what converts syllables to hanzi: a script, and the general model with rare characters."""
    shutil.copy(TEMPLATES / "hanzi.py", folder)
    lines = "".join(f"{syllable} {char}\n" for syllable, char in sorted(rare_characters().items()))
    with np.load(GENERAL_MODEL) as model:
        arrays = {name: model[name] for name in model.files}
    rare = np.frombuffer(lines.encode(), np.uint8)
    np.savez_compressed(folder / "hanzi.npz", allow_pickle=False, **arrays, rare=rare)
