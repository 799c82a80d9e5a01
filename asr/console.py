"""What commands say in the terminal."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.metrics import TEXT_POLICY, AlignedPair, align, count_edits, is_converted, without_text
from asr.page import counted

if TYPE_CHECKING:
    from asr.acoustic import AcousticModel
    from asr.config import Config
    from asr.engine import Engine
    from asr.evaluation.compare_scores import Comparison
    from asr.evaluation.score import EvaluationRecord, Score
    from asr.trainer import TrainingData
    from asr.types import Hypothesis, Utterance

NUM_SHOWN = 10
NUM_CHANGED = 3
NOTE_COLUMNS = 104
GAP = 2  # columns of the terminal between two of a table


def asr_command() -> str:
    """How the user types `asr`: as it is where the shell finds ours, else by way of this Python."""
    ours = Path(sys.executable).with_name("asr")
    found = shutil.which("asr")
    return "asr" if found and Path(found) == ours else f"{shlex.quote(sys.executable)} -m asr"


def tell_start(
    directory: Path,
    config: Config,
    model: AcousticModel,
    train_data: TrainingData,
    num_dev: int,
    engine: Engine,
) -> None:
    """Say what is about to be trained on what."""
    family = config.model.family + (f" {config.model.size}" if config.model.family == "separable" else "")
    print(
        f"{directory}: {family}, {model.count_params() / 1e6:.2f} million parameters, "
        f"{model.network.num_outputs - 1} tokens"
    )
    print(
        f"training on {train_data.duration_s / 60:.1f} minutes ({len(train_data.utterances)} utterances), "
        f"dev {num_dev} utterances, {config.train.epochs} epochs"
    )
    if engine.num_devices > 1:
        workers = f" of each of {engine.num_workers} workers" if engine.num_workers > 1 else ""
        batch_s = config.train.batch_s
        print(
            f"on {', '.join(engine.devices)}{workers} ({engine.name}): a batch of {batch_s:g} s is "
            f"{batch_s / engine.num_devices:.3g} s on each device"
        )


def tell_evaluation(record: EvaluationRecord, scores: Sequence[Score]) -> None:
    """A table of error rates, and references beside hypotheses below it."""
    utterances = record.utterances
    print(f"\n{record.title} on {counted(len(utterances), 'utterance')} of {record.manifest}\n")
    for line in in_columns(rate_rows(scores), right_from=1):
        print(f"  {line}")
    tell_notes(rate_notes(record, scores))
    shown = utterances[:NUM_SHOWN]
    print(f"\nthe first {len(shown)} of {counted(len(utterances), 'utterance')}")
    for utterance, hypothesis in zip(shown, record.hypotheses, strict=False):
        errors = count_edits(utterance.tokens, hypothesis.tokens).errors
        verdict = f"{errors} wrong" if errors else "all right"
        tell_utterance(utterance, verdict, [("heard", hypothesis)])


def tell_utterance(utterance: Utterance, verdict: str, heard: Sequence[tuple[str, Hypothesis]]) -> None:
    """One utterance, and what each system heard of it below what was said."""
    print(f"\n  {utterance.id}  {utterance.text}  {verdict}")
    for name, hypothesis in heard:
        lines = list(side_by_side(align(utterance.tokens, hypothesis.tokens), name))
        if is_converted(hypothesis):
            lines.append(padded("", name_width(name)) + hypothesis.text)
        for line in filter(None, lines):
            print(f"    {line}")


def rate_rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """Cells of a table of error rates, its headings first."""
    rows: list[tuple[str, ...]] = [
        ("", "rate", "95% interval", "errors", "of", "substituted", "inserted", "deleted")
    ]
    for score in scores:
        total, (low, high) = score.total, score.interval
        counts = (total.errors, total.reference_length)
        kinds = (total.substitutions, total.insertions, total.deletions)
        told = [f"{count:,}" for count in (*counts, *kinds)]
        if score.name.endswith("sentence"):
            told[2:] = ["", "", ""]  # a sentence is right or wrong
        rows.append((f"{score.name} error rate", shown_rate(total.rate), span(low, high), *told))
    return rows


def rate_notes(record: EvaluationRecord, scores: Sequence[Score]) -> list[str]:
    """What is to be known of a table of error rates."""
    from asr.evaluation.significance import NUM_DRAWS, blocks_of  # loads numpy

    speakers = [utterance.speaker for utterance in record.utterances]
    blocks, num_speakers = blocks_of(speakers), len(set(speakers) - {""})
    few = f", of {counted(num_speakers, 'speaker')}: how others fare they do not tell" if num_speakers else ""
    few = "" if blocks.kind == "speakers" else few
    notes = [f"intervals: {blocks.kind} drawn again, {NUM_DRAWS:,} times{few}"]
    names = {score.name for score in scores}
    if names & {"character", "word"}:
        notes.append(TEXT_POLICY)
    missing = without_text(record.utterances)
    if missing and "syllable" in names and any(map(is_converted, record.hypotheses)):
        notes.append(
            f"no error rate of characters: {len(missing):,} of {len(record.utterances):,} utterances "
            f"have no text, such as {missing[0].id}; write it into the manifest"
        )
    return notes


def tell_notes(notes: Sequence[str]) -> None:
    """What is to be known of a table, below it."""
    for note in notes:
        for line in textwrap.wrap(note, NOTE_COLUMNS, initial_indent="  ", subsequent_indent="    "):
            print(line)


def tell_comparison(comparison: Comparison) -> None:
    """Two systems side by side, and the utterances in which they differ most."""
    print(f"\nA  {comparison.title_a}\nB  {comparison.title_b}\n")
    for line in in_columns(comparison_rows(comparison), right_from=1):
        print(f"  {line}")
    tell_notes(comparison.notes)
    for title, changes in (("better by B", comparison.fixed), ("worse by B", comparison.broken)):
        if changes:
            print(f"\n{title} in {comparison.counted_in}s: {counted(len(changes), 'utterance')}")
        for change in changes[:NUM_CHANGED]:
            verdict = f"{change.errors_a} wrong by A, {change.errors_b} by B"
            tell_utterance(change.utterance, verdict, [("A", change.by_a), ("B", change.by_b)])


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Cells of a table of two systems' error rates, its headings first."""
    rows: list[tuple[str, ...]] = [("", "A", "B", "B less A", "95% interval", "p", "B better")]
    for rate in comparison.rates:
        test = rate.test
        figures = (shown_rate(rate.edits_a.rate), shown_rate(rate.edits_b.rate), f"{test.difference:+.2%}")
        chances = (span(test.low, test.high, "+"), shown_p(test.p_value), f"{test.better:.1%}")
        rows.append((f"{rate.name} error rate", *figures, *chances))
    return rows


def shown_rate(rate: float) -> str:
    """In percent."""
    return f"{rate:.2%}" if math.isfinite(rate) else "∞"


def span(low: float, high: float, sign: str = "") -> str:
    """An interval in percent."""
    return " to ".join(f"{end:{sign}.2%}" if math.isfinite(end) else "∞" for end in (low, high))


def shown_p(p_value: float) -> str:
    """A p-value as it is printed."""
    return f"{p_value:.4f}" if p_value >= 1e-4 else "< 0.0001"


def side_by_side(pairs: Sequence[AlignedPair], heard_by: str = "heard") -> tuple[str, str, str]:
    """Reference, hypothesis and a mark below each column that differs; columns stand under each other."""
    names = [padded(name, name_width(heard_by)) for name in ("said", heard_by, "")]
    widths = [max(width_of(pair.reference), width_of(pair.hypothesis), 1) for pair in pairs]
    said = " ".join(padded(pair.reference, width) for pair, width in zip(pairs, widths, strict=True))
    heard = " ".join(padded(pair.hypothesis, width) for pair, width in zip(pairs, widths, strict=True))
    marks = " ".join(
        ("^" if pair.edit != "equal" else " ") * width for pair, width in zip(pairs, widths, strict=True)
    )
    told = [f"{name}{line}".rstrip() for name, line in zip(names, (said, heard, marks), strict=True)]
    return told[0], told[1], told[2]


def name_width(heard_by: str) -> int:
    """Columns before what was said and heard."""
    return max(len("said"), len(heard_by)) + GAP


def in_columns(rows: Sequence[Sequence[str]], right_from: int | None = None) -> list[str]:
    """A line for each row, whose cells stand under each other.

    Args:
        rows: of as many cells each.
        right_from: the first column that is aligned on the right; None for none.
    """
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    first = len(widths) if right_from is None else right_from
    aligned = [
        [
            " " * (width - width_of(cell)) + cell
            for cell, width in zip(row[first:], widths[first:], strict=True)
        ]
        for row in rows
    ]
    return [join_cells([*row[:first], *right], widths) for row, right in zip(rows, aligned, strict=True)]


def join_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of cells of these widths."""
    return (" " * GAP).join(map(padded, cells, widths)).rstrip()


def width_of(text: str) -> int:
    """Columns in a terminal: a hanzi takes two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def padded(text: str, width: int) -> str:
    """A text followed by spaces, so many columns in all."""
    return text + " " * (width - width_of(text))
