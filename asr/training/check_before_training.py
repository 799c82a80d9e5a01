"""Run every check of manifests, recordings and labels that is possible before training.

diagnosis = examine(load_config("demo"), [Path("train.jsonl"), Path("test.jsonl")])
print(diagnosis.counts())
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr.base.cluster import Cluster
from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.system.shards import shards_of
from asr.base.system.storage.address import path_of
from asr.base.text.pinyin import mandarin_syllables
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.ctc.forced_alignment import frames_needed
from asr.model.features import make_features
from asr.model.networks import make_network
from asr.training.data import (
    TRAINING_TOKENS,
    is_labelled_in_pieces,
    pieces_beside,
    with_parent_tokens,
)
from data_pipeline.augment.piece_sampling import PieceSampler
from data_pipeline.doctor.contents import Contents, read_contents
from data_pipeline.doctor.diagnosis import Diagnosis, check_entries, diagnose
from data_pipeline.doctor.findings import CheckedManifest, Finding, sources_to_examine
from data_pipeline.doctor.label_checks import LabelRules, load_vocabulary, vocabulary_of
from data_pipeline.manifests.columns import Columns


def examine(
    config: Config,
    manifests: Sequence[Path] = (),
    *,
    config_name: str = "",
    check_batches: bool = True,
    on_progress: OnProgress = ignore_progress,
    cluster: Cluster | None = None,
) -> Diagnosis:
    """Return everything that is wrong with manifests, their recordings and their labels.

    Args:
        config: labels are checked against its vocabulary, model and batch size.
        manifests: to examine; empty for those of the configuration.
        config_name: name of the configuration in the report.
        check_batches: whether utterances longer than `train.batch_s` are reported.
        on_progress: receives how many recordings are decoded.
        cluster: decodes the recordings; None for the cores of this machine.

    Raises:
        UserError: there is no manifest, one is given twice, or `augment.piece_sampling` is set for labels
            that are not pieces; broken manifests are findings, not errors.
    """
    contents = read_contents(sources_to_examine(manifests, config.data))
    vocabulary, findings = _vocabulary(contents, config)
    if vocabulary is not None:
        PieceSampler.of(config.augment, vocabulary)
    rules = _label_rules(config, vocabulary, config_name, check_batches)
    checkups = check_entries(contents.entries, on_progress=on_progress, cluster=cluster)
    return diagnose(contents, checkups, rules, findings)


def _vocabulary(contents: Contents, config: Config) -> tuple[Vocabulary | None, list[Finding]]:
    """Return the vocabulary that training would use (None if it cannot be read), and findings about it."""
    if config.data.vocabulary == "mandarin":
        return Vocabulary(mandarin_syllables()), []
    if config.data.vocabulary not in TRAINING_TOKENS:
        return load_vocabulary(path_of(config.data.vocabulary))
    sources, columns = _training_columns(contents)
    if not len(columns) and config.data.train:
        shards = [CheckedManifest(shard, "train") for shard in shards_of(path_of(config.data.train))]
        sources, columns = _training_columns(read_contents(shards))
    vocabulary, findings = vocabulary_of(columns)
    if vocabulary is not None and is_labelled_in_pieces(sources[0].path, vocabulary):
        try:
            return pieces_beside(sources[0].path, vocabulary, config), findings
        except UserError as error:
            return vocabulary, [*findings, Finding("broken-vocabulary", str(error))]
    return vocabulary and with_parent_tokens(vocabulary, config), findings


def _training_columns(contents: Contents) -> tuple[list[CheckedManifest], Columns]:
    """Return the training manifests that have utterances, and the columns of these."""
    entries = contents.entries
    sources = [one for one in contents.sources if one.role == "train" and entries.of_source(one)]
    return sources, entries.columns_of(sources)


def _label_rules(
    config: Config, vocabulary: Vocabulary | None, config_name: str, check_batches: bool
) -> LabelRules:
    """Return the rules for labels; the network's own formula gives the number of frames."""
    features = make_features(config.features)
    network = make_network(config.model, Vocabulary([]))  # its weights are never created
    name = f" of the configuration {config_name!r}" if config_name else ""
    return LabelRules(
        vocabulary,
        frames_needed,
        lambda num_samples: network.num_output_frames(features.num_frames(num_samples)),
        f"the {config.model.title} model{name}",
        config.train.batch_s if check_batches else None,
    )
