"""Checks whether a text fits a recording, and finds the places where the model recognizes something else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asr.audio.voice_activity import stretches
from asr.base.text.wording import listed
from asr.ctc.forced_alignment import TokenAlignment
from asr.transcription.transcript import Word

NEIGHBOURS = 5  # tokens over which posteriors are averaged: a single one may be mumbled
MIN_LOG_PROB = math.log(0.05)
MIN_EXTRA_TOKENS = 2.0  # expected number of tokens between two tokens of the text, to be reported
QUIET_SHARE = 0.5
MAX_PLACES = 8
MAX_TOKENS = 8


def misfits(
    words: Sequence[Word],
    alignment: TokenAlignment,
    blank_log_probs: npt.NDArray[np.float32],
    frame_s: float,
    quiet: npt.NDArray[np.bool_],
) -> list[str]:
    """Describe the places where text and recording differ; return an empty list if they agree.

    Args:
        words: of the text, one for each of its U tokens.
        alignment: of the tokens.
        blank_log_probs: (T,) natural logarithm of the blank's posterior.
        frame_s: seconds from one frame to the next.
        quiet: as `asr.transcription.alignment.intervals.quiet_steps` finds it.
    """
    improbable = _improbable(alignment.log_probs)
    if improbable.mean() > 0.5:
        mean = float(np.exp(alignment.log_probs.mean()))
        return [
            f"text and recording do not match: the tokens have a mean probability of {mean:.2g}; "
            "check that the text belongs to this recording, and that the model is of this language"
        ]
    places = []
    for begin, end in stretches(improbable):
        said = " ".join([word.text.strip() or word.spoken for word in words[begin:end]][:MAX_TOKENS])
        if end - begin > MAX_TOKENS:
            said += f" ... ({end - begin} tokens)"
        span = _span(words[begin].start_s, words[end - 1].end_s)
        places.append((words[begin].start_s, f"{span}: the recording does not match the text: {said}"))
    for begin, end in _extra_speech(alignment, blank_log_probs):
        span = _span(begin * frame_s, end * frame_s)
        places.append((begin * frame_s, f"{span}: speech that is not in the text"))
    messages = [message for _, message in sorted(places)]
    messages = listed(messages, MAX_PLACES, separator="\n").splitlines()
    steps = np.minimum((alignment.starts * frame_s / 0.01).astype(int), len(quiet) - 1)
    if len(words) >= NEIGHBOURS and quiet[steps].mean() > QUIET_SHARE:
        messages.append(
            f"{quiet[steps].mean():.0%} of the tokens were found in pauses: the model recognizes what is "
            "said, but not when, like a model trained on single words; train on sentences"
        )
    return messages


def _improbable(log_probs: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return (U,) whether each token's neighbourhood has a low mean posterior."""
    width = min(NEIGHBOURS, len(log_probs))
    padded = np.pad(log_probs.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    means = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    improbable: npt.NDArray[np.bool_] = means < MIN_LOG_PROB
    return improbable


def _extra_speech(
    alignment: TokenAlignment, blank_log_probs: npt.NDArray[np.float32]
) -> list[tuple[int, int]]:
    """Return the stretches of frames between tokens in which the model recognizes several other tokens."""
    not_blank = 1.0 - np.exp(blank_log_probs.astype(np.float64))
    begins = np.concatenate([[0], alignment.ends + 1])  # a token's posterior may spill into the next frame
    ends = np.concatenate([alignment.starts - 1, [len(not_blank)]])
    sums = np.concatenate([[0.0], np.cumsum(not_blank)])
    gaps = [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True) if end > begin]
    return [(begin, end) for begin, end in gaps if sums[end] - sums[begin] >= MIN_EXTRA_TOKENS]


def _span(start_s: float, end_s: float) -> str:
    return f"{start_s:.2f} to {end_s:.2f} s"
