"""Read the recordings that a model has labelled, to train on them together with those that people have.

Recordings of the other sets are left out: those of `train` have better labels there, and those of `dev`,
`test` and `more_tests` must stay unknown to the model.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from asr.audio.recording import PIECE
from asr.base.config import Config, DataConfig
from asr.base.errors import UserError
from asr.base.system.storage.address import path_of
from asr.base.text.mixed import begins_word
from asr.base.text.units import MIN_SHARE, unit_of
from asr.base.text.wording import counted, duration
from asr.base.types import Utterance
from data_pipeline.manifests.columns import added_in_order, utterance_keys
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.manifests.utterances import Utterances, UtterancesById

logger = logging.getLogger(__name__)


def training_utterances(config: Config, level: int = logging.WARNING) -> Utterances:
    """Return the utterances of `data.train`, and after them those of `data.machine_labelled`.

    Args:
        config: names the manifests.
        level: at which it is logged how many are left out.

    Raises:
        UserError: a manifest cannot be read, two have the same id, or their labels are of different units.
    """
    own = read_manifest(path_of(config.data.train))
    others = list(_machine_labelled(config.data, own, level)) if config.data.machine_labelled else []
    return own.followed_by(others) if others else own


def log_machine_labelled(config: Config, utterances: Utterances) -> None:
    """Log how much of the training set a model has labelled, and how it is weighed."""
    columns = utterances.columns
    if num_labelled := int(columns.by_machine.sum()):
        seconds = added_in_order(columns.durations_s[columns.by_machine])
        weight = config.train.label_weight
        logger.info(
            "labelled by a model: %s (%s) of %s%s",
            counted(num_labelled, "utterance"),
            duration(seconds),
            f"{len(utterances):,}",
            f", whose loss counts {weight:g} times (train.label_weight)" if weight != 1 else "",
        )


def _machine_labelled(data: DataConfig, own: Utterances, level: int) -> Iterator[Utterances]:
    splits = _splits_of_people(data, own)
    known = utterance_keys(os.path.realpath(one.audio_path) for one in itertools.chain(*splits.values()))
    _warn_of_packs(splits, level)
    counts = own.columns.token_counts()
    parts = {data.train: own}
    for path in data.machine_labelled_manifests:
        name, rows = str(path), read_manifest(path)
        _expect_unit(rows.columns.token_counts(), counts, name, data.train)
        kept = rows.take(np.flatnonzero(~np.isin(utterance_keys(map(_source_of, rows)), known)))
        if len(kept) < len(rows):
            logger.log(
                level,
                "%s: %s of %s left out, whose recordings are in train, dev or test",
                name,
                f"{len(rows) - len(kept):,}",
                counted(len(rows), "utterance"),
            )
        _refuse_known_ids(kept, parts, name)
        parts[name] = kept
        yield kept


def _refuse_known_ids(rows: Utterances, parts: Mapping[str, Utterances], name: str) -> None:
    """Raise a UserError for the first utterance of a manifest whose id is in an earlier one."""
    keys = rows.columns.keys
    shared = {where: np.isin(keys, part.columns.keys) for where, part in parts.items()}
    for index in np.flatnonzero(np.any(list(shared.values()), axis=0)).tolist():
        for where, part in parts.items():
            if shared[where][index] and UtterancesById(part).find(rows[index].id) is not None:
                raise UserError(
                    f"data.machine_labelled: {name}: id {rows[index].id!r} is in {where}, too; name only the "
                    "manifest of the latest round, or give each recording a unique id"
                )


def _expect_unit(counts: Counter[str], own: Counter[str], name: str, train: str) -> None:
    """Raise a UserError where labels are of another unit than the training set's.

    Mixed labels without a spoken Latin word look like other units: they are syllables and spelt letters.
    """
    units, found = unit_of(own), unit_of(counts)
    if found == units:
        return
    num_unknown = sum(
        count
        for token, count in counts.items()
        if token not in own and not (units == "mixed" and begins_word(token))
    )
    if num_unknown > (1 - MIN_SHARE) * counts.total():
        raise UserError(
            f"data.machine_labelled: {name}: expected labels as in {train}, {units}, received "
            f"{found}; label with a run that was trained on {units}"
        )


def _splits_of_people(data: DataConfig, train: Utterances) -> dict[Path, Utterances]:
    """Return the sets with labels of people by their manifests."""
    single = [path_of(path) for path in (data.dev, data.test) if path]
    splits = {path_of(data.train): train}
    for path in (*single, *data.more_test_manifests):
        if path not in splits:
            splits[path] = read_manifest(path)
    return splits


def _warn_of_packs(splits: Mapping[Path, Utterances], level: int) -> None:
    """Warn of splits in packs, which do not say where their recordings were when a model labelled them."""
    packed = [str(path) for path, rows in splits.items() if PIECE.fullmatch(rows[0].audio_path)]
    if packed:
        logger.log(
            level,
            "data.machine_labelled: %s: in packs; recordings that were labelled before they were packed are "
            "not known to be the same; name the manifests from before `asr pack` for dev and test",
            ", ".join(packed),
        )


def _source_of(utterance: Utterance) -> str:
    """Return the path of the recording that an utterance is from."""
    label = utterance.labelled_by
    return os.path.realpath(label.source if label and label.source else utterance.audio_path)
