import dataclasses
import json

import pytest
from helpers.corpora.defects import SmallCorpus

from asr.base.config import Config
from asr.base.errors import UserError
from asr.training.check_before_training import examine


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus").mkdir()
    return SmallCorpus(tmp_path / "corpus")


def test_one_call_examines_manifests_and_reports_its_progress(corpus):
    corpus.audio(2).unlink()
    reports = []
    diagnosis = examine(Config(), corpus.save(), config_name="mine", on_progress=reports.append)
    assert list(diagnosis.by_kind()) == ["missing-audio"]
    assert diagnosis.model.endswith("model of the configuration 'mine'")
    assert reports[-1].is_done
    assert reports[-1].task == "decoding"


def test_configured_manifests_are_examined_by_default(corpus):
    train, *_ = corpus.save()
    config = Config()
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, train=str(train)))
    assert [source.path for source in examine(config).contents.sources] == [train]


def test_manifests_that_a_model_has_labelled_are_examined_with_those_of_a_configuration(corpus, tmp_path):
    train, *_ = corpus.save()
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_text(json.dumps({"id": "m", "audio": "gone.wav", "duration_s": 1.0, "tokens": "zhong1"}))
    data = dataclasses.replace(Config().data, train=str(train), machine_labelled=f"{labelled},")
    diagnosis = examine(dataclasses.replace(Config(), data=data))
    assert [(one.path, one.role) for one in diagnosis.contents.sources] == [
        (train, "train"),
        (labelled, "train"),
    ]
    (missing,) = diagnosis.by_kind()["missing-audio"]
    assert missing.source.path == labelled
    assert [
        one.path for one in examine(dataclasses.replace(Config(), data=data), [train]).contents.sources
    ] == [train]


def test_piece_sampling_of_labels_that_are_not_pieces_is_refused_as_in_training(corpus):
    augment = dataclasses.replace(Config().augment, piece_sampling=0.1)
    with pytest.raises(UserError, match=r"augment\.piece_sampling: 0\.1 .* but the labels are syllables"):
        examine(dataclasses.replace(Config(), augment=augment), corpus.save())


def test_examining_without_any_manifest_is_an_error():
    with pytest.raises(UserError, match="no manifest to examine"):
        examine(Config())


def test_utterances_longer_than_a_batch_are_found_unless_batches_are_not_checked(corpus):
    config = Config()
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, batch_s=1.0))
    assert "longer-than-batch" in examine(config, corpus.paths).by_kind()
    assert "longer-than-batch" not in examine(config, corpus.paths, check_batches=False).by_kind()
