"""Measures how many tokens are wrong in recordings of low and of high mean confidence.

    python -m benchmarks.accuracy.confidence RUN...

Each run's report.json has the transcripts of its test set, greedy unless a decoder was tuned. Below the first
limit `asr transcribe` warns.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asr.evaluation.errors.metrics import align
from asr.evaluation.scores import read_json
from asr.transcription.transcript import DOUBTFUL
from benchmarks.common import show


class Rated(NamedTuple):
    """A recording: the mean confidence of its tokens, and how many of them are wrong, of how many."""

    confidence: float
    num_wrong: int
    num_tokens: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    for run in parser.parse_args().runs:
        record = read_json(run / "report.json")
        rated = [
            Rated(
                float(np.mean(found.confidences)),
                sum(pair.edit != "equal" for pair in align(said.tokens, found.tokens)),
                len(said.tokens),
            )
            for said, found in zip(record.utterances, record.hypotheses, strict=True)
            if said.tokens and found.confidences
        ]
        limits = {"all": (0.0, 1.0), "warned of": (0.0, DOUBTFUL), "others": (DOUBTFUL, 1.0)}
        limits |= {f"{low / 10:g} to {(low + 1) / 10:g}": (low / 10, (low + 1) / 10) for low in range(10)}
        rows = {name: _row(rated, low, high) for name, (low, high) in limits.items()}
        show(f"{run}: tokens wrong by mean confidence, beam {record.decoder['beam']}", rows)


def _row(rated: list[Rated], low: float, high: float) -> str:
    some = [one for one in rated if low <= one.confidence < high or one.confidence == high == 1.0]
    wrong = sum(one.num_wrong for one in some) / max(1, sum(one.num_tokens for one in some))
    return f"{len(some):6,} recordings, {wrong:6.1%} wrong"


if __name__ == "__main__":
    main()
