"""A manifest as data to evaluate on: what can be read of it, and what its labels hold."""

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
    manifest: Path, vocabulary: Vocabulary, on_progress: OnProgress = ignore_progress
) -> tuple[Dataset, int]:
    """Return what can be read of a manifest, and how many recordings cannot.

    What is left out is logged with its reason. Labels that the model does not know count as errors.

    Raises:
        UserError: nothing can be read, or nothing has labels.
    """
    from asr.model.listener import BATCH_S
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor.quick import check_audio, log_left_out
    from data_pipeline.manifest import read_manifest

    utterances = read_manifest(manifest)
    problems = check_audio(utterances, on_progress=on_progress)
    sound = [u for u, problem in zip(utterances, problems, strict=True) if not problem]
    log_left_out([problem for problem in problems if problem], len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no recording can be read; the reasons are above")
    if not any(utterance.tokens for utterance in sound):
        raise UserError(f"{manifest}: no utterance has tokens to compare with; add labels")
    unknown = [u.id for u in sound if any(token not in vocabulary for token in u.tokens)]
    if unknown:
        logger.warning(
            "%s: %d utterances hold tokens that the model cannot write, which count as errors: %s",
            manifest,
            len(unknown),
            listed(unknown, MAX_LISTED),
        )
    return Dataset(sound, vocabulary, BATCH_S), len(utterances) - len(sound)
