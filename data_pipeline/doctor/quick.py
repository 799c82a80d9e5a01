"""The quick part of the doctor, before every training: what headers and labels alone can tell.

`data_pipeline/doctor/diagnosis.py` listens to the recordings as well and compares them: `asr doctor`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asr.audio import SAMPLE_RATE_HZ, WINDOW_SAMPLES, audio_duration_s
from asr.types import UserError, Utterance
from asr.vocabulary import Vocabulary

DURATION_TOLERANCE_S = 0.05
NUM_REASONS = 10


def check_utterances(
    utterances: Sequence[Utterance],
    vocabulary: Vocabulary,
    fits: Callable[[int, list[int]], bool],
) -> tuple[list[Utterance], list[str]]:
    """Part what can be trained on from what cannot, by headers and labels alone.

    Args:
        utterances: of one manifest.
        vocabulary: of the model.
        fits: whether so many samples give the model frames enough for these labels.

    Returns:
        The sound ones in their order, and what is wrong with each of the others: file, reason, remedy.
    """
    audio_problems = check_audio(utterances)
    sound: list[Utterance] = []
    problems: list[str] = []
    for utterance, audio_problem in zip(utterances, audio_problems, strict=True):
        reason = audio_problem or _label_problem(utterance, vocabulary, fits)
        if reason:
            problems.append(reason)
        else:
            sound.append(utterance)
    return sound, problems


def check_audio(utterances: Sequence[Utterance]) -> list[str]:
    """What is wrong with each utterance's audio by its header; empty where nothing is."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(_audio_problem, utterances))


def tell_left_out(reasons: Sequence[str], num_in_all: int, where: str) -> None:
    """Say how many recordings are left out, and why the first ones are."""
    if not reasons:
        return
    print(f"{where}: {len(reasons)} of {num_in_all} recordings left out:")
    for reason in reasons[:NUM_REASONS]:
        print(f"  {reason}")
    if len(reasons) > NUM_REASONS:
        print(f"  ... and {len(reasons) - NUM_REASONS} more")


def _audio_problem(utterance: Utterance) -> str:
    path = Path(utterance.audio_path)
    try:
        duration_s = audio_duration_s(path)
    except UserError as error:
        return str(error)
    if duration_s * SAMPLE_RATE_HZ < WINDOW_SAMPLES:
        return f"{path}: {duration_s * 1000:.1f} ms long, expected at least one window of 25 ms; leave it out"
    if abs(duration_s - utterance.duration_s) > DURATION_TOLERANCE_S:
        return (
            f"{path}: {duration_s:.2f} s long, the manifest says {utterance.duration_s:.2f} s; "
            "correct the manifest"
        )
    return ""


def _label_problem(
    utterance: Utterance, vocabulary: Vocabulary, fits: Callable[[int, list[int]], bool]
) -> str:
    if not utterance.tokens:
        return f"{utterance.audio_path}: no label; give it tokens or leave it out"
    try:
        labels = vocabulary.encode(utterance.tokens)
    except UserError as error:
        return f"{utterance.audio_path}: {error}; correct the label or extend the vocabulary"
    if not fits(round(utterance.duration_s * SAMPLE_RATE_HZ), labels):
        return (
            f"{utterance.audio_path}: {len(labels)} labels do not fit the model's frames of "
            f"{utterance.duration_s:.2f} s; is it the right label for this recording?"
        )
    return ""
