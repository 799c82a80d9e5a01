"""Load the data of a configuration: prepare its corpus, make its vocabulary, select usable recordings."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.config import Config
from asr.base.pinyin import mandarin_syllables
from asr.base.types import UserError, Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress

if TYPE_CHECKING:
    from asr.model.acoustic_model import AcousticModel
    from data_pipeline.dataset import Dataset

logger = logging.getLogger(__name__)


def with_manifests(config: Config, on_progress: OnProgress = ignore_progress) -> Config:
    """Return the configuration with a manifest for each split; its corpus is prepared if necessary.

    Raises:
        UserError: a split has no manifest, and the corpus does not contain it.
    """
    from data_pipeline.prepare import prepare_corpus
    from data_pipeline.types import SPLITS

    given = {split: getattr(config.data, split) for split in SPLITS}
    missing = [split for split, path in given.items() if not path]
    if missing and not config.data.corpus:
        raise UserError(
            f"data.{missing[0]}: no manifest; set data.{missing[0]}=FILE.jsonl, or name a corpus in "
            "data.corpus"
        )
    if missing:
        target = Path(config.data.prepared_dir) / config.data.corpus
        corpus, source = config.data.corpus, config.data.source
        prepared = prepare_corpus(corpus, source, target, config.data.units or None, on_progress=on_progress)
        for line in prepared.lines():
            logger.info("%s", line)
        for split in missing:
            if split not in prepared.manifests:
                raise UserError(
                    f"{target}: has no {split} manifest; add that part of {config.data.corpus}, or set "
                    f"data.{split}=FILE.jsonl"
                )
            given[split] = str(prepared.manifests[split])
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **given))


def make_vocabulary(config: Config) -> Vocabulary:
    """Return the vocabulary that `data.vocabulary` asks for."""
    from data_pipeline.manifest import read_manifest

    if config.data.vocabulary == "train":
        return Vocabulary.of_utterances(read_manifest(Path(config.data.train)))
    if config.data.vocabulary == "mandarin":
        return Vocabulary(mandarin_syllables())
    return Vocabulary.load(Path(config.data.vocabulary))


def training_data(
    config: Config, vocabulary: Vocabulary, model: AcousticModel, on_progress: OnProgress = ignore_progress
) -> tuple[Dataset, list[str]]:
    """Return the usable utterances of the training manifest, and why the others were left out (also logged).

    Raises:
        UserError: no utterance can be trained on.
    """
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor.quick import check_utterances, log_left_out
    from data_pipeline.manifest import read_manifest

    augmenter = Augmenter.load(config.augment, config.train.seed, on_progress=on_progress)
    manifest = Path(config.data.train)
    utterances = read_manifest(manifest)
    sound, problems = check_utterances(
        utterances, vocabulary, model.fits, on_progress=on_progress, manifest=manifest
    )
    log_left_out(problems, len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no utterance can be used for training; the reasons are above")
    return Dataset(sound, vocabulary, config.train.batch_s, augmenter), problems


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
                "%s: the sentences of %s of %s utterances are in the training set too, so the error rate is "
                "too optimistic; `asr doctor` lists them",
                manifest,
                f"{count:,}",
                f"{len(utterances):,}",
            )
