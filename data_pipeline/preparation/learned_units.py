"""Label a prepared corpus by pieces of words, which are learned from its training text alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from asr.base.errors import UserError
from asr.base.text.pieces import UNITS_MODEL, Pieces, learn_pieces, text_of_pieces
from asr.base.text.units import LearnedUnits, Unit, read_units
from asr.base.text.wording import counted
from asr.base.types import Utterance
from asr.base.work import OnProgress, Work
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.in_pieces import in_pieces
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import LeftOut

PieceUnits: TypeAlias = LearnedUnits | Path  # how many pieces to learn, or the file of a model


class LabelledSets(NamedTuple):
    """Utterances by split, labelled by pieces.

    Attributes:
        kept: by split.
        left_out: utterances with characters that no piece has.
        pieces: the model.
        note: a line for display on where the pieces are from.
    """

    kept: dict[str, list[Utterance]]
    left_out: list[LeftOut]
    pieces: Pieces
    note: str


def split_units(units: str | None) -> tuple[Unit | None, PieceUnits | None]:
    """Return the units to label text by first, and those to label that by; None for none.

    Args:
        units: as a user writes them; None for a corpus's own labels.

    Raises:
        UserError: there are no such units.
    """
    if units is None:
        return None, None
    read = read_units(units)
    return ("characters", read) if isinstance(read, LearnedUnits | Path) else (read, None)


def labelled_by_pieces(
    sets: Mapping[str, Sequence[Utterance]], units: PieceUnits, on_progress: OnProgress
) -> LabelledSets:
    """Return utterances labelled by pieces instead of characters.

    Args:
        sets: by split, labelled by characters; pieces are learned from "train".
        units: to learn, or the file of a model that was learned before.
        on_progress: receives that pieces are learned.

    Raises:
        UserError: nothing can be learned, or the model cannot be read.
    """
    if isinstance(units, Path):
        pieces, note = Pieces.load(units), f"units of {units}"
    else:
        texts = [text_of_pieces(utterance.tokens) for utterance in sets.get("train", ())]
        if not texts:
            raise UserError(
                f"{units}: no training text to learn from; name the {UNITS_MODEL} of other labels"
            )
        on_progress(Work("learning pieces", 0))
        pieces = learn_pieces(texts, units)
        note = f"{units}: learned from {counted(len(texts), 'text')} of train"
    found = {split: partition(_in_pieces(utterances, pieces)) for split, utterances in sets.items()}
    kept = {split: list(part.kept) for split, part in found.items() if part.kept}
    left_out = [row for part in found.values() for row in part.left_out]
    return LabelledSets(kept, left_out, pieces, f"{note}; {counted(len(pieces.tokens), 'piece')}")


def write_pieces(folder: Path, pieces: Pieces | None) -> None:
    """Write the model of pieces beside the manifests; None removes that of earlier labels."""
    if pieces is None:
        (folder / UNITS_MODEL).unlink(missing_ok=True)
    else:
        pieces.save(folder / UNITS_MODEL)


def _in_pieces(utterances: Sequence[Utterance], pieces: Pieces) -> Iterator[Utterance | LeftOut]:
    for utterance in utterances:
        try:
            yield dataclasses.replace(utterance, tokens=in_pieces(utterance.tokens, pieces))
        except UnlabelledError as error:
            yield LeftOut(utterance.audio_path, error.reason, error.detail)
