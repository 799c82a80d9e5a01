"""Computes error rates by exact Levenshtein distance, micro-averaged; nothing is capped or skipped."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from asr.base.text.pieces import text_of_pieces
from asr.base.text.pinyin import without_tone
from asr.base.text.units import TOKEN_NAMES, is_character, unit_of
from asr.base.types import EditCounts, Utterance
from asr.base.vocabulary import WORD_BOUNDARY
from asr.evaluation.errors.language_errors import language_errors, names_in
from asr.evaluation.written_text import characters_of, words_of
from asr.transcription.transcript import Segment

TEXT_POLICY = (
    "characters and words: as written, after NFKC, in lower case, without punctuation; numbers are not "
    "spelled out (3 and 三 differ); Chinese is cut into words by jieba's dictionary, on both sides"
)


MIXED_UNIT = TOKEN_NAMES["mixed"]
HANZI_TO_WRITE = (TOKEN_NAMES["syllables"], MIXED_UNIT)  # tokens that are converted to text


class AlignedPair(NamedTuple):
    """A reference token and the hypothesis token aligned with it; insertions and deletions lack one."""

    edit: Literal["equal", "substitution", "insertion", "deletion"]
    reference: str
    hypothesis: str


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedPair]:
    """Align two sequences with as few edits as possible."""
    pairs: list[AlignedPair] = []
    for code in Levenshtein.opcodes(reference, hypothesis):
        recognized = hypothesis[code.dest_start : code.dest_end]
        said = reference[code.src_start : code.src_end]
        if code.tag == "insert":
            pairs.extend(AlignedPair("insertion", "", token) for token in recognized)
        elif code.tag == "delete":
            pairs.extend(AlignedPair("deletion", token, "") for token in said)
        else:
            edit: Literal["equal", "substitution"] = "equal" if code.tag == "equal" else "substitution"
            pairs.extend(AlignedPair(edit, r, h) for r, h in zip(said, recognized, strict=True))
    return pairs


def count_edits(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> EditCounts:
    """Count the edits that turn the hypothesis into the reference."""
    edits = [operation.tag for operation in Levenshtein.editops(reference, hypothesis)]
    return EditCounts(
        substitutions=edits.count("replace"),
        insertions=edits.count("insert"),
        deletions=edits.count("delete"),
        reference_length=len(reference),
    )


def total_edits(pairs: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> EditCounts:
    """Count the edits of a whole corpus of (reference, hypothesis)."""
    return sum((count_edits(reference, hypothesis) for reference, hypothesis in pairs), EditCounts())


def mean_loss(reference_log_probs: Iterable[float]) -> float:
    """Return the mean CTC loss of the references that fit their clips; NaN if none does or one is NaN."""
    fitting = [log_prob for log_prob in reference_log_probs if log_prob != -math.inf]
    return -sum(fitting) / len(fitting) if fitting else math.nan


class Measure(NamedTuple):
    """The edits of every utterance in one unit, such as "syllable"."""

    name: str
    edits: tuple[EditCounts, ...]


def measures(
    utterances: Sequence[Utterance], hypotheses: Sequence[Segment], token: str = ""
) -> list[Measure]:
    """Count edits in every unit that the set allows, its tokens first, over all utterances.

    Words are first where tokens are pieces of words with spaces between them: how a model splits words says
    nothing about its transcripts. Of mixed labels, syllables together with Latin words are first, followed by
    each language and the words at a change of language (`asr.evaluation.errors.language_errors`).

    Characters and words are counted if there is text on both sides (`text_pairs`), unless the tokens
    themselves are characters or words.

    Args:
        utterances: the set.
        hypotheses: of the utterances.
        token: what a token of the model is called, see `Vocabulary.token_name`; "" for what most labels are.
    """
    unit = token or token_name(utterances)
    pairs = [(u.tokens, h.tokens) for u, h in zip(utterances, hypotheses, strict=True)]
    texts = text_pairs(utterances, hypotheses, unit)
    found = [_measure(unit, pairs)]
    if unit == MIXED_UNIT:
        found = [*_by_language(pairs), *found]
    if unit == "syllable":
        bare = [(list(map(without_tone, r)), list(map(without_tone, h))) for r, h in pairs]
        found.append(_measure("tone-free syllable", bare))
    characters = [(characters_of(r), characters_of(h)) for r, h in texts]
    if texts and unit != "character":
        found.append(_measure("character", characters))
    words = [(words_of(r), words_of(h)) for r, h in texts]
    if texts and any(list(tokens) != said for (tokens, _), (said, _) in zip(pairs, words, strict=True)):
        spaced = unit == "piece" and any(" " in reference for reference, _ in texts)
        found.insert(0 if spaced else len(found), _measure("word", words))
    sentences: Sequence[tuple[Hashable, Hashable]] = texts if unit == "piece" else pairs
    found.append(_measure("sentence", [((r,), (h,)) for r, h in sentences]))
    if texts and unit in HANZI_TO_WRITE:
        found.append(_measure("written sentence", [((tuple(r),), (tuple(h),)) for r, h in characters]))
    return found


def _measure(name: str, pairs: Sequence[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> Measure:
    return Measure(name, tuple(count_edits(reference, hypothesis) for reference, hypothesis in pairs))


def _by_language(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Measure]:
    """Count the edits of mixed labels together, in each language that was said, and at the switch."""
    names = [(names_in(reference), names_in(hypothesis)) for reference, hypothesis in pairs]
    found = [language_errors(align(reference, hypothesis)) for reference, hypothesis in names]
    parts = zip(("Mandarin syllable", "Latin word", "language switch"), zip(*found, strict=True), strict=True)
    said = [(name, edits) for name, edits in parts if any(one.reference_length for one in edits)]
    return [_measure("mixed", names), *(Measure(name, tuple(edits)) for name, edits in said)]


def text_pairs(
    utterances: Sequence[Utterance], hypotheses: Sequence[Segment], token: str
) -> list[tuple[str, str]]:
    """Return (reference, hypothesis) of each utterance as text.

    For syllables and mixed labels, the reference is the utterance's text; there are no pairs if syllables
    were recognized but none was converted to text, or if an utterance has tokens but no text
    (`without_text`). Other tokens are text themselves.
    """
    if token in HANZI_TO_WRITE:
        not_converted = any(h.tokens for h in hypotheses) and not any(map(is_converted, hypotheses))
        if not_converted or without_text(utterances):
            return []
        return [(u.text, h.text) for u, h in zip(utterances, hypotheses, strict=True)]
    pairs = [(u.tokens, h.tokens) for u, h in zip(utterances, hypotheses, strict=True)]
    if token == "piece":
        return [(text_of_pieces(r), text_of_pieces(h)) for r, h in pairs]
    spaced = not all(is_character(token) for pair in pairs for tokens in pair for token in tokens)
    gap = " " if spaced else ""
    return [
        (gap.join(r).replace(WORD_BOUNDARY, " "), gap.join(h).replace(WORD_BOUNDARY, " ")) for r, h in pairs
    ]


def is_converted(hypothesis: Segment) -> bool:
    """Return whether a hypothesis's text is more than its tokens in a row, such as the hanzi of syllables."""
    return characters_of(hypothesis.text) != characters_of("".join(hypothesis.tokens))


def without_text(utterances: Iterable[Utterance]) -> list[Utterance]:
    """Return the utterances that have tokens but no written text."""
    return [utterance for utterance in utterances if utterance.tokens and not utterance.text.strip()]


def token_name(utterances: Iterable[Utterance]) -> str:
    """Return what one token of the labels is called, such as "syllable" or "token"."""
    return TOKEN_NAMES[unit_of(token for utterance in utterances for token in utterance.tokens)]
