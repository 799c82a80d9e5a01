"""Error rates: exact Levenshtein distance, micro-averaged, nothing capped and nothing skipped."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from asr.types import EditCounts, Utterance
from asr.vocabulary import is_syllable, split_syllable


class AlignedPair(NamedTuple):
    """A reference token beside what was heard in its place; one side of an insertion or deletion is empty."""

    edit: Literal["equal", "substitution", "insertion", "deletion"]
    reference: str
    hypothesis: str


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedPair]:
    """The two sequences side by side, with as few edits as possible."""
    pairs: list[AlignedPair] = []
    for code in Levenshtein.opcodes(reference, hypothesis):
        heard = hypothesis[code.dest_start : code.dest_end]
        said = reference[code.src_start : code.src_end]
        if code.tag == "insert":
            pairs.extend(AlignedPair("insertion", "", token) for token in heard)
        elif code.tag == "delete":
            pairs.extend(AlignedPair("deletion", token, "") for token in said)
        else:
            edit: Literal["equal", "substitution"] = "equal" if code.tag == "equal" else "substitution"
            pairs.extend(AlignedPair(edit, r, h) for r, h in zip(said, heard, strict=True))
    return pairs


def count_edits(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> EditCounts:
    """Edits that turn the hypothesis into the reference."""
    edits = [operation.tag for operation in Levenshtein.editops(reference, hypothesis)]
    return EditCounts(
        substitutions=edits.count("replace"),
        insertions=edits.count("insert"),
        deletions=edits.count("delete"),
        reference_length=len(reference),
    )


def total_edits(pairs: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> EditCounts:
    """Edits of a whole corpus of (reference, hypothesis)."""
    return sum((count_edits(reference, hypothesis) for reference, hypothesis in pairs), EditCounts())


def without_tones(tokens: Sequence[str]) -> list[str]:
    """Toned syllables without their tones; other tokens as they are."""
    return [token[:-1] if is_syllable(token) else token for token in tokens]


class PartErrors(NamedTuple):
    """Substituted syllables by the part that was heard wrong; one syllable can count in several."""

    initials: int
    finals: int
    tones: int


def part_errors(pairs: Iterable[AlignedPair]) -> PartErrors:
    """Count wrong initials, finals and tones among substitutions of a syllable by a syllable."""
    wrong = [0, 0, 0]
    for edit, reference, hypothesis in pairs:
        if edit != "substitution" or not (is_syllable(reference) and is_syllable(hypothesis)):
            continue
        for index, (said, heard) in enumerate(
            zip(split_syllable(reference), split_syllable(hypothesis), strict=True)
        ):
            wrong[index] += said != heard
    return PartErrors(*wrong)


def unit_of(utterances: Iterable[Utterance]) -> str:
    """What to call one token: a syllable, a character or just a token."""
    tokens = [token for utterance in utterances for token in utterance.tokens]
    # a few of Mandarin's interjections (`ng2`) are no regular syllables
    if tokens and sum(map(is_syllable, tokens)) >= 0.9 * len(tokens):
        return "syllable"
    return "character" if tokens and all(len(token) == 1 for token in tokens) else "token"
