"""Compares two systems on the same utterances: error rates, significance, and which utterances changed.

comparison = compare_records(read_json(earlier), record)
comparison.rates[0].test.p_value
comparison.fixed[0].utterance.text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr.base.errors import UserError
from asr.base.types import EditCounts, Utterance
from asr.evaluation.errors.metrics import measures
from asr.evaluation.errors.significance import LEVEL, NUM_DRAWS, PairedTest, blocks_of, paired_test
from asr.evaluation.scores import EvaluationRecord
from asr.transcription.transcript import Segment


@dataclass(frozen=True)
class RateComparison:
    """An error rate of both systems, and the significance of the difference."""

    name: str
    edits_a: EditCounts
    edits_b: EditCounts
    test: PairedTest


@dataclass(frozen=True)
class Change:
    """An utterance on which the two systems make different numbers of errors."""

    utterance: Utterance
    by_a: Segment
    by_b: Segment
    errors_a: int
    errors_b: int


@dataclass(frozen=True)
class Comparison:
    """The comparison of system B with system A.

    Attributes:
        title_a: the run and decoder of A, and what else distinguishes it from B.
        title_b: the same of B.
        num_utterances: of the set.
        rates: those that both systems have, the one over tokens first.
        counted_in: the unit of `fixed` and `broken`.
        fixed: utterances on which B makes fewer errors, the largest difference first.
        broken: utterances on which B makes more errors, the largest difference first.
        notes: explain the figures.
    """

    title_a: str
    title_b: str
    num_utterances: int
    rates: Sequence[RateComparison]
    counted_in: str
    fixed: Sequence[Change]
    broken: Sequence[Change]
    notes: Sequence[str]


def compare_records(
    a: EvaluationRecord,
    b: EvaluationRecord,
    name_a: str = "the other evaluation",
    name_b: str = "this evaluation",
) -> Comparison:
    """Compare two evaluations of the same set; the order of utterances may differ.

    Args:
        a: the first system.
        b: the second system.
        name_a: source of `a`, for error messages, and for its title where run and decoder are those of `b`.
        name_b: source of `b`.

    Raises:
        UserError: see `hypotheses_for`.
    """
    hypotheses_a = hypotheses_for(b.utterances, a, name_a, b.token)
    by_a = {measure.name: measure.edits for measure in measures(b.utterances, hypotheses_a, b.token)}
    by_b = {measure.name: measure.edits for measure in measures(b.utterances, b.hypotheses, b.token)}
    blocks = blocks_of([utterance.speaker for utterance in b.utterances])
    rates = []
    for name in [name for name in by_b if name in by_a]:
        errors_a, errors_b = ([counts.errors for counts in edits[name]] for edits in (by_a, by_b))
        lengths = [counts.reference_length for counts in by_b[name]]
        test = paired_test(blocks.summed(errors_a), blocks.summed(errors_b), blocks.summed(lengths))
        rates.append(RateComparison(name, sum(by_a[name], EditCounts()), sum(by_b[name], EditCounts()), test))
    counted_in = _unit_with_changes(by_a, by_b)
    changes = [
        Change(utterance, hypothesis_a, hypothesis_b, edits_a.errors, edits_b.errors)
        for utterance, hypothesis_a, hypothesis_b, edits_a, edits_b in zip(
            b.utterances, hypotheses_a, b.hypotheses, by_a[counted_in], by_b[counted_in], strict=True
        )
    ]
    changes.sort(key=lambda change: (-abs(change.errors_b - change.errors_a), change.utterance.id))
    notes = [
        f"p: probability of such a difference by chance if A and B were equal ({blocks.kind} swapped)",
        f"{LEVEL:.0%} intervals, share of B better: bootstrap over {blocks.kind}, {NUM_DRAWS:,} draws",
    ]
    for title, names in (("A", by_a.keys() - by_b.keys()), ("B", by_b.keys() - by_a.keys())):
        if names:
            notes.append(f"only {title} has text: {', '.join(sorted(names))} error rates are not compared")
    return Comparison(
        *_distinct_titles(a, b, name_a, name_b),
        len(b.utterances),
        rates,
        counted_in,
        [change for change in changes if change.errors_b < change.errors_a],
        [change for change in changes if change.errors_b > change.errors_a],
        notes,
    )


def _distinct_titles(a: EvaluationRecord, b: EvaluationRecord, name_a: str, name_b: str) -> tuple[str, str]:
    """Return what two evaluations are called: by run and decoder, else also by settings, else by source."""
    if a.title != b.title:
        return a.title, b.title
    differing = sorted(
        key for key in a.decoder.keys() | b.decoder.keys() if a.decoder.get(key) != b.decoder.get(key)
    )
    if differing:
        return _with_settings(a, differing), _with_settings(b, differing)
    if name_a == name_b:  # B replaces A's file
        name_a, name_b = "as before", "as now"
    return f"{a.title} ({name_a})", f"{b.title} ({name_b})"


def _with_settings(record: EvaluationRecord, keys: Sequence[str]) -> str:
    """Return a record's title with some settings of its decoder."""
    settings = [f"{key} {record.decoder[key]}" if key in record.decoder else f"no {key}" for key in keys]
    return f"{record.title} ({', '.join(settings)})"


def hypotheses_for(
    utterances: Sequence[Utterance], record: EvaluationRecord, name: str, token: str
) -> list[Segment]:
    """Return the hypotheses of an evaluation in the order of the given utterances.

    Args:
        utterances: to return hypotheses for.
        record: of the evaluation.
        name: source of the record, for error messages.
        token: what a token of the other system is called, see `Vocabulary.token_name`; "" if unknown.

    Raises:
        UserError: the record is of other utterances or other labels, or of a model of another unit.
    """
    if token and record.token and token != record.token:
        raise UserError(
            f"{name}: expected the evaluation of a model of {token}s, received that of one of "
            f"{record.token}s; compare runs of one unit"
        )
    said = {utterance.id: utterance for utterance in record.utterances}
    hypotheses = dict(zip(said, record.hypotheses, strict=True))
    missing = [utterance.id for utterance in utterances if utterance.id not in said]
    extra = said.keys() - {utterance.id for utterance in utterances}
    if missing or extra:
        example = missing[0] if missing else min(extra)
        raise UserError(
            f"{name}: expected an evaluation of the same utterances; missing: {len(missing)} of "
            f"{len(utterances)}, others in it: {len(extra)} ({example}); evaluate both on the same manifest"
        )
    for utterance in utterances:
        other = said[utterance.id]
        if (other.tokens, other.text) != (utterance.tokens, utterance.text):
            raise UserError(
                f"{name}: {utterance.id}: expected the label {utterance.text!r} "
                f"({' '.join(utterance.tokens)}), received {other.text!r} ({' '.join(other.tokens)}); "
                "evaluate both on the same manifest"
            )
    return [hypotheses[utterance.id] for utterance in utterances]


def _unit_with_changes(
    by_a: Mapping[str, Sequence[EditCounts]], by_b: Mapping[str, Sequence[EditCounts]]
) -> str:
    """Return the unit in which to count changes: tokens, or characters if no token error changed."""
    unit = next(iter(by_b))
    same = all(a.errors == b.errors for a, b in zip(by_a[unit], by_b[unit], strict=True))
    return "character" if same and "character" in by_a and "character" in by_b else unit
