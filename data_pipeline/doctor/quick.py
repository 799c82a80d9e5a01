"""The quick part of the doctor, before every training: what would end it, or flatter its result.

`data_pipeline/doctor/diagnosis.py` listens to the recordings as well and compares them: `asr doctor`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tqdm import tqdm

from asr.audio import SAMPLE_RATE_HZ, WINDOW_SAMPLES, audio_header, read_audio
from asr.types import UserError, Utterance
from asr.vocabulary import Vocabulary

DURATION_TOLERANCE_S = 0.05
NUM_REASONS = 10


def check_utterances(
    utterances: Sequence[Utterance],
    vocabulary: Vocabulary,
    fits: Callable[[int, list[int]], bool],
    *,
    decode: bool = True,
) -> tuple[list[Utterance], list[str]]:
    """Part what can be trained on from what cannot.

    Args:
        utterances: of one manifest.
        vocabulary: of the model.
        fits: whether so many samples give the model frames enough for these labels.
        decode: see `check_audio`.

    Returns:
        The sound ones in their order, and what is wrong with each of the others: file, reason, remedy.
    """
    audio_problems = check_audio(utterances, decode=decode)
    sound: list[Utterance] = []
    problems: list[str] = []
    for utterance, audio_problem in zip(utterances, audio_problems, strict=True):
        reason = audio_problem or _label_problem(utterance, vocabulary, fits)
        if reason:
            problems.append(reason)
        else:
            sound.append(utterance)
    return sound, problems


def check_audio(utterances: Sequence[Utterance], *, decode: bool = True) -> list[str]:
    """What is wrong with each utterance's audio; empty where nothing is.

    Args:
        utterances: of one manifest.
        decode: whether to decode other containers than WAV, whose headers do not tell that they are sound;
            else damage in the middle of one shows when it is trained on.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = pool.map(functools.partial(_audio_problem, decode=decode), utterances)
        return list(tqdm(problems, "checking audio", len(utterances), unit=" clips", leave=False, delay=2))


def shared_sentences(train: Sequence[Utterance], other: Sequence[Utterance]) -> int:
    """How many utterances of another set say what one in the training set says."""
    known = {_sentence(utterance) for utterance in train}
    return sum(_sentence(utterance) in known for utterance in other)


def _sentence(utterance: Utterance) -> str:
    return "".join(utterance.text.split()) or " ".join(utterance.tokens)


def tell_left_out(reasons: Sequence[str], num_in_all: int, where: str) -> None:
    """Say how many recordings are left out, and why the first ones are."""
    if not reasons:
        return
    print(f"{where}: {len(reasons)} of {num_in_all} recordings left out:")
    for reason in reasons[:NUM_REASONS]:
        print(f"  {reason}")
    if len(reasons) > NUM_REASONS:
        print(f"  ... and {len(reasons) - NUM_REASONS} more")


def _audio_problem(utterance: Utterance, decode: bool) -> str:
    path = utterance.audio_path
    try:
        header = audio_header(path)
        if decode and header.container != "WAV":
            read_audio(path)
    except UserError as error:
        return str(error)
    duration_s = header.duration_s
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
