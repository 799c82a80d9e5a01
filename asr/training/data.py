"""Load the data of a configuration: prepare its corpus, make its vocabulary, select usable recordings."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr.base.config import Config, DataConfig
from asr.base.errors import UserError
from asr.base.system.storage.address import path_of, refuse_address
from asr.base.text.mixed import has_no_pieces, is_toned
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.text.pinyin import mandarin_syllables
from asr.base.text.units import unit_of
from asr.base.text.wording import counted
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.evaluation.data import expect_same_pieces
from asr.runs.run import Run

if TYPE_CHECKING:
    from asr.model.acoustic_model import AcousticModel
    from data_pipeline.batches.dataset import Dataset
    from data_pipeline.manifests.utterances import Utterances

logger = logging.getLogger(__name__)

LABEL_AGAIN = (
    "prepare the corpus again to label it by this version, and then make corrected, clean or packed "
    "manifests of it again"
)
TRAINING_TOKENS = ("auto", "train")  # values of data.vocabulary that ask for the training manifest's tokens


def with_manifests(config: Config, on_progress: OnProgress = ignore_progress) -> Config:
    """Return the configuration with a manifest for each split; its corpus is prepared if necessary.

    It is downloaded before if `data.download` asks for that.

    Raises:
        UserError: train or dev has no manifest, and the corpus does not contain it.
    """
    from data_pipeline.preparation.combined_corpora import parts_of, prepare_joint, weights_of
    from data_pipeline.preparation.description import labels_beside, version_lines
    from data_pipeline.preparation.downloaded_sources import download_sources
    from data_pipeline.types import SPLITS

    data = config.data
    given = {split: getattr(data, split) for split in SPLITS}
    missing = [split for split, path in given.items() if not path]
    named = [path_of(path) for path in given.values() if path]
    notes = [line for path in named for line in version_lines(path.parent, labels_beside(path), LABEL_AGAIN)]
    for note in dict.fromkeys(notes):
        logger.info("%s", note.strip())
    if missing and missing != ["test"] and not data.corpus:
        raise UserError(
            f"data.{missing[0]}: no manifest; set data.{missing[0]}=FILE.jsonl, or name a corpus in "
            "data.corpus"
        )
    if missing and data.corpus:
        refuse_address(path_of(data.prepared_dir), "data.prepared_dir")
        parts = parts_of(data.corpus, data.source)
        weights = weights_of(data.weights, [part.name for part in parts])
        if data.download:
            download_sources(parts, Path(data.prepared_dir), data.download, on_progress)
        joint = prepare_joint(
            parts,
            Path(data.prepared_dir),
            data.units or None,
            data.held_out_speakers,
            data.strings,
            on_progress,
        )
        for line in joint.lines(weights):
            logger.info("%s", line)
        for split in missing:
            if split not in joint.manifests and split == "test":
                continue
            if split not in joint.manifests:
                raise UserError(
                    f"{joint.folder}: has no {split} manifest; add that part of "
                    f"{data.corpus}, or set data.{split}=FILE.jsonl"
                )
            given[split] = str(joint.manifests[split])
        if "test" in missing and not data.more_tests:
            more = [name for name in joint.manifests if name.startswith("test_")]
            given["more_tests"] = ", ".join(str(joint.manifests[name]) for name in more)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **given))


def make_vocabulary(config: Config) -> Vocabulary:
    """Return the vocabulary that `data.vocabulary` asks for."""
    from asr.training.machine_labelled import training_utterances

    if config.data.vocabulary in TRAINING_TOKENS:
        manifest = path_of(config.data.train)
        columns = training_utterances(config, logging.DEBUG).columns  # `training_data` warns
        own = Vocabulary(sorted(columns.tokens_in_use()))
        _refuse_other_units(config.data, own)
        if is_labelled_in_pieces(manifest, own):
            return pieces_beside(manifest, own, config)
        return with_parent_tokens(own, config)
    if config.data.vocabulary == "mandarin":
        return Vocabulary(mandarin_syllables())
    return Vocabulary.load(path_of(config.data.vocabulary))


def _refuse_other_units(data: DataConfig, own: Vocabulary) -> None:
    """Raise a UserError where `data.units` are not those of a training manifest of the user's own.

    Any label may be a word, and a word may be a character.
    """
    is_wrong = {
        "syllables": own.unit != "syllables",
        "characters": own.unit not in ("characters", "words"),
    }
    if own.tokens[1:] and is_wrong.get(data.units):
        raise UserError(
            f'data.units={data.units}: the labels of {data.train} are {own.unit}; set data.units="", or '
            f"prepare the recordings with `--units {data.units}`"
        )


def is_labelled_in_pieces(manifest: Path, own: Vocabulary) -> bool:
    """Return whether the labels of a manifest are in pieces, or mixed.

    Mixed labels without a spoken Latin word have no piece, but the model of pieces is beside their manifest.
    """
    return own.is_in_pieces or (has_no_pieces(own.tokens) and (manifest.parent / UNITS_MODEL).exists())


def pieces_beside(manifest: Path, own: Vocabulary, config: Config) -> Vocabulary:
    """Return the vocabulary of all pieces by which a manifest is labelled, whether its text has them or not.

    Of mixed labels, it also has all letters, the syllables of the text and those of the run that training
    starts from.

    Args:
        manifest: of the training set.
        own: its tokens.
        config: names the other run.

    Raises:
        UserError: their model is not beside the manifest, or the other run cannot be read.
    """
    path = manifest.parent / UNITS_MODEL
    if not path.exists():
        raise UserError(
            f"{manifest}: its labels are pieces, but {UNITS_MODEL} is not beside it; copy it from the folder "
            "that `asr prepare` wrote"
        )
    pieces = Pieces.load(path)
    if not own.is_in_pieces:
        logger.info(
            "%s: no label is a piece, but %s is beside it, so the vocabulary has its %s pieces, too (mixed "
            "units); move it away to train on the labels' own tokens alone",
            manifest,
            UNITS_MODEL,
            f"{len(pieces.tokens):,}",
        )
    syllables = set(filter(is_toned, own.tokens)) if own.unit != "pieces" else set()
    if syllables and config.train.init_from and config.data.vocabulary == "auto":
        syllables.update(filter(is_toned, Run.open(config.train.init_from).vocabulary().tokens))
    return Vocabulary.of_pieces(pieces, syllables)


def with_parent_tokens(vocabulary: Vocabulary, config: Config) -> Vocabulary:
    """Return all tokens of the run that training starts from, and those of a vocabulary that are new.

    Keeping the tokens of the other run keeps what it learned. They are left out if there is no such run, if
    `data.vocabulary` is "train", or if they are of another unit. Pieces of another model would split words
    otherwise, so that they are left out as well.

    Raises:
        UserError: the other run cannot be read.
    """
    if not config.train.init_from or config.data.vocabulary != "auto" or vocabulary.is_in_pieces:
        return vocabulary
    parent = Run.open(config.train.init_from).vocabulary()
    if unit_of(parent.tokens) != unit_of(vocabulary.tokens):
        return vocabulary
    both = Vocabulary(dict.fromkeys([*parent.tokens[1:], *vocabulary.tokens[1:]]))
    logger.info(
        "vocabulary: all %s tokens of %s and %s new ones",
        f"{len(parent) - 1:,}",
        config.train.init_from,
        f"{len(both) - len(parent):,}",
    )
    return both


def training_data(
    config: Config,
    vocabulary: Vocabulary,
    model: AcousticModel,
    on_progress: OnProgress = ignore_progress,
    worker: int = 0,
    num_workers: int = 1,
) -> tuple[Dataset, list[str]]:
    """Return the usable utterances of the training manifests, and why the others were left out (also logged).

    Args:
        config: names the manifests.
        vocabulary: of the model.
        model: decides which labels fit their audio.
        on_progress: receives the number of recordings checked.
        worker: of the processes that train together, the index of this one; they share the check.
        num_workers: the number of these processes.

    Raises:
        UserError: no utterance can be trained on, or other pieces are asked for of labels without pieces.
    """
    from asr.training.machine_labelled import log_machine_labelled, training_utterances
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.augment.piece_sampling import PieceSampler
    from data_pipeline.batches.dataset import Dataset
    from data_pipeline.doctor.quick import CheckedShare, check_utterances, log_left_out

    piece_sampler = PieceSampler.of(config.augment, vocabulary)
    augmenter = Augmenter.load(config.augment, config.train.seed, on_progress=on_progress)
    manifest = path_of(config.data.train)
    utterances = training_utterances(config)
    log_machine_labelled(config, utterances)
    by_machine = utterances.take(np.flatnonzero(utterances.columns.by_machine))
    expect_same_pieces((one.tokens for one in by_machine), vocabulary, config.data.machine_labelled)
    weights = corpus_weights(config, utterances)
    sound, problems = check_utterances(
        utterances,
        vocabulary,
        model.fits,
        on_progress=on_progress,
        manifest=manifest,
        share=CheckedShare(worker, num_workers),
    )
    log_left_out(problems, len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no utterance can be used for training; the reasons are above")
    batch_s, label_weight = config.train.batch_clips_s, config.train.label_weight
    data = Dataset(sound, vocabulary, batch_s, augmenter, weights, label_weight, piece_sampler)
    return data, problems


def corpus_weights(config: Config, utterances: Utterances) -> dict[str, float]:
    """Return how often an epoch has the clips of each corpus that `data.weights` names.

    Raises:
        UserError: see `weights_of`.
    """
    from data_pipeline.preparation.combined_corpora import weights_of

    return weights_of(config.data.weights, list(filter(None, utterances.columns.corpora_in_use())))


def warn_of_shared_sentences(train: Sequence[Utterance], others: Mapping[str, Sequence[Utterance]]) -> None:
    """Log which sets contain sentences of the training set: their error rates are too optimistic.

    Args:
        train: the training set.
        others: dev and test, by manifest.
    """
    from data_pipeline.doctor.quick import shared_sentences

    for manifest, utterances in others.items():
        if count := shared_sentences(train, utterances):
            logger.warning(
                "%s: sentences that are in the training set too: those of %s of %s, so the error rate is "
                "too optimistic; `asr doctor` lists them",
                manifest,
                f"{count:,}",
                counted(len(utterances), "utterance"),
            )
