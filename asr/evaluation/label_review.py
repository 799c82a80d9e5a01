"""Labels that are probably wrong: the model is sure of what it heard, and gives the label next to nothing.

    candidates = review_candidates(evaluation)
    write_review_of(candidates, evaluation.utterances, path)

A candidate's score is the logarithm of how many times more probable CTC finds what was heard than what the
label says, for each token that differs. What both have in common is in both and drops out, so that a long or
noisy utterance is no candidate for being long or noisy; dividing by the edits ranks one sure contradiction
above many doubtful ones. It is a margin of a model's own probabilities, as in confident learning (Northcutt
et al., 2021, arXiv:1911.00068): good for ranking, no probability that the label is wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from asr.base.files import cannot_write
from asr.base.hanzi_text import hanzi_in
from asr.base.pinyin import is_syllable, syllable_of_reading
from asr.base.types import Hypothesis, Utterance
from asr.evaluation.metrics import AlignedPair, align
from asr.evaluation.review_file import ReviewRow, read_review, write_review

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation  # loads TensorFlow

LEAST_SCORE = 5.0  # e^5, 150 times as probable, for each token
LEAST_CONFIDENCE = 0.5  # of what is suggested: more probable than not
SANDHI = {"一": ("yi2", "yi4", "yi5"), "不": ("bu2", "bu5")}

Kind: TypeAlias = Literal["another reading", "tone sandhi", "other"]


@dataclass(frozen=True)
class Difference:
    """A token that the model contradicts.

    Attributes:
        pair: what the label says, and what was heard.
        hanzi: that the label's token stands for; empty where that is not known.
        kind: "another reading" of the same hanzi; "tone sandhi", which a label by the dictionary leaves out;
            or any "other".
    """

    pair: AlignedPair
    hanzi: str
    kind: Kind

    def __str__(self) -> str:
        said, heard = (side or "nothing" for side in self.pair[1:])
        kind = "" if self.kind == "other" else f" ({self.kind})"
        return f"{self.hanzi} {said} > {heard}{kind}".strip()


@dataclass(frozen=True)
class Candidate:
    """An utterance whose label is probably wrong.

    Attributes:
        utterance: with its label.
        hypothesis: what was heard.
        suggested: tokens of the label with what the model is sure of in the place of what it contradicts.
        differences: between label and suggestion.
        score: natural logarithm; see above.
    """

    utterance: Utterance
    hypothesis: Hypothesis
    suggested: tuple[str, ...]
    differences: Sequence[Difference]
    score: float

    @property
    def is_polyphone(self) -> bool:
        """Whether all that differs is another reading of the same hanzi."""
        return all(difference.kind == "another reading" for difference in self.differences)


def review_candidates(evaluation: Evaluation) -> list[Candidate]:
    """Utterances to review, the highest score first; of equal ones in the alphabet's order."""
    rows = zip(
        evaluation.utterances,
        evaluation.hypotheses,
        evaluation.reference_log_probs,
        evaluation.heard_log_probs,
        strict=True,
    )
    found = []
    for utterance, hypothesis, reference_log_prob, heard_log_prob in rows:
        pairs = align(utterance.tokens, hypothesis.tokens)
        num_edits = sum(pair.edit != "equal" for pair in pairs)
        # a label that does not fit its frames has no probability: the margin is infinite
        margin = heard_log_prob - reference_log_prob
        if num_edits and not math.isnan(margin) and margin >= LEAST_SCORE * num_edits:
            found.append(_candidate(utterance, hypothesis, pairs, margin / num_edits))
    return sorted(found, key=lambda candidate: (-candidate.score, candidate.utterance.id))


def write_review_of(candidates: Sequence[Candidate], utterances: Iterable[Utterance], path: Path) -> int:
    """Write the list to review; decisions in one that stands there already are kept.

    Args:
        candidates: of a set.
        utterances: of that set.
        path: of the CSV file.

    Returns:
        How many utterances it holds; where there is none, there is no list, nor an earlier one any more.

    Raises:
        UserError: the file cannot be written, or is there and no such list.
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


def row_of(candidate: Candidate) -> ReviewRow:
    """Its line in the list to review."""
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
    utterance: Utterance, hypothesis: Hypothesis, pairs: Sequence[AlignedPair], score: float
) -> Candidate:
    confidences = iter(hypothesis.confidences or [1.0] * len(hypothesis.tokens))
    sure = [pair.edit == "deletion" or next(confidences) >= LEAST_CONFIDENCE for pair in pairs]
    runs = [
        (edited, list(run))
        for edited, run in itertools.groupby(
            zip(pairs, sure, strict=True), key=lambda item: item[0].edit != "equal"
        )
    ]
    taken = [edited and all(is_sure for _, is_sure in run) for edited, run in runs]
    if not any(taken):  # it is a candidate for what it holds as a whole
        taken = [edited for edited, _ in runs]
    hanzi = _hanzi_of(utterance)
    suggested: list[str] = []
    differences: list[Difference] = []
    place = 0
    for take, (_, run) in zip(taken, runs, strict=True):
        for pair, _ in run:
            char = hanzi[place] if hanzi and pair.reference else ""
            place += pair.edit != "insertion"
            token = pair.hypothesis if take else pair.reference
            suggested += [token] if token else []
            if take:
                following = utterance.tokens[place] if place < len(utterance.tokens) else ""
                differences.append(Difference(pair, char, _kind(char, pair, following)))
    return Candidate(utterance, hypothesis, tuple(suggested), differences, score)


def _hanzi_of(utterance: Utterance) -> list[str]:
    """The hanzi of each token; none where they are not one to one."""
    hanzi = hanzi_in(utterance.text)
    one_to_one = len(hanzi) == len(utterance.tokens) and all(map(is_syllable, utterance.tokens))
    return hanzi if one_to_one else []


def _kind(hanzi: str, pair: AlignedPair, following: str) -> Kind:
    _, said, heard = pair
    if not (hanzi and heard):
        return "other"
    third_before_third = said.endswith("3") and heard == said[:-1] + "2" and following.endswith("3")
    if third_before_third or heard in SANDHI.get(hanzi, ()):
        return "tone sandhi"
    return "another reading" if heard in _readings_of(hanzi) else "other"


def _readings_of(hanzi: str) -> set[str]:
    """Every syllable that a hanzi can be read as, by pypinyin's dictionary; each in the neutral tone too."""
    from pypinyin import pinyin_dict

    readings = {
        syllable_of_reading(reading)
        for reading in pinyin_dict.pinyin_dict.get(ord(hanzi), "").split(",")
        if reading
    }
    return readings | {reading[:-1] + "5" for reading in readings}
