"""Two systems on the same utterances: their error rates, whether chance explains the difference, and where.

comparison = compare_records(read_json(earlier), record)
comparison.rates[0].test.p_value
comparison.fixed[0].utterance.text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr.base.types import EditCounts, Hypothesis, UserError, Utterance
from asr.evaluation.metrics import measures
from asr.evaluation.scores import EvaluationRecord
from asr.evaluation.significance import LEVEL, NUM_DRAWS, PairedTest, blocks_of, paired_test


@dataclass(frozen=True)
class RateComparison:
    """An error rate of both systems, and what chance has to do with the difference."""

    name: str
    edits_a: EditCounts
    edits_b: EditCounts
    test: PairedTest


@dataclass(frozen=True)
class Change:
    """An utterance with more or fewer errors by one system than by the other."""

    utterance: Utterance
    by_a: Hypothesis
    by_b: Hypothesis
    errors_a: int
    errors_b: int


@dataclass(frozen=True)
class Comparison:
    """System B beside system A.

    Attributes:
        title_a: the run and decoder of A.
        title_b: the same of B.
        num_utterances: of the set.
        rates: that both have, the one over tokens first.
        counted_in: the unit of `fixed` and `broken`.
        fixed: where B makes fewer errors; the largest difference first.
        broken: where it makes more.
        notes: what is to be known of the figures.
    """

    title_a: str
    title_b: str
    num_utterances: int
    rates: Sequence[RateComparison]
    counted_in: str
    fixed: Sequence[Change]
    broken: Sequence[Change]
    notes: Sequence[str]


def compare_records(a: EvaluationRecord, b: EvaluationRecord, name_a: str = "the other one") -> Comparison:
    """Compare two evaluations of one set; the order of its utterances may differ.

    Args:
        a: the first system.
        b: the second one.
        name_a: where `a` comes from, for the error.

    Raises:
        UserError: see `hypotheses_for`.
    """
    heard_by_a = hypotheses_for(b.utterances, a, name_a)
    by_a = {measure.name: measure.edits for measure in measures(b.utterances, heard_by_a)}
    by_b = {measure.name: measure.edits for measure in measures(b.utterances, b.hypotheses)}
    blocks = blocks_of([utterance.speaker for utterance in b.utterances])
    rates = []
    for name in [name for name in by_b if name in by_a]:
        errors_a, errors_b = ([counts.errors for counts in edits[name]] for edits in (by_a, by_b))
        lengths = [counts.reference_length for counts in by_b[name]]
        test = paired_test(blocks.summed(errors_a), blocks.summed(errors_b), blocks.summed(lengths))
        rates.append(RateComparison(name, sum(by_a[name], EditCounts()), sum(by_b[name], EditCounts()), test))
    counted_in = _telling_unit(by_a, by_b)
    changes = [
        Change(utterance, heard_a, heard_b, edits_a.errors, edits_b.errors)
        for utterance, heard_a, heard_b, edits_a, edits_b in zip(
            b.utterances, heard_by_a, b.hypotheses, by_a[counted_in], by_b[counted_in], strict=True
        )
    ]
    changes.sort(key=lambda change: (-abs(change.errors_b - change.errors_a), change.utterance.id))
    notes = [
        f"p: how often chance alone makes so large a difference, were A and B equal ({blocks.kind} swapped)",
        f"intervals and how often B is better: {blocks.kind} drawn again, {NUM_DRAWS:,} times; {LEVEL:.0%}",
    ]
    for title, names in (("A", by_a.keys() - by_b.keys()), ("B", by_b.keys() - by_a.keys())):
        if names:
            notes.append(
                f"of {title} alone there is text: {', '.join(sorted(names))} error rates not compared"
            )
    return Comparison(
        a.title,
        b.title,
        len(b.utterances),
        rates,
        counted_in,
        [change for change in changes if change.errors_b < change.errors_a],
        [change for change in changes if change.errors_b > change.errors_a],
        notes,
    )


def hypotheses_for(utterances: Sequence[Utterance], record: EvaluationRecord, name: str) -> list[Hypothesis]:
    """What was heard in an evaluation, in the order of these utterances.

    Args:
        utterances: to compare it on.
        record: of the evaluation.
        name: where it comes from, for the error.

    Raises:
        UserError: it is not of these utterances with these labels.
    """
    said = {utterance.id: utterance for utterance in record.utterances}
    heard = {hypothesis.utterance_id: hypothesis for hypothesis in record.hypotheses}
    missing = [utterance.id for utterance in utterances if utterance.id not in said]
    extra = said.keys() - {utterance.id for utterance in utterances}
    if missing or extra:
        example = missing[0] if missing else min(extra)
        raise UserError(
            f"{name}: an evaluation of other utterances: {len(missing)} of {len(utterances)} are not in "
            f"it, and {len(extra)} of its own are not in this one ({example}); evaluate both on one manifest"
        )
    for utterance in utterances:
        other = said[utterance.id]
        if (other.tokens, other.text) != (utterance.tokens, utterance.text):
            raise UserError(
                f"{name}: {utterance.id} is labelled otherwise, {other.text!r} ({' '.join(other.tokens)}), "
                f"here {utterance.text!r} ({' '.join(utterance.tokens)}); evaluate both on one manifest"
            )
    return [heard[utterance.id] for utterance in utterances]


def _telling_unit(by_a: Mapping[str, Sequence[EditCounts]], by_b: Mapping[str, Sequence[EditCounts]]) -> str:
    """In what to look for changes: in tokens, but where none has changed, in characters."""
    unit = next(iter(by_b))
    same = all(a.errors == b.errors for a, b in zip(by_a[unit], by_b[unit], strict=True))
    return "character" if same and "character" in by_a and "character" in by_b else unit
