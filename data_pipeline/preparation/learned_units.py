"""Label a prepared corpus by pieces of words, which are learned from its training text only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from asr.base.errors import UserError
from asr.base.text.mixed import is_letter
from asr.base.text.pieces import UNITS_MODEL, Pieces, learn_pieces, pieces_of_letters, text_of_pieces
from asr.base.text.units import MIXED_WORDS, WORD_BOUNDARY, LearnedUnits, MixedModel, Unit, read_units
from asr.base.text.wording import counted
from asr.base.types import Utterance
from asr.base.work import OnProgress, Work
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.in_pieces import in_pieces, latin_in_pieces
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import LeftOut

PieceUnits: TypeAlias = LearnedUnits | MixedModel | Path  # how many pieces to learn, or the file of a model


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
    if isinstance(read, LearnedUnits | MixedModel | Path):
        return ("mixed" if _is_mixed(read) else "characters"), read
    return read, None


def setting_of(unit: Unit | None) -> str | None:
    """Return the setting for labels that are to be split into pieces, from `split_units`."""
    return MIXED_WORDS if unit == "mixed" else unit


def labelled_by_pieces(
    sets: Mapping[str, Sequence[Utterance]], units: PieceUnits, on_progress: OnProgress
) -> LabelledSets:
    """Return utterances labelled by pieces instead of characters, or instead of whole Latin words.

    Args:
        sets: by split, labelled as `split_units` says; pieces are learned from "train".
        units: to learn, or the file of a model that was learned before.
        on_progress: receives that pieces are learned.

    Raises:
        UserError: nothing can be learned, or the model cannot be read.
    """
    if isinstance(units, LearnedUnits):
        on_progress(Work("learning pieces", 0))
        pieces, note = _learned(sets.get("train", ()), units)
    else:
        path = units.path if isinstance(units, MixedModel) else units
        pieces, note = Pieces.load(path), f"units of {path}"
    split_labels = latin_in_pieces if _is_mixed(units) else in_pieces
    found = {split: partition(_in_pieces(rows, pieces, split_labels)) for split, rows in sets.items()}
    kept = {split: list(part.kept) for split, part in found.items() if part.kept}
    left_out = [row for part in found.values() for row in part.left_out]
    return LabelledSets(kept, left_out, pieces, f"{note}; {counted(len(pieces.tokens), 'piece')}")


def write_pieces(folder: Path, pieces: Pieces | None) -> None:
    """Write the model of pieces beside the manifests; None removes that of earlier labels."""
    if pieces is None:
        (folder / UNITS_MODEL).unlink(missing_ok=True)
    else:
        pieces.save(folder / UNITS_MODEL)


def _is_mixed(units: PieceUnits) -> bool:
    return isinstance(units, MixedModel) or (isinstance(units, LearnedUnits) and units.method == "mixed")


def _learned(utterances: Sequence[Utterance], units: LearnedUnits) -> tuple[Pieces, str]:
    """Return the pieces that a training text gives, and a line on where they are from.

    Raises:
        UserError: nothing can be learned from it.
    """
    if not utterances:
        raise UserError(f"{units}: no training text to learn from; name the {UNITS_MODEL} of other labels")
    if not _is_mixed(units):
        texts = [text_of_pieces(utterance.tokens) for utterance in utterances]
        return learn_pieces(texts, units), f"{units}: learned from {counted(len(texts), 'text')} of train"
    words = [[token for token in one.tokens if token.startswith(WORD_BOUNDARY)] for one in utterances]
    texts = [text_of_pieces(row) for row in words if row]
    if texts:
        found = counted(len(texts), "text with spoken Latin words", "texts with spoken Latin words")
        return learn_pieces(texts, units), f"{units}: learned from {found} of train"
    spelt = sum(any(map(is_letter, one.tokens)) for one in utterances)
    if not spelt:
        raise UserError(
            f"{units}: expected Latin words in {counted(len(utterances), 'text')} of train, such as CCTV or "
            "iPhone, found none; label it by `units=syllables`, add a corpus with Latin words, or name the "
            f"model of other labels, `mixed:FOLDER/{UNITS_MODEL}`"
        )
    found = counted(spelt, "text with letters that are spelt", "texts with letters that are spelt")
    return (
        pieces_of_letters(),
        f"{units}: {found} of train, none with a spoken Latin word; pieces are letters",
    )


def _in_pieces(
    utterances: Sequence[Utterance],
    pieces: Pieces,
    split_labels: Callable[[Sequence[str], Pieces], tuple[str, ...]],
) -> Iterator[Utterance | LeftOut]:
    for utterance in utterances:
        try:
            yield dataclasses.replace(utterance, tokens=split_labels(utterance.tokens, pieces))
        except UnlabelledError as error:
            yield LeftOut(utterance.audio_path, error.reason, error.detail)
