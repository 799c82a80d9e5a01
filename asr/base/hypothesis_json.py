"""A hypothesis as JSON, in reports and in journals, and back; numbers that are not finite are null there."""

from __future__ import annotations

import math
from typing import Any

from asr.base.types import Hypothesis


def hypothesis_as_json(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return all of a hypothesis but the utterance it is of, to be written as a JSON object."""
    return {
        "text": hypothesis.text,
        "tokens": hypothesis.tokens,
        "score": finite_or_none(hypothesis.score),
        "acoustic_score": finite_or_none(hypothesis.acoustic_score),
        "times_s": hypothesis.times_s,
        "confidences": hypothesis.confidences,
        "alternatives": [hypothesis_as_json(alternative) for alternative in hypothesis.alternatives],
    }


def hypothesis_of_json(utterance_id: str, record: dict[str, Any]) -> Hypothesis:
    """Return the hypothesis of an object that `hypothesis_as_json` made; other keys are left aside.

    Raises:
        KeyError, TypeError, ValueError: it is damaged.
    """
    return Hypothesis(
        utterance_id,
        strings(record["tokens"]),
        string(record["text"]),
        log_prob(record["score"]),
        tuple(map(float, record["times_s"])),
        log_prob(record["acoustic_score"]),
        tuple(map(float, record["confidences"])),
        tuple(hypothesis_of_json(utterance_id, alternative) for alternative in record["alternatives"]),
    )


def finite_or_none(number: float) -> float | None:
    """Return a number as JSON has it, which knows no infinity."""
    return number if math.isfinite(number) else None


def log_prob(value: float | None) -> float:
    """Return a log probability that was read; null is that of the impossible."""
    return -math.inf if value is None else float(value)


def string(value: object) -> str:
    """Return a text that was read.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected text, received {value!r}")
    return value


def strings(values: object) -> tuple[str, ...]:
    """Return a list of texts that was read.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(values, list):
        raise TypeError(f"expected a list, received {values!r}")
    return tuple(map(string, values))
