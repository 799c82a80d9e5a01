"""Whether a text is that of a recording: where a model hears something else than it was told."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asr.base.wording import listed
from asr.recognition.alignment.time_formats import TimedToken
from asr.recognition.decoding.forced_alignment import TokenAlignment

NEIGHBOURS = 5  # tokens, over which posteriors are averaged: one alone may be mumbled
LEAST_LOG_PROB = math.log(0.05)
TOKENS_MISSED = 2.0  # that a model hears between two tokens of the text
QUIET_SHARE = 0.5
TOLD_PLACES = 8
TOLD_TOKENS = 8


def misfits(
    tokens: Sequence[TimedToken],
    alignment: TokenAlignment,
    blank_log_probs: npt.NDArray[np.float32],
    frame_s: float,
    quiet: npt.NDArray[np.bool_],
) -> list[str]:
    """What to tell a user of the places where text and recording differ; nothing where they agree.

    Args:
        tokens: U of them.
        alignment: of them.
        blank_log_probs: (T,) natural logarithm of the blank's posterior.
        frame_s: seconds from one frame to the next.
        quiet: as `asr.recognition.alignment.intervals.quiet_steps` finds it.
    """
    unheard = _unheard(alignment.log_probs)
    if unheard.mean() > 0.5:
        mean = float(np.exp(alignment.log_probs.mean()))
        return [
            f"the model does not hear this text: its tokens have a mean posterior of {mean:.2g}; "
            "is it the text of this recording, and the model of this language?"
        ]
    places = []
    for begin, end in _runs(unheard):
        said = _shortened([token.text.strip() or token.token for token in tokens[begin:end]])
        span = _span(tokens[begin].start_s, tokens[end - 1].end_s)
        places.append((tokens[begin].start_s, f"{span}: not heard as the text has it: {said}"))
    for begin, end in _untold(alignment, blank_log_probs):
        span = _span(begin * frame_s, end * frame_s)
        places.append((begin * frame_s, f"{span}: more is said than the text has"))
    told = [message for _, message in sorted(places)]
    told = listed(told, TOLD_PLACES, separator="\n").splitlines()
    steps = np.minimum((alignment.starts * frame_s / 0.01).astype(int), len(quiet) - 1)
    if len(tokens) >= NEIGHBOURS and quiet[steps].mean() > QUIET_SHARE:
        told.append(
            f"{quiet[steps].mean():.0%} of the tokens were found in pauses: this model hears what is said, "
            "but not when, as one does that was trained on single words; train on sentences"
        )
    return told


def _unheard(log_probs: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """(U,) tokens whose neighbourhood has hardly any posterior."""
    width = min(NEIGHBOURS, len(log_probs))
    padded = np.pad(log_probs.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    means = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    unheard: npt.NDArray[np.bool_] = means < LEAST_LOG_PROB
    return unheard


def _untold(alignment: TokenAlignment, blank_log_probs: npt.NDArray[np.float32]) -> list[tuple[int, int]]:
    """Stretches of frames between tokens in which the model hears several others."""
    heard = 1.0 - np.exp(blank_log_probs.astype(np.float64))
    begins = np.concatenate([[0], alignment.ends + 1])  # a token may be heard in the frame after it, too
    ends = np.concatenate([alignment.starts - 1, [len(heard)]])
    sums = np.concatenate([[0.0], np.cumsum(heard)])
    gaps = [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True) if end > begin]
    return [(begin, end) for begin, end in gaps if sums[end] - sums[begin] >= TOKENS_MISSED]


def _runs(marks: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.diff(np.concatenate([[False], marks, [False]]).astype(np.int8))
    return list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))


def _shortened(words: Sequence[str]) -> str:
    rest = f" ... ({len(words)} tokens)" if len(words) > TOLD_TOKENS else ""
    return " ".join(words[:TOLD_TOKENS]) + rest


def _span(start_s: float, end_s: float) -> str:
    return f"{start_s:.2f} to {end_s:.2f} s"
