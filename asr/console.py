"""What commands say in the terminal."""

from __future__ import annotations

import shlex
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.metrics import AlignedPair, align, total_edits, unit_of, without_tones

if TYPE_CHECKING:
    from asr.acoustic import AcousticModel
    from asr.config import Config
    from asr.engine import Engine
    from asr.evaluate import Evaluation
    from asr.trainer import TrainingData

NUM_SHOWN = 10
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


def tell_evaluation(evaluation: Evaluation, manifest: Path) -> None:
    """A table of references beside hypotheses, and the error rates below it."""
    shown = evaluation.token_pairs[:NUM_SHOWN]
    print(f"\n{manifest}: the first {len(shown)} of {len(evaluation.utterances)} utterances")
    for utterance, (reference, hypothesis) in zip(evaluation.utterances, shown, strict=False):
        pairs = align(reference, hypothesis)
        wrong = sum(pair.edit != "equal" for pair in pairs)
        verdict = "all right" if not wrong else f"{wrong} wrong"
        print(f"\n  {utterance.id}  {utterance.text}  {verdict}")
        for line in side_by_side(pairs):
            print(f"    {line}")
    print()
    for name, rate in error_rates(evaluation):
        print(f"  {name:<28} {rate}")


def side_by_side(pairs: Sequence[AlignedPair]) -> tuple[str, str, str]:
    """Reference, hypothesis and a mark below each column that differs; columns stand under each other."""
    widths = [max(width_of(pair.reference), width_of(pair.hypothesis), 1) for pair in pairs]
    said = " ".join(padded(pair.reference, width) for pair, width in zip(pairs, widths, strict=True))
    heard = " ".join(padded(pair.hypothesis, width) for pair, width in zip(pairs, widths, strict=True))
    marks = " ".join(
        ("^" if pair.edit != "equal" else " ") * width for pair, width in zip(pairs, widths, strict=True)
    )
    return f"said   {said}".rstrip(), f"heard  {heard}".rstrip(), f"       {marks}".rstrip()


def error_rates(evaluation: Evaluation) -> list[tuple[str, str]]:
    """The rates that a person asks for first, by name."""
    pairs, edits = evaluation.token_pairs, evaluation.edits
    unit = unit_of(evaluation.utterances)
    rates = [
        (
            f"{unit} error rate",
            f"{edits.rate:6.2%}  ({edits.substitutions} substitutions, {edits.insertions} insertions, "
            f"{edits.deletions} deletions, {edits.reference_length} tokens)",
        )
    ]
    if unit == "syllable":
        toneless = total_edits((without_tones(r), without_tones(h)) for r, h in pairs)
        rates.append(("the same, tones left aside", f"{toneless.rate:6.2%}"))
    wrong = sum(reference != hypothesis for reference, hypothesis in pairs)
    rates.append(("utterances with an error", f"{wrong / len(pairs):6.2%}"))
    return rates


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, whose cells stand under each other."""
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return [join_cells(row, widths) for row in rows]


def join_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of cells of these widths."""
    return (" " * GAP).join(map(padded, cells, widths)).rstrip()


def width_of(text: str) -> int:
    """Columns in a terminal: a hanzi takes two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def padded(text: str, width: int) -> str:
    """A text followed by spaces, so many columns in all."""
    return text + " " * (width - width_of(text))
