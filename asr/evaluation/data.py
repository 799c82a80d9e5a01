"""Loads a manifest for evaluation: leaves out unreadable recordings, and checks the labels."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError
from asr.base.vocabulary import Vocabulary
from asr.base.wording import listed
from asr.base.work import OnProgress, ignore_progress

if TYPE_CHECKING:
    from data_pipeline.dataset import Dataset

logger = logging.getLogger(__name__)

MAX_LISTED = 3


def evaluation_data(
    manifest: Path,
    vocabulary: Vocabulary,
    on_progress: OnProgress = ignore_progress,
    num_clips: int | None = None,
) -> tuple[Dataset, int]:
    """Return the readable part of a manifest, and the number of recordings that cannot be read.

    Recordings that are left out are logged with the reason. Tokens unknown to the model count as errors.

    Args:
        manifest: path of the manifest.
        vocabulary: of the model.
        on_progress: receives how many recordings have been checked.
        num_clips: number of utterances, evenly spread over the manifest; None for all.

    Raises:
        UserError: no recording can be read, or no utterance has a label.
    """
    from asr.model.listening import BATCH_S
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor.quick import check_audio, log_left_out
    from data_pipeline.manifest import read_manifest

    utterances = read_manifest(manifest)
    if num_clips is not None and num_clips < len(utterances):
        utterances = [utterances[place * len(utterances) // num_clips] for place in range(num_clips)]
    problems = check_audio(utterances, on_progress=on_progress, manifest=manifest)
    readable = [u for u, problem in zip(utterances, problems, strict=True) if not problem]
    log_left_out([problem for problem in problems if problem], len(utterances), str(manifest))
    if not readable:
        raise UserError(f"{manifest}: no recording can be read; the reasons are logged above")
    if not any(utterance.tokens for utterance in readable):
        raise UserError(f"{manifest}: expected labels to compare with, received no tokens; add labels")
    unknown = [u.id for u in readable if any(token not in vocabulary for token in u.tokens)]
    if unknown:
        logger.warning(
            "%s: %d utterances contain tokens outside the model's vocabulary, which count as errors: %s",
            manifest,
            len(unknown),
            listed(unknown, MAX_LISTED),
        )
    return Dataset(readable, vocabulary, BATCH_S), len(utterances) - len(readable)
