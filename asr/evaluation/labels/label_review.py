"""Finds labels that are probably wrong: the model is sure of its hypothesis and finds the label improbable.

    review = review_labels(evaluation)
    write_review_of(review.candidates, evaluation.utterances, path)

A candidate's score is the logarithm of how many times more probable CTC finds the hypothesis than the label,
per token that differs. Factors that both share cancel out, so that a long or noisy utterance does not become
a candidate for being long or noisy; dividing by the edits ranks one sure contradiction above many doubtful
ones. The score is a margin of the model's own probabilities, as in confident learning (Northcutt et al.,
2021, arXiv:1911.00068): it serves for ranking, but is not a probability that the label is wrong.

A model must earn the right to doubt labels. One that is often wrong, or wrong where it is sure, contradicts
right labels most of the time; then there are no candidates, but a reason why. Both shares leave the
candidates out, whose labels may be what is wrong. With these limits, 79 to 100 % of the candidates are wrong
where one label in ten was spoiled (benchmarks/accuracy/label_review.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from asr.base.system.files import cannot_write
from asr.base.text.hanzi_text import hanzi_in
from asr.base.text.pinyin import is_syllable, syllable_of_reading
from asr.base.types import Utterance
from asr.evaluation.errors.metrics import AlignedPair, align
from asr.evaluation.labels.review_file import ReviewRow, read_review, write_review
from asr.transcription.transcript import Segment

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation

MIN_SCORE = 5.0  # e^5: 150 times as probable, per token that differs
MIN_CONFIDENCE = 0.5  # of a suggested token: more probable than not
MAX_ERROR_RATE = 0.4  # of a model that may doubt labels
MAX_DOUBTED, MIN_LABELS = 0.3, 20  # share of a set that may be doubted, from this number of labels on
SURE, MAX_SURE_ERRORS = 0.9, 0.1  # confidence of a sure token, and how many of them may contradict the labels
SANDHI = {"一": ("yi2", "yi4", "yi5"), "不": ("bu2", "bu5")}

Kind: TypeAlias = Literal["another reading", "tone sandhi", "other"]


@dataclass(frozen=True)
class LabelDifference:
    """A token of the label that the model contradicts.

    Attributes:
        pair: tokens of the label and of the hypothesis.
        hanzi: of the label's token; empty if unknown.
        kind: "another reading" of the same hanzi; "tone sandhi", which labels from a dictionary do not have;
            or "other".
    """

    pair: AlignedPair
    hanzi: str
    kind: Kind

    def __str__(self) -> str:
        reference, hypothesis = (side or "nothing" for side in self.pair[1:])
        kind = "" if self.kind == "other" else f" ({self.kind})"
        return f"{self.hanzi} {reference} > {hypothesis}{kind}".strip()


@dataclass(frozen=True)
class DoubtfulLabel:
    """An utterance whose label is probably wrong.

    Attributes:
        utterance: with its label.
        hypothesis: of the utterance.
        suggested: tokens of the label, corrected where the model is sure.
        differences: between label and suggestion.
        score: natural logarithm, see the module.
    """

    utterance: Utterance
    hypothesis: Segment
    suggested: tuple[str, ...]
    differences: Sequence[LabelDifference]
    score: float

    @property
    def is_polyphone(self) -> bool:
        """Return whether all differences are other readings of the same hanzi."""
        return all(difference.kind == "another reading" for difference in self.differences)


@dataclass(frozen=True)
class LabelReview:
    """What a model says about the labels of a set.

    Attributes:
        candidates: the utterances to review, the highest score first; ties are in alphabetical order.
        why_none: why there are none, as a sentence without an end, where the model may not doubt labels; else
            empty.
    """

    candidates: Sequence[DoubtfulLabel]
    why_none: str = ""


def review_labels(evaluation: Evaluation) -> LabelReview:
    """Return the labels that are probably wrong, or why the model may not doubt any."""
    rows = zip(
        evaluation.utterances,
        evaluation.hypotheses,
        evaluation.reference_log_probs,
        evaluation.hypothesis_log_probs,
        strict=True,
    )
    found: list[DoubtfulLabel] = []
    others: list[tuple[Segment, Sequence[AlignedPair]]] = []
    for utterance, hypothesis, reference_log_prob, hypothesis_log_prob in rows:
        pairs = align(utterance.tokens, hypothesis.tokens)
        num_edits = sum(pair.edit != "equal" for pair in pairs)
        # a label that does not fit its frames has no probability: the margin is infinite
        margin = hypothesis_log_prob - reference_log_prob
        is_doubtful = num_edits and not math.isnan(margin) and margin >= MIN_SCORE * num_edits
        if is_doubtful and hypothesis.tokens:  # to delete a whole label is no suggestion
            found.append(_candidate(utterance, hypothesis, pairs, margin / num_edits))
        else:
            others.append((hypothesis, pairs))
    token = evaluation.token or "token"
    if found and (why_none := _too_many(len(found), len(found) + len(others)) or _why_none(others, token)):
        return LabelReview((), why_none)
    return LabelReview(sorted(found, key=lambda candidate: (-candidate.score, candidate.utterance.id)))


def _too_many(num_doubtful: int, num_labels: int) -> str:
    if num_labels < MIN_LABELS or num_doubtful <= MAX_DOUBTED * num_labels:
        return ""
    return (
        f"the model contradicts {num_doubtful / num_labels:.0%} of the labels; one that contradicts at most "
        f"{MAX_DOUBTED:.0%} may doubt them"
    )


def _why_none(others: Iterable[tuple[Segment, Sequence[AlignedPair]]], token: str) -> str:
    """Return why a model may not doubt labels, given what it made of the labels that it does not doubt."""
    num_errors = num_tokens = num_sure = num_sure_errors = 0
    for hypothesis, pairs in others:
        confidences = iter(hypothesis.confidences or [0.0] * len(hypothesis.tokens))
        for pair in pairs:
            num_tokens += pair.edit != "insertion"
            num_errors += pair.edit != "equal"
            if pair.edit != "deletion" and next(confidences) >= SURE:
                num_sure += 1
                num_sure_errors += pair.edit != "equal"
    rate = num_errors / max(1, num_tokens)
    if rate > MAX_ERROR_RATE:
        return (
            f"the model gets {rate:.0%} of the other {token}s wrong; one that gets at most "
            f"{MAX_ERROR_RATE:.0%} wrong may doubt labels"
        )
    if num_sure_errors > MAX_SURE_ERRORS * num_sure:
        return (
            f"{num_sure_errors / num_sure:.0%} of the other {token}s of which the model is sure contradict "
            f"their labels; only a model with at most {MAX_SURE_ERRORS:.0%} may doubt labels"
        )
    return ""


def write_review_of(candidates: Sequence[DoubtfulLabel], utterances: Iterable[Utterance], path: Path) -> int:
    """Write the list of labels to review; decisions of an existing list are kept.

    Args:
        candidates: of a set.
        utterances: of the set, also those that could not be read.
        path: of the CSV file.

    Returns:
        The number of utterances in the list; if there are none, no list is written and an earlier one is
        removed.

    Raises:
        UserError: the file cannot be written, or the existing file is not such a list.
    """
    rows = [row_of(candidate) for candidate in candidates]
    labels = {utterance.id: utterance.tokens for utterance in utterances}
    decided = {
        row.id: row
        for row in (read_review(path) if path.exists() else ())
        if row.decision.strip() and labels.get(row.id) == row.reference
    }
    rows = [decided.pop(row.id, row) for row in rows] + list(decided.values())
    if rows:
        write_review(path, rows)
        return len(rows)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, "list to review", error) from None
    return 0


def row_of(candidate: DoubtfulLabel) -> ReviewRow:
    """Return the line of a candidate in the list to review."""
    utterance = candidate.utterance
    return ReviewRow(
        decision="",
        id=utterance.id,
        audio=utterance.audio_path,
        text=utterance.text,
        reference=utterance.tokens,
        suggested=candidate.suggested,
        differs="; ".join(map(str, candidate.differences)),
        score=f"{candidate.score:.1f}",
    )


def _candidate(
    utterance: Utterance, hypothesis: Segment, pairs: Sequence[AlignedPair], score: float
) -> DoubtfulLabel:
    confidences = iter(hypothesis.confidences or [1.0] * len(hypothesis.tokens))
    sure = [pair.edit == "deletion" or next(confidences) >= MIN_CONFIDENCE for pair in pairs]
    runs = [
        (edited, list(run))
        for edited, run in itertools.groupby(
            zip(pairs, sure, strict=True), key=lambda item: item[0].edit != "equal"
        )
    ]
    taken = [edited and all(is_sure for _, is_sure in run) for edited, run in runs]
    if not any(taken):  # the differences made it a candidate together: suggest them all
        taken = [edited for edited, _ in runs]
    hanzi = hanzi_in(utterance.text)
    one_to_one = len(hanzi) == len(utterance.tokens) and all(map(is_syllable, utterance.tokens))
    suggested: list[str] = []
    differences: list[LabelDifference] = []
    index = 0
    for take, (_, run) in zip(taken, runs, strict=True):
        for pair, _ in run:
            char = hanzi[index] if one_to_one and pair.reference else ""
            index += pair.edit != "insertion"
            token = pair.hypothesis if take else pair.reference
            suggested += [token] if token else []
            if take:
                following = utterance.tokens[index] if index < len(utterance.tokens) else ""
                differences.append(LabelDifference(pair, char, _kind(char, pair, following)))
    return DoubtfulLabel(utterance, hypothesis, tuple(suggested), differences, score)


def _kind(hanzi: str, pair: AlignedPair, following: str) -> Kind:
    _, said, recognized = pair
    if not (hanzi and recognized):
        return "other"
    third_before_third = said.endswith("3") and recognized == said[:-1] + "2" and following.endswith("3")
    if third_before_third or recognized in SANDHI.get(hanzi, ()):
        return "tone sandhi"
    return "another reading" if recognized in _readings_of(hanzi) else "other"


def _readings_of(hanzi: str) -> set[str]:
    """Return the syllables a hanzi can be read as (pypinyin's dictionary), each in the neutral tone too."""
    from pypinyin import pinyin_dict

    readings = {
        syllable_of_reading(reading)
        for reading in pinyin_dict.pinyin_dict.get(ord(hanzi), "").split(",")
        if reading
    }
    return readings | {reading[:-1] + "5" for reading in readings}
