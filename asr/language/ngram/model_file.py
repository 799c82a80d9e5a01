"""Load and save language models: ARPA text, plain or gzipped, or KenLM binaries, detected by content."""

from __future__ import annotations

from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.work import OnProgress, ignore_progress
from asr.language.ngram.arpa import read_arpa, write_arpa
from asr.language.ngram.kenlm_binary.kenlm import read_kenlm, write_kenlm
from asr.language.ngram.kenlm_binary.kenlm_header import KINDS, is_kenlm, read_header
from asr.language.ngram.model import NGramModel

BEGINNING_BYTES = 64


def load_model(path: Path, on_progress: OnProgress = ignore_progress) -> NGramModel:
    """Read a model in any of the formats.

    Args:
        path: path of the file.
        on_progress: called while an ARPA file is read.

    Raises:
        UserError: the file is missing, truncated, damaged or of an unsupported kind.
    """
    return read_kenlm(path) if is_binary(path) else read_arpa(path, on_progress)


def kind_of(path: Path) -> str:
    """Return a description of a file's format, such as "ARPA".

    Raises:
        UserError: the file cannot be read.
    """
    if is_binary(path):
        return f"KenLM binary ({KINDS[read_header(path).kind]})"
    return "ARPA"


def is_binary(path: Path) -> bool:
    """Return whether a file is a KenLM binary; otherwise it can only be ARPA.

    Raises:
        UserError: the file cannot be read.
    """
    if path.is_dir():
        raise UserError(f"{path}: expected a language model, received a folder; give a file in it")
    try:
        with path.open("rb") as file:
            return is_kenlm(file.read(BEGINNING_BYTES))
    except OSError as error:
        raise UserError(
            f"{path}: cannot read this language model ({error.strerror}); `asr lm train` makes one"
        ) from None


def save_model(path: Path, model: NGramModel) -> None:
    """Write a model as a KenLM probing binary.

    Raises:
        UserError: the file cannot be written.
    """
    with whole_file(path, "language model") as file:
        write_kenlm(file, model)


def export_model(model: Path, out: Path, on_progress: OnProgress = ignore_progress) -> None:
    """Write a model in another format.

    Args:
        model: an ARPA or a KenLM file.
        out: a new file: .arpa for text, .klm for KenLM's binary.
        on_progress: called while the model is read and its n-grams are listed.

    Raises:
        UserError: the model cannot be read, or the file exists, has another suffix or cannot be written.
    """
    if out.suffix not in (".arpa", ".klm"):
        raise UserError(f"{out}: expected a name that ends in .arpa or .klm")
    if out.exists():
        raise UserError(f"{out}: already exists; give a new file, or remove it first")
    loaded = load_model(model, on_progress)
    if out.suffix == ".arpa":
        write_arpa(out, loaded, on_progress)
    else:
        save_model(out, loaded)
