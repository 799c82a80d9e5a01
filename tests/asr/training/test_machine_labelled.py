import dataclasses
import logging

import pytest

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.base.text.pieces import UNITS_MODEL, Pieces, learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.types import MachineLabel
from asr.cli.main import main
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.run import Run
from asr.training.data import make_vocabulary, training_data
from asr.training.machine_labelled import training_utterances
from data_pipeline.batches.pack import pack_manifest
from data_pipeline.manifests.manifest import read_manifest, write_manifest

LABEL = MachineLabel("runs/a", "epoch-0001", "0.1.0", "2026-11-26", 0.95, "")


@pytest.fixture
def sets(clips, tmp_path):
    """Return settings of two clips with a text, two to test on, and all of them as labelled by a model."""
    write_manifest(tmp_path / "train.jsonl", clips[:2])
    write_manifest(tmp_path / "dev.jsonl", clips[2:4])
    by_model = [
        dataclasses.replace(
            clip,
            id=f"by-model-{clip.id}",
            labelled_by=dataclasses.replace(LABEL, source=clip.audio_path),
        )
        for clip in clips
    ]
    write_manifest(tmp_path / "labelled.jsonl", by_model)
    settings = {"train": "train", "dev": "dev", "test": "dev", "machine_labelled": "labelled"}
    return [f"data.{key}={tmp_path / name}.jsonl" for key, name in settings.items()]


def test_recordings_of_train_dev_and_test_are_left_out(clip_config, sets, clips, caplog):
    config = load_config(clip_config, sets)
    found = training_utterances(config)
    assert [u.id for u in found] == [c.id for c in clips[:2]] + [f"by-model-{c.id}" for c in clips[4:]]
    assert "4 of 12 utterances left out, whose recordings are in train, dev or test" in caplog.text


def test_a_segment_of_a_test_recording_is_left_out_though_its_file_is_another(
    clip_config, sets, clips, tmp_path
):
    segment = dataclasses.replace(
        clips[9], id="part", labelled_by=dataclasses.replace(LABEL, source=clips[2].audio_path, begin_s=0.5)
    )
    write_manifest(tmp_path / "labelled.jsonl", [segment])
    assert len(training_utterances(load_config(clip_config, sets))) == 2


def test_recordings_of_further_tests_are_left_out(clip_config, sets, clips, tmp_path):
    for name, some in (("one", clips[4:6]), ("two", clips[6:8])):
        write_manifest(tmp_path / f"{name}.jsonl", some)
    more = f"data.more_tests={tmp_path / 'one.jsonl'}, {tmp_path / 'two.jsonl'}"
    found = training_utterances(load_config(clip_config, [*sets, more]))
    assert [u.id for u in found] == [c.id for c in clips[:2]] + [f"by-model-{c.id}" for c in clips[8:]]


def test_packs_whose_recordings_cannot_be_left_out_are_named(clip_config, sets, tmp_path, caplog):
    training_utterances(load_config(clip_config, sets))
    assert "in packs" not in caplog.text
    packed = pack_manifest(tmp_path / "dev.jsonl", tmp_path / "packed").manifest
    found = training_utterances(
        load_config(clip_config, [*sets, f"data.dev={packed}", f"data.test={packed}"])
    )
    assert len(found) == 12
    assert f"data.machine_labelled: {packed}: in packs" in caplog.text


def test_tokens_of_both_are_in_the_vocabulary(clip_config, sets, clips):
    vocabulary = make_vocabulary(load_config(clip_config, sets))
    assert set(vocabulary.tokens[1:]) == {t for clip in [*clips[:2], *clips[4:]] for t in clip.tokens}


def test_units_that_the_labels_do_not_have_are_refused(clip_config):
    assert make_vocabulary(load_config(clip_config, ["data.units=syllables"])).unit == "syllables"
    with pytest.raises(UserError, match=r"data\.units=characters: the labels of .* are syllables"):
        make_vocabulary(load_config(clip_config, ["data.units=characters"]))


def test_labels_of_another_unit_are_refused(clip_config, sets, clips, tmp_path):
    by_characters = [dataclasses.replace(clip, tokens=tuple(clip.text)) for clip in clips[4:]]
    write_manifest(tmp_path / "labelled.jsonl", by_characters)
    with pytest.raises(
        UserError, match=r"machine_labelled: .*syllables, received characters; label with a run"
    ):
        training_utterances(load_config(clip_config, sets))


@pytest.fixture
def mixed_sets(clips, tmp_path):
    """Return settings of sets with mixed labels; the set that a model has labelled is still to be written."""
    model = learn_pieces(["iphone", "ok wifi"], LearnedUnits("mixed", 40))
    model.save(tmp_path / UNITS_MODEL)
    rows = [dataclasses.replace(clip, tokens=("da3", "kai1", *model.encode("iphone wifi"))) for clip in clips]
    write_manifest(tmp_path / "train.jsonl", rows[:4])
    settings = {"train": "train", "dev": "train", "test": "train", "machine_labelled": "labelled"}
    return [f"data.{key}={tmp_path / name}.jsonl" for key, name in settings.items()]


def write_labelled(clips, path, tokens):
    rows = [dataclasses.replace(clip, tokens=tuple(tokens), labelled_by=LABEL) for clip in clips]
    write_manifest(path, rows)


def test_mixed_labels_by_the_pieces_of_the_run_are_trained_on_and_those_of_another_model_are_not(
    clip_config, mixed_sets, clips, tmp_path
):
    config = load_config(clip_config, mixed_sets)
    pieces = Pieces.load(tmp_path / UNITS_MODEL)
    label = ["ni3", *"CCTV", *pieces.encode("wifi"), "hao3"]
    write_labelled(clips[4:], tmp_path / "labelled.jsonl", label)
    vocabulary = make_vocabulary(config)
    model = make_acoustic_model(config, vocabulary)
    assert len(training_data(config, vocabulary, model)[0].utterances) == len(clips)
    write_labelled(clips[4:], tmp_path / "labelled.jsonl", ["ni3", "▁wi", "fi", "hao3"])
    with pytest.raises(UserError, match=r"labelled.jsonl: expected the pieces of this run, such as .*mixed:"):
        training_data(config, vocabulary, model)


@pytest.mark.parametrize("tokens", [["ni3", "hao3"], ["kan4", "C", "C", "T", "V"], ["B", "A"]])
def test_mixed_labels_need_no_spoken_latin_word(tokens, clip_config, mixed_sets, clips, tmp_path):
    write_labelled(clips[4:], tmp_path / "labelled.jsonl", tokens)
    assert len(training_utterances(load_config(clip_config, mixed_sets))) == len(clips)


def test_units_model_beside_plain_syllables_is_logged(clip_config, mixed_sets, clips, tmp_path, caplog):
    config = load_config(clip_config, [*mixed_sets[:3], "data.vocabulary=train"])
    with caplog.at_level("INFO"):
        assert make_vocabulary(config).unit == "mixed"
    assert "units.model is beside it" not in caplog.text
    write_manifest(tmp_path / "train.jsonl", [dataclasses.replace(clip, tokens=("da3",)) for clip in clips])
    with caplog.at_level("INFO"):
        assert make_vocabulary(config).unit == "mixed"
    assert "no label is a piece, but units.model is beside it" in caplog.text


def test_characters_among_mixed_labels_are_refused(clip_config, mixed_sets, clips, tmp_path):
    write_labelled(clips[4:], tmp_path / "labelled.jsonl", "你好")
    with pytest.raises(UserError, match=r"machine_labelled: .*, mixed, received characters; label with"):
        training_utterances(load_config(clip_config, mixed_sets))


def test_two_rounds_of_the_same_recordings_are_refused(clip_config, sets, tmp_path):
    both = f"data.machine_labelled={tmp_path / 'labelled.jsonl'}, {tmp_path / 'again.jsonl'}"
    write_manifest(tmp_path / "again.jsonl", read_manifest(tmp_path / "labelled.jsonl"))
    with pytest.raises(UserError, match=r"again.jsonl: id .* is in .*labelled.jsonl, too; name only the"):
        training_utterances(load_config(clip_config, [*sets[:3], both]))


@pytest.mark.slow
def test_one_command_trains_on_both_with_a_weight_and_resumes(clip_config, sets, clips, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    settings = [*sets, "train.label_weight=0.5", "train.epochs=1", f"train.runs_dir={tmp_path}"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", str(clip_config), "--name", "both", *words]) == 0
    assert "labelled by a model: 8 utterances" in caplog.text
    assert "whose loss counts 0.5 times" in caplog.text
    assert caplog.text.count("4 of 12 utterances left out") == 1
    run = Run.open(tmp_path / "both")
    assert sum(run.token_counts().values()) == sum(len(clip.tokens) for clip in [*clips[:2], *clips[4:]])
    assert main(["train", str(tmp_path / "both"), "--resume", "--set", "train.epochs=2"]) == 0
    assert len(run.metrics()) == 2
