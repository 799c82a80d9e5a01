"""Apply accepted label corrections in a new manifest; everything else stays as it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from asr.base.errors import UserError
from asr.base.system.files import read_lines, whole_file
from asr.base.system.shards import is_compressed, shards_of
from asr.base.system.storage.address import path_of
from asr.base.text.mixed import LETTERS
from asr.base.text.pieces import UNITS_MODEL
from asr.base.text.pinyin import known_syllables
from asr.base.text.units import MANDARIN_UNITS, TOKEN_NAMES, UNITS_IN_PIECES, Unit, is_character
from asr.base.text.wording import listed
from asr.base.types import Utterance
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.manifests.record import audio_in

MAX_LISTED = 10  # mistakes in an error


class Reviewed(Protocol):
    """An accepted line of a review, such as `asr.evaluation.labels.review_file.ReviewRow`."""

    @property
    def line(self) -> int:
        """Return the line's number in the review, from 1."""

    @property
    def id(self) -> str:
        """Return the id of the utterance."""

    @property
    def reference(self) -> tuple[str, ...]:
        """Return the utterance's tokens when it was reviewed."""

    @property
    def suggested(self) -> tuple[str, ...]:
        """Return the utterance's corrected tokens."""


@dataclass(frozen=True)
class Correction:
    """An utterance and its new tokens."""

    utterance: Utterance
    tokens: tuple[str, ...]


def corrections(
    utterances: Sequence[Utterance],
    accepted: Sequence[Reviewed],
    unit: Unit,
    review: Path,
    pieces: Iterable[str] = (),
) -> list[Correction]:
    """Return the changes of accepted lines in the manifest's order, without lines that change nothing.

    Args:
        utterances: of the manifest.
        accepted: lines of the review, each with a different id.
        unit: of the labels.
        review: its path, for errors.
        pieces: of the model beside the manifest; without one, only pieces in the manifest are labels.

    Raises:
        UserError: a line does not fit the manifest, or its suggestion is not a label; it lists all of them.
    """
    by_id = {utterance.id: utterance for utterance in utterances}
    known = {token for utterance in utterances for token in utterance.tokens}.union(pieces)
    if unit in MANDARIN_UNITS:
        known.update(known_syllables())
    if unit == "mixed":
        known.update(LETTERS)
    mistakes = []
    tokens_of: dict[str, tuple[str, ...]] = {}
    for row in accepted:
        mistake = _mistake(row, by_id.get(row.id), known, unit)
        if mistake:
            mistakes.append(f"{review}:{row.line}: {row.id}: {mistake}")
        tokens_of[row.id] = row.suggested
    if mistakes:
        raise UserError(listed(mistakes, MAX_LISTED, separator="\n") + "\nnothing was written")
    changed = [(utterance, tokens_of.get(utterance.id, utterance.tokens)) for utterance in utterances]
    return [Correction(utterance, tokens) for utterance, tokens in changed if tokens != utterance.tokens]


def write_corrected(manifest: Path, new_manifest: Path, changed: Sequence[Correction]) -> None:
    """Copy a manifest with new labels; relative audio paths still refer to the same files.

    Raises:
        UserError: the new manifest exists already, or cannot be written.
    """
    if new_manifest.exists():
        raise UserError(f"{new_manifest}: exists already; choose another name, or remove it")
    if is_compressed(new_manifest):
        raise UserError(f"{new_manifest}: is written uncompressed; choose a name that ends in .jsonl")
    tokens_of = {correction.utterance.id: " ".join(correction.tokens) for correction in changed}
    utterances = read_manifest(manifest)  # raises unless every line is a valid record
    lines = [line for shard in shards_of(manifest) for line in read_lines(shard, "manifest") if line.strip()]
    folder = new_manifest.parent.resolve()
    stays = path_of(manifest).parent.resolve() == folder
    with whole_file(new_manifest, "manifest") as file:
        for utterance, record in zip(utterances, map(json.loads, lines), strict=True):
            new = record if stays else record | {"audio": audio_in(folder, utterance.audio_path)}
            if record["id"] in tokens_of:
                new["tokens"] = tokens_of[record["id"]]
            # half of a surrogate pair, which a field of the user's can hold, becomes JSON's escape for it
            file.write(f"{json.dumps(new, ensure_ascii=False)}\n".encode(errors="backslashreplace"))


def _mistake(row: Reviewed, utterance: Utterance | None, known: set[str], unit: Unit) -> str:
    """Return why a line cannot be applied; empty if it can."""
    if utterance is None:
        return "no such id in the manifest; give the manifest that was evaluated"
    if utterance.tokens != row.reference:
        return (
            f"reviewed as {' '.join(row.reference)!r}, but the manifest has {' '.join(utterance.tokens)!r}; "
            "the manifest has changed since then: evaluate it again"
        )
    if not row.suggested:
        return "no suggested tokens; write some, or reject the line and leave the recording out"
    unknown = [token for token in row.suggested if token not in known]
    if unit == "syllables" and unknown:
        return f"{', '.join(unknown)}: not a Mandarin syllable; expected toned pinyin, such as lv4 or de5"
    if unit == "characters" and not all(map(is_character, unknown)):
        return f"{', '.join(unknown)}: expected characters with spaces between them"
    if unit in UNITS_IN_PIECES and unknown:
        others = "toned pinyin, such as lv4 or de5, capital letters, or " if unit == "mixed" else ""
        return (
            f"{', '.join(unknown)}: not a {TOKEN_NAMES[unit]} of these labels; expected {others}pieces that "
            f"the manifest or {UNITS_MODEL} beside it has"
        )
    return ""
