"""Convert hypotheses to JSON, for reports and journals, and back; non-finite numbers become null."""

from __future__ import annotations

import math
from typing import Any

from asr.base.types import Hypothesis

KEY = "heard"  # of a hypothesis in the files of evaluations and in journals


def hypothesis_as_json(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return a hypothesis as a JSON object, without the id of its utterance."""
    return {
        "text": hypothesis.text,
        "tokens": hypothesis.tokens,
        "score": finite_or_none(hypothesis.score),
        "acoustic_score": finite_or_none(hypothesis.acoustic_score),
        "times_s": hypothesis.times_s,
        "confidences": hypothesis.confidences,
        "alternatives": [hypothesis_as_json(alternative) for alternative in hypothesis.alternatives],
    }


def hypothesis_from_json(utterance_id: str, record: dict[str, Any]) -> Hypothesis:
    """Return the hypothesis of an object that `hypothesis_as_json` made; ignore other keys.

    Raises:
        KeyError, TypeError, ValueError: the object is damaged.
    """
    return Hypothesis(
        utterance_id,
        expect_texts(record["tokens"]),
        expect_text(record["text"]),
        log_prob_from_json(record["score"]),
        tuple(map(float, record["times_s"])),
        log_prob_from_json(record["acoustic_score"]),
        tuple(map(float, record["confidences"])),
        tuple(hypothesis_from_json(utterance_id, alternative) for alternative in record["alternatives"]),
    )


def finite_or_none(number: float) -> float | None:
    """Return a number for JSON, which has no infinity: None if it is not finite."""
    return number if math.isfinite(number) else None


def log_prob_from_json(value: float | None) -> float:
    """Return a log probability read from JSON, in which null is minus infinity."""
    return -math.inf if value is None else float(value)


def expect_text(value: object) -> str:
    """Return a value read from JSON as text.

    Raises:
        TypeError: it is not a string.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected text, received {value!r}")
    return value


def expect_texts(values: object) -> tuple[str, ...]:
    """Return a value read from JSON as a tuple of texts.

    Raises:
        TypeError: it is not a list of strings.
    """
    if not isinstance(values, list):
        raise TypeError(f"expected a list, received {values!r}")
    return tuple(map(expect_text, values))
