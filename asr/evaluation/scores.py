"""The results of an evaluation as data: rates with their intervals; JSON and CSV; and JSON read back.

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

from asr.base.files import read_lines, whole_file
from asr.base.hypothesis_json import (
    finite_or_none,
    hypothesis_as_json,
    hypothesis_of_json,
    log_prob,
    string,
    strings,
)
from asr.base.types import EditCounts, Hypothesis, UserError, Utterance
from asr.base.version import __version__
from asr.evaluation.metrics import TEXT_POLICY, align, mean_loss, measures, token_name
from asr.evaluation.significance import LEVEL, NUM_DRAWS, SEED, Blocks, blocks_of, rate_interval

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation  # loads TensorFlow

FORMAT = "polyphone evaluation"
SCHEMA = 1

Settings: TypeAlias = Mapping[str, str | int | float | bool]
"""Of a decoder, by name; at least its `beam`."""


@dataclass(frozen=True)
class Score:
    """An error rate of a set.

    Attributes:
        name: of what was counted, such as "syllable".
        edits: of each utterance.
        total: of all.
        interval: where the rate lies with 95 % confidence.
    """

    name: str
    edits: Sequence[EditCounts]
    total: EditCounts
    interval: tuple[float, float]


def scores_of(utterances: Sequence[Utterance], hypotheses: Sequence[Hypothesis]) -> list[Score]:
    """Every rate of `asr.evaluation.metrics.measures`, with its interval."""
    blocks = blocks_of([utterance.speaker for utterance in utterances])
    return [score_of(name, edits, blocks) for name, edits in measures(utterances, hypotheses)]


def score_of(name: str, edits: Sequence[EditCounts], blocks: Blocks) -> Score:
    """The rate of some edits."""
    errors = blocks.summed([counts.errors for counts in edits])
    lengths = blocks.summed([counts.reference_length for counts in edits])
    return Score(name, edits, sum(edits, EditCounts()), rate_interval(errors, lengths))


@dataclass(frozen=True)
class EvaluationRecord:
    """What is kept of an evaluation.

    Attributes:
        run: name of the run.
        manifest: path of the set.
        decoder: its settings.
        utterances: the set.
        hypotheses: what was heard, in the set's order.
        reference_log_probs: see `asr.evaluation.evaluator.Evaluation`.
    """

    run: str
    manifest: str
    decoder: Settings
    utterances: Sequence[Utterance]
    hypotheses: Sequence[Hypothesis]
    reference_log_probs: Sequence[float]

    @classmethod
    def of(cls, evaluation: Evaluation, run: str, manifest: Path, decoder: Settings) -> EvaluationRecord:
        """The record of what has just been evaluated."""
        return cls(
            run,
            str(manifest.resolve()),
            decoder,
            evaluation.utterances,
            evaluation.hypotheses,
            evaluation.reference_log_probs,
        )

    @property
    def loss(self) -> float:
        """Mean CTC loss of an utterance whose reference fits."""
        return mean_loss(self.reference_log_probs)

    @property
    def title(self) -> str:
        """The run and, where it is not greedy, the decoder."""
        return ", ".join(part for part in (self.run, decoder_name(self.decoder).replace("-", " ")) if part)


def decoder_name(decoder: Settings) -> str:
    """A decoder in a word for the name of a file, such as `beam16-lm`; nothing for greedy decoding."""
    beam = decoder.get("beam", 1)
    extras = [
        short for key, short in (("language_model", "lm"), ("hot_words", "hot-words")) if decoder.get(key)
    ]
    return "-".join([f"beam{beam}", *extras]) if beam != 1 else ""


def write_json(path: Path, record: EvaluationRecord, scores: Sequence[Score]) -> None:
    """Write all of it, an utterance a line; numbers that are not finite become null.

    Raises:
        UserError: the file cannot be written.
    """
    blocks = blocks_of([utterance.speaker for utterance in record.utterances])
    head = {
        "format": FORMAT,
        "schema": SCHEMA,
        "polyphone": __version__,
        "run": record.run,
        "manifest": record.manifest,
        "decoder": dict(record.decoder),
        "loss": finite_or_none(record.loss),
        "unit": token_name(record.utterances),
        "text_policy": TEXT_POLICY,
        "intervals": {"level": LEVEL, "resampled": blocks.kind, "draws": NUM_DRAWS, "seed": SEED},
        "rates": [_rate_fields(score) for score in scores],
    }
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in _utterance_rows(record, scores)]
    text = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=2).removesuffix("\n}")
    text += ',\n  "utterances": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n"
    with whole_file(path, "evaluation") as file:
        # half of a surrogate pair, which a manifest can hold, becomes the escape that JSON has for it
        file.write(text.encode(errors="backslashreplace"))


def write_csv(path: Path, record: EvaluationRecord, scores: Sequence[Score]) -> None:
    """Write a row for each utterance: what it is, what was heard, and the edits in every unit.

    Raises:
        UserError: the file cannot be written.
    """
    with whole_file(path, "table") as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        table = csv.writer(text, lineterminator="\n")
        about = ("id", "speaker", "duration_s", "text", "heard_text", "tokens", "heard_tokens", "score")
        kinds = ("errors", "substitutions", "insertions", "deletions", "reference_length")
        table.writerow([*about, *(f"{score.name} {kind}" for score in scores for kind in kinds)])
        for place, (said, heard) in enumerate(zip(record.utterances, record.hypotheses, strict=True)):
            edits = [getattr(score.edits[place], kind) for score in scores for kind in kinds]
            tokens, heard_tokens = " ".join(said.tokens), " ".join(heard.tokens)
            texts = (said.text, heard.text, tokens, heard_tokens)
            table.writerow(
                [said.id, said.speaker, f"{said.duration_s:g}", *texts, f"{heard.score:.4f}", *edits]
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
    for place, (said, heard) in enumerate(zip(record.utterances, record.hypotheses, strict=True)):
        yield {
            "id": said.id,
            "audio": said.audio_path,
            "duration_s": said.duration_s,
            "speaker": said.speaker,
            "text": said.text,
            "tokens": said.tokens,
            "reference_log_prob": finite_or_none(record.reference_log_probs[place]),
            "heard": hypothesis_as_json(heard),
            "aligned": [(pair.reference, pair.hypothesis) for pair in align(said.tokens, heard.tokens)],
            "edits": {score.name: _edit_fields(score.edits[place]) for score in scores},
        }


def read_json(path: Path) -> EvaluationRecord:
    """What `write_json` wrote; rates are not read, for they follow from the rest.

    Raises:
        UserError: there is no such file, or it is no evaluation, or one of another schema, or damaged.
    """
    wanted = "expected the JSON file that `asr evaluate` writes beside its report"
    text = "\n".join(read_lines(path, "evaluation"))
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error}); {wanted}") from None
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        raise UserError(f"{path}: no evaluation; {wanted}")
    if read.get("schema") != SCHEMA:
        raise UserError(
            f"{path}: schema {read.get('schema')!r} of another version of Polyphone, expected {SCHEMA}; "
            "evaluate again with this version"
        )
    try:
        return _record_of(read)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}: {error}); evaluate again") from None


def _record_of(read: dict[str, Any]) -> EvaluationRecord:
    rows = read["utterances"]
    utterances = [
        Utterance(
            string(row["id"]),
            string(row["audio"]),
            float(row["duration_s"]),
            string(row["text"]),
            strings(row["tokens"]),
            string(row["speaker"]),
        )
        for row in rows
    ]
    hypotheses = [hypothesis_of_json(row["id"], row["heard"]) for row in rows]
    if not rows or len({utterance.id for utterance in utterances}) != len(rows):
        raise ValueError("no utterances, or one of them twice")
    decoder = dict(read["decoder"].items())
    log_probs = [log_prob(row["reference_log_prob"]) for row in rows]
    run, manifest = string(read["run"]), string(read["manifest"])
    return EvaluationRecord(run, manifest, decoder, utterances, hypotheses, log_probs)
