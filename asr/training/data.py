"""What a configuration trains on: its corpus prepared, its vocabulary, the recordings that can be used."""

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
    """Return the configuration with a manifest for each split; its corpus is prepared if need be.

    Raises:
        UserError: a split has neither a manifest nor a corpus that holds it.
    """
    from data_pipeline.prepare import prepare_corpus
    from data_pipeline.types import SPLITS

    given = {split: getattr(config.data, split) for split in SPLITS}
    missing = [split for split, path in given.items() if not path]
    if missing and not config.data.corpus:
        raise UserError(
            f"data.{missing[0]}: no manifest; set data.{missing[0]}=FILE.jsonl, or a corpus by data.corpus"
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
                    f"{target}: nothing is there for {split}; bring that part of {config.data.corpus}, or "
                    f"set data.{split}=FILE.jsonl"
                )
            given[split] = str(prepared.manifests[split])
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **given))


def make_vocabulary(config: Config) -> Vocabulary:
    """Return the output units that `data.vocabulary` asks for."""
    from data_pipeline.manifest import read_manifest

    if config.data.vocabulary == "train":
        return Vocabulary.of_utterances(read_manifest(Path(config.data.train)))
    if config.data.vocabulary == "mandarin":
        return Vocabulary(mandarin_syllables())
    return Vocabulary.load(Path(config.data.vocabulary))


def training_data(
    config: Config, vocabulary: Vocabulary, model: AcousticModel, on_progress: OnProgress = ignore_progress
) -> tuple[Dataset, list[str]]:
    """Return what can be trained on of the training manifest, and why the rest cannot, which is logged.

    Raises:
        UserError: nothing can be trained on.
    """
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor.quick import check_utterances, log_left_out
    from data_pipeline.manifest import read_manifest

    augmenter = Augmenter.load(config.augment, config.train.seed, on_progress=on_progress)
    manifest = Path(config.data.train)
    utterances = read_manifest(manifest)
    sound, problems = check_utterances(utterances, vocabulary, model.fits, on_progress=on_progress)
    log_left_out(problems, len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no utterance can be trained on; the reasons are above")
    return Dataset(sound, vocabulary, config.train.batch_s, augmenter), problems


def warn_of_shared_sentences(train: Sequence[Utterance], others: Mapping[str, Sequence[Utterance]]) -> None:
    """Log which sets hold sentences of the training set: their error rates flatter.

    Args:
        train: the training set.
        others: dev and test, by manifest.
    """
    from data_pipeline.doctor.quick import shared_sentences

    for manifest, utterances in others.items():
        if count := shared_sentences(train, utterances):
            logger.warning(
                "%s: %s of %s utterances are sentences of the training set, so that their error rate "
                "flatters; `asr doctor` names them",
                manifest,
                f"{count:,}",
                f"{len(utterances):,}",
            )
