"""Write what the folders of several formats contain besides the model."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr.audio import containers, flac, formats, joined, mixing, mpeg, wav
from asr.base.decoder_settings import GENERAL, NOT_EXPORTED, save_settings, stored_settings
from asr.base.model_files.model_file import DECODER
from asr.base.system import paths
from asr.base.text.pieces import UNITS_MODEL
from asr.base.vocabulary import Vocabulary
from asr.language.hanzi.converter import GENERAL_MODEL
from asr.language.hanzi.rare import rare_characters

if TYPE_CHECKING:
    from asr.runs.run import Run

logger = logging.getLogger(__name__)

TEMPLATES = Path(__file__).parent / "templates"
TOKENS = "tokens.txt"
SCRIPTS = (
    *(TEMPLATES / name for name in ("recognize.py", "recordings.py", "models.py")),
    *(Path(str(module.__file__)) for module in (containers, flac, formats, joined, mixing, mpeg, paths, wav)),
)


def write_tokens(folder: Path, vocabulary: Vocabulary) -> None:
    """Write a token and its id in each line of `tokens.txt`, and the model of pieces, for hot words."""
    lines = [f"{token} {index}\n" for index, token in enumerate(vocabulary.tokens)]
    (folder / TOKENS).write_text("".join(lines), encoding="utf-8")
    if vocabulary.pieces is not None:
        vocabulary.pieces.without_paths().save(folder / UNITS_MODEL)


def write_decoder(folder: Path, run: Run) -> None:
    """Write the decoder settings of a run, if it has some, without a language model of its own."""
    if not run.decoder_path.exists():
        return
    settings = stored_settings(run.decoder_path)
    if settings.language_model not in ("", GENERAL, NOT_EXPORTED):
        logger.warning(
            "%s: its language model, %s, is not exported; decoding is greedy unless a command names a "
            "language model, with which the tuned settings are used",
            run.decoder_path,
            settings.language_model,
        )
        settings = dataclasses.replace(settings, language_model=NOT_EXPORTED)
    save_settings(folder / DECODER, settings)


def write_scripts(folder: Path, vocabulary: Vocabulary) -> None:
    """Write `recognize.py` and what it imports and reads, besides the model.

    They run the model without Polyphone; of a Mandarin model, `hanzi.py` and `hanzi.npz`, the general
    language model, let it write hanzi.
    """
    write_tokens(folder, vocabulary)
    for script in SCRIPTS:
        (folder / script.name).write_text(script_text(script), encoding="utf-8")
    if vocabulary.is_mandarin:
        _write_hanzi(folder)


def script_text(script: Path) -> str:
    """Return a script as a folder has it: modules of `asr.audio` are next to it there."""
    return script.read_text(encoding="utf-8").replace("from asr.audio.", "from ")


def write_readme(folder: Path, template: str) -> None:
    """Write `README.md` as a file of the templates."""
    shutil.copy(TEMPLATES / template, folder / "README.md")


def _write_hanzi(folder: Path) -> None:
    """Write what converts syllables to hanzi: a script, and the general model with rare characters."""
    shutil.copy(TEMPLATES / "hanzi.py", folder)
    lines = "".join(f"{syllable} {char}\n" for syllable, char in sorted(rare_characters().items()))
    with np.load(GENERAL_MODEL) as model:
        arrays = {name: model[name] for name in model.files}
    rare = np.frombuffer(lines.encode(), np.uint8)
    np.savez_compressed(folder / "hanzi.npz", allow_pickle=False, **arrays, rare=rare)
