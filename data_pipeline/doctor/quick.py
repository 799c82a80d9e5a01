"""Runs the doctor's quick checks before training: for data that would stop it, or bias its result.

`data_pipeline/doctor/diagnosis.py` also decodes all recordings and compares them: `asr doctor`.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from asr.audio.recording import (
    PIECE,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    audio_header,
    read_audio,
    refuse_missing_piece,
    refuse_pipe,
)
from asr.base.errors import UserError
from asr.base.system.storage.address import is_address
from asr.base.system.storage.refusals import StorageError
from asr.base.text.wording import counted, listed
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.doctor.checked_files import CheckedFiles, CheckedRecording, checked_files, file_state
from data_pipeline.manifests.utterances import is_remote, some_of
from data_pipeline.text.sentences import sentence_key
from data_pipeline.work import Threads, in_parallel

logger = logging.getLogger(__name__)

DURATION_TOLERANCE_S = 0.05
LONGEST_S = 300  # longer recordings fit neither a batch nor the memory of a device
NUM_REASONS = 10
PARTS_OF_A_SHARE = 8  # after each of which the other processes are shown what was found


class CheckedShare(NamedTuple):
    """One of several processes that check the same utterances."""

    worker: int
    num_workers: int


ALONE = CheckedShare(0, 1)


def check_utterances(
    utterances: Sequence[Utterance],
    vocabulary: Vocabulary,
    fits: Callable[[int, list[int]], bool],
    on_progress: OnProgress = ignore_progress,
    manifest: Path | None = None,
    share: CheckedShare = ALONE,
) -> tuple[Sequence[Utterance], list[str]]:
    """Split utterances into those that can be trained on and those that cannot.

    Args:
        utterances: utterances of one manifest.
        vocabulary: vocabulary of the model.
        fits: returns whether a number of samples gives the model enough frames for these labels.
        on_progress: receives the number of recordings checked.
        manifest: path of the manifest, beside which sound recordings are remembered; None to check all.
        share: what this process checks before it reads what the others have found.

    Returns:
        The usable utterances in their order, and a message about each of the others: id, file,
        reason, remedy.
    """
    sound = array("q")
    problems: list[str] = []
    checks = _check_all(utterances, on_progress, manifest, share)
    for index, (utterance, checked) in enumerate(zip(utterances, checks, strict=True)):
        reason = checked.problem or _label_problem(utterance, checked.num_samples, vocabulary, fits)
        if reason:
            problems.append(_named(utterance, reason))
        else:
            sound.append(index)
    return some_of(utterances, sound) if problems else utterances, problems


def check_audio(
    utterances: Sequence[Utterance], on_progress: OnProgress = ignore_progress, manifest: Path | None = None
) -> list[str]:
    """Return a message about what is wrong with each utterance's audio, "" if nothing is.

    Args:
        utterances: utterances of one manifest.
        on_progress: receives the number of recordings checked.
        manifest: path of the manifest, beside which sound recordings are remembered; None to check all.
    """
    checks = _check_all(utterances, on_progress, manifest)
    return [
        checked.problem and _named(utterance, checked.problem)
        for utterance, checked in zip(utterances, checks, strict=True)
    ]


def _named(utterance: Utterance, problem: str) -> str:
    """Return a problem that begins with the file's name with the utterance's id before it."""
    return f"{utterance.id}: {problem}"


def is_too_short(duration_s: float) -> bool:
    """Return whether a recording has no window of features."""
    return round(duration_s * SAMPLE_RATE_HZ) < WINDOW_SAMPLES


def shared_sentences(train: Sequence[Utterance], other: Sequence[Utterance]) -> int:
    """Return the number of utterances of another set whose sentence is in the training set."""
    asked = collections.Counter(sentence_key(utterance.text, utterance.tokens) for utterance in other)
    shared = asked.keys() & (sentence_key(utterance.text, utterance.tokens) for utterance in train)
    return sum(asked[sentence] for sentence in shared)


def log_left_out(problems: Sequence[str], num_in_all: int, where: str) -> None:
    """Log the number of recordings left out and the first reasons, if there are any."""
    if problems:
        reasons = listed(problems, NUM_REASONS, separator="\n  ")
        total = counted(num_in_all, "recording")
        logger.warning("%s: %d of %s left out:\n  %s", where, len(problems), total, reasons)


@dataclass(frozen=True, slots=True)
class _Checked:
    """What is wrong with a recording's audio, or its length at the model's rate."""

    problem: str
    num_samples: int = 0
    unstated: str = ""  # the container, if a missing end would not be noticed


def _check_all(
    utterances: Sequence[Utterance],
    on_progress: OnProgress,
    manifest: Path | None,
    share: CheckedShare = ALONE,
) -> Iterator[_Checked]:
    """Yield the result of each recording's check; log once which containers hide a missing end."""
    if manifest is not None and share.num_workers > 1:
        _check_with_others(utterances, on_progress, manifest, share)
    unstated: collections.Counter[str] = collections.Counter()
    with checked_files(manifest) as files:
        check = functools.partial(_check, files=files)
        workers = Threads(waits=is_remote(utterances))
        for checked in in_parallel(
            check, utterances, "checking audio", on_progress=on_progress, workers=workers
        ):
            unstated.update([checked.unstated] * bool(checked.unstated))
            yield checked
    for container, number in unstated.items():
        logger.warning(
            "%s without a stated length, so that a missing end is not noticed",
            counted(number, f"{container} recording"),
        )


def _check_with_others(
    utterances: Sequence[Utterance], on_progress: OnProgress, manifest: Path, share: CheckedShare
) -> None:
    """Check the recordings that no process has checked, each process beginning with its own share.

    What a process finds is beside the manifest after each part of a share, and read by the others before
    their next one. Where they have no disk in common, each process checks everything.
    """
    num_parts, num_done = share.num_workers * PARTS_OF_A_SHARE, 0

    def report(work: Work) -> None:
        on_progress(dataclasses.replace(work, done=num_done + work.done, total=len(utterances)))

    for turn in range(num_parts):
        index = (share.worker * PARTS_OF_A_SHARE + turn) % num_parts
        first, last = (len(utterances) * one // num_parts for one in (index, index + 1))
        with checked_files(manifest) as files:
            if len(files) >= len(utterances):
                return
            check = functools.partial(_check, files=files)
            some = utterances[first:last]
            workers = Threads(waits=is_remote(some))
            for _ in in_parallel(check, some, "checking audio", on_progress=report, workers=workers):
                pass
        num_done += last - first


def _check(utterance: Utterance, files: CheckedFiles) -> _Checked:
    path = utterance.audio_path
    if is_address(path) and PIECE.fullmatch(path):
        return _check_packed(utterance)
    found = files.find(path)
    if found is None:
        before = file_state(path)
        try:
            refuse_pipe(path)
            header = audio_header(path)
            if header.needs_decoding:
                read_audio(path)
        except StorageError:
            raise
        except UserError as error:
            return _Checked(str(error))
        found = CheckedRecording(header.duration_s, "" if header.length_is_stated else header.container)
        files.add(path, before, found)
    return _checked_duration(utterance, found)


def _check_packed(utterance: Utterance) -> _Checked:
    """Check that a pack in object storage contains a recording, which was decoded before it was packed."""
    try:
        refuse_missing_piece(utterance.audio_path)
    except StorageError:
        raise
    except UserError as error:
        return _Checked(str(error))
    return _checked_duration(utterance, CheckedRecording(utterance.duration_s))


def _checked_duration(utterance: Utterance, found: CheckedRecording) -> _Checked:
    path, duration_s = utterance.audio_path, found.duration_s
    if is_too_short(duration_s):
        length = f"{duration_s * 1000:.1f} ms long"
        return _Checked(f"{path}: {length}, expected at least one window of 25 ms; leave it out")
    if duration_s > LONGEST_S:
        length = f"{duration_s / 60:.0f} min long"
        return _Checked(f"{path}: {length}, expected one utterance of at most {LONGEST_S} s; cut it")
    if abs(duration_s - utterance.duration_s) > DURATION_TOLERANCE_S:
        return _Checked(
            f"{path}: {duration_s:.2f} s long, the manifest says {utterance.duration_s:.2f} s; "
            "correct the manifest"
        )
    return _Checked("", round(duration_s * SAMPLE_RATE_HZ), found.unstated)


def _label_problem(
    utterance: Utterance, num_samples: int, vocabulary: Vocabulary, fits: Callable[[int, list[int]], bool]
) -> str:
    if not utterance.tokens:
        return f"{utterance.audio_path}: no label; add tokens or leave it out"
    try:
        labels = vocabulary.encode(utterance.tokens)
    except UserError as error:
        return f"{utterance.audio_path}: {error}; correct the label or extend the vocabulary"
    if not fits(num_samples, labels):
        return (
            f"{utterance.audio_path}: {counted(len(labels), 'label')}, too many for the model's frames of "
            f"{utterance.duration_s:.2f} s of audio; check that the label belongs to this recording"
        )
    return ""
