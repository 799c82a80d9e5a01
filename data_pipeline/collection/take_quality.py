"""Judge takes. A first version, which helper `quality` replaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data_pipeline.collection.prompts import Prompt


@dataclass(frozen=True)
class TakeProblem:
    """A reason to record a sentence again."""

    kind: str
    detail: str = ""


@dataclass(frozen=True)
class TakeQuality:
    """Where to cut a take, and what is wrong with it."""

    start: int
    end: int
    problems: tuple[TakeProblem, ...]
    level_dbfs: float
    snr_db: float


def judge_take(samples: npt.NDArray[np.int16], sample_rate_hz: int, prompt: Prompt) -> TakeQuality:
    """Return the judgement of a take, (S,) samples."""
    peak = int(np.abs(samples.astype(np.int32)).max(initial=0))
    problems = (TakeProblem("silent"),) if peak < 100 else ()
    return TakeQuality(0, len(samples), problems, 0.0, 0.0)
