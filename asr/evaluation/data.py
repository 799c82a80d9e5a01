"""Loads a manifest for evaluation: leaves out unreadable recordings, and checks the labels."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr.base.errors import UserError
from asr.base.text.mixed import has_no_pieces, is_letter, mixed_words
from asr.base.text.pieces import UNITS_MODEL, text_of_pieces
from asr.base.text.units import MIN_SHARE, WORD_BOUNDARY, unit_of
from asr.base.text.wording import counted, listed
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress

if TYPE_CHECKING:
    from data_pipeline.batches.dataset import Dataset

logger = logging.getLogger(__name__)

MAX_LISTED = 3


def whole_set(manifest: Path, evaluated: Iterable[Utterance]) -> Iterable[Utterance]:
    """Return the utterances of a manifest, also those that cannot be read; those evaluated if it is gone."""
    from data_pipeline.manifests.manifest import read_manifest

    try:
        return read_manifest(manifest)
    except UserError:
        return evaluated


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
        UserError: no recording can be read, no utterance has a label, or the labels are of another unit than
            the model's.
    """
    from asr.model.runner import BATCH_S
    from data_pipeline.batches.dataset import Dataset
    from data_pipeline.doctor.quick import check_audio, log_left_out
    from data_pipeline.manifests.manifest import read_manifest

    utterances = read_manifest(manifest)
    if num_clips is not None and num_clips < len(utterances):
        utterances = utterances.take(np.arange(num_clips) * len(utterances) // num_clips)
    problems = check_audio(utterances, on_progress=on_progress, manifest=manifest)
    readable = [u for u, problem in zip(utterances, problems, strict=True) if not problem]
    log_left_out([problem for problem in problems if problem], len(utterances), str(manifest))
    if not readable:
        raise UserError(f"{manifest}: no recording can be read; the reasons are logged above")
    if not any(utterance.tokens for utterance in readable):
        raise UserError(f"{manifest}: expected labels to compare with, received no tokens; add labels")
    expect_model_labels([utterance.tokens for utterance in readable], vocabulary, str(manifest))
    unknown = [
        f"{u.id} ({u.audio_path})" for u in readable if any(token not in vocabulary for token in u.tokens)
    ]
    if unknown:
        logger.warning(
            "%s: %s with tokens outside the model's vocabulary, which count as errors: %s",
            manifest,
            counted(len(unknown), "utterance"),
            listed(unknown, MAX_LISTED),
        )
    return Dataset(readable, vocabulary, BATCH_S), len(utterances) - len(readable)


def expect_model_labels(labels: Sequence[Sequence[str]], vocabulary: Vocabulary, source: str) -> None:
    """Check that labels are of the model's unit, in its own pieces; a few may differ.

    Raises:
        UserError: they are of another unit, or of another model's pieces.
    """
    expect_unit([token for tokens in labels for token in tokens], vocabulary, source)
    expect_same_pieces(labels, vocabulary, source)


def expect_unit(tokens: Sequence[str], vocabulary: Vocabulary, source: str) -> None:
    """Check that labels are of the model's unit; a few tokens may be unknown to it.

    Args:
        tokens: of all labels.
        vocabulary: of the model.
        source: of the labels, for the error message.

    Raises:
        UserError: they are of another unit, or written in another way.
    """
    unknown = [token for token in tokens if token not in vocabulary]
    # without a spoken Latin word, mixed labels look like another unit
    is_same_unit = unit_of(tokens) == vocabulary.unit or (
        vocabulary.unit == "mixed" and has_no_pieces(tokens)
    )
    other_unit = not is_same_unit and len(unknown) > (1 - MIN_SHARE) * len(tokens)
    if tokens and (other_unit or len(unknown) == len(tokens)):
        raise UserError(
            f"{source}: expected labels as the model's, {vocabulary.unit} such as "
            f"{_examples(vocabulary.tokens[1:])}, received {_examples(unknown)}; "
            f"prepare this set with {_units_option(vocabulary)}"
        )


def expect_same_pieces(labels: Iterable[Sequence[str]], vocabulary: Vocabulary, source: str) -> None:
    """Check that the model of the vocabulary splits words as labels do; a few may be split by hand.

    Of mixed labels, these are the Latin words that are spoken. Other units, and pieces without their model,
    are not checked.

    Args:
        labels: tokens of each utterance.
        vocabulary: of the model.
        source: of the labels, for the error message.

    Raises:
        UserError: another model split most words.
    """
    pieces = vocabulary.pieces
    if pieces is None:
        return
    if vocabulary.unit == "mixed":
        labels = (word for tokens in labels for word in _latin_in_pieces(tokens))
    num_labels = num_other = 0
    first: Sequence[str] = ()
    for tokens in labels:
        num_labels += 1
        if pieces.encode(text_of_pieces(tokens)) != tuple(tokens):
            num_other += 1
            first = first or tokens
    if num_other > (1 - MIN_SHARE) * num_labels:
        own = pieces.encode(text_of_pieces(first))
        raise UserError(
            f"{source}: expected the pieces of this run, such as {' '.join(own[:MAX_LISTED])}, received "
            f"those of another model, {_examples(first)}; prepare it with "
            f"{_units_option(vocabulary)}"
        )


def _latin_in_pieces(tokens: Sequence[str]) -> list[Sequence[str]]:
    """Return the pieces of each Latin word of mixed labels that is spoken."""
    found = []
    for word in mixed_words(tokens):
        if word.is_latin and not is_letter(tokens[word.begin]):
            is_marked_before = word.begin > 0 and tokens[word.begin - 1] == WORD_BOUNDARY
            found.append(tokens[word.begin - is_marked_before : word.end])
    return found


def _units_option(vocabulary: Vocabulary) -> str:
    if not vocabulary.is_in_pieces:
        return f"`--units {vocabulary.unit}`"
    prefix = "mixed:" * (vocabulary.unit == "mixed")
    return f"`--units {prefix}FOLDER/{UNITS_MODEL}`, the folder being the run's or that of its training set"


def _examples(tokens: Sequence[str]) -> str:
    return " ".join(list(dict.fromkeys(tokens))[:MAX_LISTED])
