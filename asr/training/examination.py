"""Every check of manifests, recordings and labels that can be made before the first step.

diagnosis = examine(load_config("demo"), [Path("train.jsonl"), Path("test.jsonl")])
print(diagnosis.counts())
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr.base.config import Config
from asr.base.pinyin import mandarin_syllables
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.model.features import make_features
from asr.model.loss import frames_needed
from asr.model.networks import make_network
from data_pipeline.doctor.diagnosis import Contents, Diagnosis, diagnose, listen_to_entries, read_contents
from data_pipeline.doctor.findings import Finding, Source, sources_to_examine
from data_pipeline.doctor.label_checks import LabelRules, load_vocabulary, vocabulary_of


def examine(
    config: Config,
    manifests: Sequence[Path] = (),
    *,
    config_name: str = "",
    check_batches: bool = True,
    on_progress: OnProgress = ignore_progress,
) -> Diagnosis:
    """Return everything that is wrong with manifests, their recordings and their labels.

    Args:
        config: whose vocabulary, model and batches the labels are checked against.
        manifests: to examine; those of the configuration where none is named.
        config_name: what people call the configuration.
        check_batches: whether utterances longer than `train.batch_s` are found.
        on_progress: receives how many recordings are decoded.

    Raises:
        UserError: there is no manifest, or one is named twice; broken ones are findings.
    """
    contents = read_contents(sources_to_examine(manifests, config.data))
    vocabulary, findings = _vocabulary(contents, config)
    rules = _label_rules(config, vocabulary, config_name, check_batches)
    heard = listen_to_entries(contents.entries, on_progress=on_progress)
    return diagnose(contents, heard, rules, findings)


def _vocabulary(contents: Contents, config: Config) -> tuple[Vocabulary | None, list[Finding]]:
    """Return the vocabulary that training would use, as far as it can be known."""
    if config.data.vocabulary == "mandarin":
        return Vocabulary(mandarin_syllables()), []
    if config.data.vocabulary != "train":
        return load_vocabulary(Path(config.data.vocabulary))
    entries = [entry for entry in contents.entries if entry.source.role == "train"]
    if not entries and config.data.train:
        entries = list(read_contents([Source(Path(config.data.train), "train")]).entries)
    return vocabulary_of(entries)


def _label_rules(
    config: Config, vocabulary: Vocabulary | None, config_name: str, check_batches: bool
) -> LabelRules:
    """Return what labels are checked against; the model itself says how many frames it gives."""
    features = make_features(config.features)
    network = make_network(config.model, Vocabulary([]))  # its weights are never made
    size = f" {config.model.size}" if config.model.family == "separable" else ""
    name = f" of the configuration {config_name!r}" if config_name else ""
    return LabelRules(
        vocabulary,
        frames_needed,
        lambda num_samples: network.num_output_frames(features.num_frames(num_samples)),
        f"the {config.model.family}{size} model{name}",
        config.train.batch_s if check_batches else None,
    )
