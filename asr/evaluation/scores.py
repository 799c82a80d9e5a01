"""Computes rates with their intervals, and saves evaluations as JSON and CSV.

record = EvaluationRecord.of(evaluation, run="demo", manifest=manifest, decoder=settings)
write_json(path, record)
scores_of(record.utterances, record.hypotheses)[0].interval
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from asr.base.errors import UserError
from asr.base.system.files import read_lines, whole_file
from asr.base.system.storage.address import path_of
from asr.base.types import EditCounts, Utterance
from asr.base.version import __version__
from asr.evaluation.errors.metrics import TEXT_POLICY, align, mean_loss, measures, token_name
from asr.evaluation.errors.significance import LEVEL, NUM_DRAWS, SEED, blocks_of, rate_interval
from asr.transcription.transcript import Segment
from asr.transcription.transcript_json import (
    KEY,
    expect_text,
    expect_texts,
    finite_or_none,
    log_prob_from_json,
    segment_as_json,
    segment_from_json,
)

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation

FORMAT = "polyphone evaluation"
SCHEMA = 1

Settings: TypeAlias = Mapping[str, str | int | float | bool]
"""The settings of a decoder by name, among them `beam`."""


@dataclass(frozen=True)
class Score:
    """An error rate of a set.

    Attributes:
        name: unit of the rate, such as "syllable".
        edits: of each utterance.
        total: edits of all utterances.
        interval: the 95 % confidence interval of the rate.
    """

    name: str
    edits: Sequence[EditCounts]
    total: EditCounts
    interval: tuple[float, float]


def scores_of(utterances: Sequence[Utterance], hypotheses: Sequence[Segment], token: str = "") -> list[Score]:
    """Compute every rate of `asr.evaluation.errors.metrics.measures`, with its interval."""
    blocks = blocks_of([utterance.speaker for utterance in utterances])
    scores = []
    for name, edits in measures(utterances, hypotheses, token):
        errors = blocks.summed([counts.errors for counts in edits])
        lengths = blocks.summed([counts.reference_length for counts in edits])
        scores.append(Score(name, edits, sum(edits, EditCounts()), rate_interval(errors, lengths)))
    return scores


@dataclass(frozen=True)
class EvaluationRecord:
    """An evaluation as it is saved.

    Attributes:
        run: name of the run.
        manifest: path of the set.
        decoder: its settings.
        utterances: the set.
        hypotheses: of the utterances, in the set's order.
        reference_log_probs: see `asr.evaluation.evaluator.Evaluation`.
        token: what a token of the run is called; "" for what most labels are.
        checkpoint: name of the weights' file; "" if unknown.
    """

    run: str
    manifest: str
    decoder: Settings
    utterances: Sequence[Utterance]
    hypotheses: Sequence[Segment]
    reference_log_probs: Sequence[float]
    token: str = ""
    checkpoint: str = ""

    @classmethod
    def of(
        cls, evaluation: Evaluation, run: str, manifest: Path, decoder: Settings, checkpoint: str = ""
    ) -> EvaluationRecord:
        """Return the record of an evaluation."""
        return cls(
            run,
            str(manifest.resolve()),
            decoder,
            evaluation.utterances,
            evaluation.hypotheses,
            evaluation.reference_log_probs,
            evaluation.token,
            checkpoint,
        )

    @property
    def loss(self) -> float:
        """Return the mean CTC loss of the utterances whose reference fits."""
        return mean_loss(self.reference_log_probs)

    @property
    def title(self) -> str:
        """Return the run's name and, unless it is greedy, the decoder's."""
        return ", ".join(part for part in (self.run, decoder_name(self.decoder).replace("-", " ")) if part)


def tones_of(record: EvaluationRecord) -> str:
    """Return the tones of labels made from text, "citation" or "spoken"; empty if they are not known."""
    from data_pipeline.preparation.description import labels_beside

    labels = labels_beside(path_of(record.manifest))
    return labels.tones if labels else ""


def decoder_name(decoder: Settings) -> str:
    """Return a short name of a decoder for file names, such as `beam16-lm`; empty for greedy decoding."""
    beam = decoder.get("beam", 1)
    extras = [
        short for key, short in (("language_model", "lm"), ("hot_words", "hot-words")) if decoder.get(key)
    ]
    return "-".join([f"beam{beam}", *extras]) if beam != 1 else ""


def write_json(path: Path, record: EvaluationRecord, scores: Sequence[Score]) -> None:
    """Write a record as JSON, one utterance per line; numbers that are not finite become null.

    Raises:
        UserError: the file cannot be written.
    """
    blocks = blocks_of([utterance.speaker for utterance in record.utterances])
    head = {
        "format": FORMAT,
        "schema": SCHEMA,
        "polyphone": __version__,
        "run": record.run,
        "checkpoint": record.checkpoint,
        "manifest": record.manifest,
        "decoder": dict(record.decoder),
        "loss": finite_or_none(record.loss),
        "unit": record.token or token_name(record.utterances),
        "tones": tones_of(record),
        "text_policy": TEXT_POLICY,
        "intervals": {"level": LEVEL, "resampled": blocks.kind, "draws": NUM_DRAWS, "seed": SEED},
        "rates": [_rate_fields(score) for score in scores],
    }
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in _utterance_rows(record, scores)]
    text = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=2).removesuffix("\n}")
    text += ',\n  "utterances": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n"
    with whole_file(path, "evaluation") as file:
        # a lone surrogate, which a manifest can contain, becomes its JSON escape
        file.write(text.encode(errors="backslashreplace"))


def write_csv(path: Path, record: EvaluationRecord, scores: Sequence[Score]) -> None:
    """Write a row for each utterance: label, hypothesis, and the edits in every unit.

    Raises:
        UserError: the file cannot be written.
    """
    with whole_file(path, "table") as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        table = csv.writer(text, lineterminator="\n")
        about = (
            "id",
            "speaker",
            "duration_s",
            "text",
            "hypothesis_text",
            "tokens",
            "hypothesis_tokens",
            "score",
        )
        kinds = ("errors", "substitutions", "insertions", "deletions", "reference_length")
        table.writerow([*about, *(f"{score.name} {kind}" for score in scores for kind in kinds)])
        for index, (said, hypothesis) in enumerate(zip(record.utterances, record.hypotheses, strict=True)):
            edits = [getattr(score.edits[index], kind) for score in scores for kind in kinds]
            tokens, hypothesis_tokens = " ".join(said.tokens), " ".join(hypothesis.tokens)
            texts = (said.text, hypothesis.text, tokens, hypothesis_tokens)
            table.writerow(
                [said.id, said.speaker, f"{said.duration_s:g}", *texts, f"{hypothesis.score:.4f}", *edits]
            )
        text.flush()
        text.detach()


def _rate_fields(score: Score) -> dict[str, Any]:
    numbers = (score.total.rate, *score.interval)
    rates = dict(zip(("rate", "low", "high"), map(finite_or_none, numbers), strict=True))
    return {"name": score.name, **rates, **_edit_fields(score.total)}


def _edit_fields(edits: EditCounts) -> dict[str, int]:
    return {
        "errors": edits.errors,
        "substitutions": edits.substitutions,
        "insertions": edits.insertions,
        "deletions": edits.deletions,
        "reference_length": edits.reference_length,
    }


def _utterance_rows(record: EvaluationRecord, scores: Sequence[Score]) -> Iterator[dict[str, Any]]:
    for index, (said, hypothesis) in enumerate(zip(record.utterances, record.hypotheses, strict=True)):
        yield {
            "id": said.id,
            "audio": said.audio_path,
            "duration_s": said.duration_s,
            "speaker": said.speaker,
            "text": said.text,
            "tokens": said.tokens,
            "reference_log_prob": finite_or_none(record.reference_log_probs[index]),
            KEY: segment_as_json(hypothesis),
            "aligned": [(pair.reference, pair.hypothesis) for pair in align(said.tokens, hypothesis.tokens)],
            "edits": {score.name: _edit_fields(score.edits[index]) for score in scores},
        }


def read_json(path: Path) -> EvaluationRecord:
    """Read what `write_json` wrote, except the rates, which follow from the rest.

    Raises:
        UserError: the file is missing or damaged, is not an evaluation, or has another schema.
    """
    wanted = "expected the JSON file that `asr evaluate` writes beside its report"
    text = "\n".join(read_lines(path, "evaluation"))
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error}); {wanted}") from None
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        raise UserError(f"{path}: not an evaluation; {wanted}")
    if read.get("schema") != SCHEMA:
        raise UserError(
            f"{path}: expected schema {SCHEMA}, received {read.get('schema')!r}, written by another version "
            "of Polyphone; evaluate again with this version"
        )
    try:
        return _record_of(read)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}: {error}); evaluate again") from None


def _record_of(read: dict[str, Any]) -> EvaluationRecord:
    rows = read["utterances"]
    utterances = [
        Utterance(
            expect_text(row["id"]),
            expect_text(row["audio"]),
            float(row["duration_s"]),
            expect_text(row["text"]),
            expect_texts(row["tokens"]),
            expect_text(row["speaker"]),
        )
        for row in rows
    ]
    hypotheses = [segment_from_json(row[KEY], float(row["duration_s"])) for row in rows]
    if not rows or len({utterance.id for utterance in utterances}) != len(rows):
        raise ValueError("no utterances, or an id appears twice")
    decoder = dict(read["decoder"].items())
    log_probs = [log_prob_from_json(row["reference_log_prob"]) for row in rows]
    run, manifest = expect_text(read["run"]), expect_text(read["manifest"])
    token, checkpoint = expect_text(read["unit"]), expect_text(read.get("checkpoint", ""))
    return EvaluationRecord(run, manifest, decoder, utterances, hypotheses, log_probs, token, checkpoint)
