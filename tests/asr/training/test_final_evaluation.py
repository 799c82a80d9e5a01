"""A trained run is decoded with the language model that it asks for, and evaluated on all its test sets."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from asr import load_config, resume, train
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.base.work import ignore_progress
from asr.evaluation.scores import read_json
from asr.language.ngram.folder import fusion_model
from asr.runs.run import Run
from asr.training.final_evaluation import refuse_final_files, train_run_language_model
from data_pipeline.manifests.manifest import read_manifest, write_manifest


@pytest.fixture(scope="module")
def folder(clip_config, clips, tmp_path_factory):
    """Return a folder with further test sets of two and one clips."""
    folder = tmp_path_factory.mktemp("final")
    write_manifest(folder / "far.jsonl", clips[4:6])
    write_manifest(folder / "near.jsonl", clips[6:7])
    return folder


@pytest.fixture(scope="module")
def settings(clip_config, folder):
    """Return what makes a configuration of the clips with some of its settings replaced."""

    def settings(*changes):
        return load_config(clip_config, ["train.epochs=1", f"train.runs_dir={folder}/runs", *changes])

    return settings


@pytest.fixture(scope="module")
def trained(settings, folder):
    more = f"data.more_tests={folder}/far.jsonl, {folder}/near.jsonl"
    return train(settings(more, "decode.language_model=train"), name="with-lm")


def test_run_is_decoded_with_a_model_of_its_training_text(trained):
    run = trained.run
    chosen = run.decoder_settings()
    assert chosen.beam == 16
    assert Path(chosen.language_model) == (run.directory / "lm").resolve()
    assert trained.evaluation.record.decoder["language_model"] == chosen.language_model
    info = (run.directory / "lm" / "info.json").read_text(encoding="utf-8")
    assert run.config().data.train in info


def test_further_test_sets_have_reports_of_their_own(trained):
    assert [len(other.evaluation.record.utterances) for other in trained.more] == [2, 1]
    for other, name in zip(trained.more, ("far", "near"), strict=True):
        assert other.files.page.exists()
        assert other.files.page.name.endswith(f"{name}-beam16-lm.html")
        assert read_json(other.files.record).decoder["beam"] == 16
    assert trained.files.page == trained.run.report_path


def test_resumed_run_keeps_its_language_model(trained):
    model = trained.run.directory / "lm" / "syllables.klm"
    before = model.stat().st_mtime_ns
    again = resume(trained.run.directory)
    assert model.stat().st_mtime_ns == before
    assert [str(other.files.page) for other in again.more] == [str(o.files.page) for o in trained.more]


def test_language_model_of_ones_own_is_checked_before_training(trained, settings, folder):
    own = shutil.copytree(trained.run.directory / "lm", folder / "own")
    (own / "syllables.klm").unlink()
    with pytest.raises(UserError, match=r"own: expected syllables\.klm"):
        train(settings(f"decode.language_model={own}"), name="own")
    assert not (folder / "runs" / "own").exists()


def test_text_that_no_language_model_is_made_of_is_an_error_before_training(settings, folder, clips):
    english = [dataclasses.replace(clip, text="go", tokens=("go", "on")) for clip in clips]
    write_manifest(folder / "english.jsonl", english)
    sets = [f"data.{split}={folder}/english.jsonl" for split in ("train", "dev", "test")]
    with pytest.raises(UserError, match=r"decode\.language_model: .*received words such as.*bpe:500"):
        train(settings(*sets, "decode.language_model=train"), name="english")
    assert not (folder / "runs" / "english").exists()


def test_new_run_whose_text_makes_no_language_model_leaves_nothing_behind(tmp_path):
    vocabulary, run = Vocabulary(["ni3", "hao3"]), Run(tmp_path / "run")
    config = load_config("demo", [f"data.train={tmp_path}/train.jsonl", "decode.language_model=train"])
    silent = Utterance("a", "a.wav", 1.0, "", ("ni3", "hao3"))
    write_manifest(tmp_path / "train.jsonl", [silent])
    with pytest.raises(UserError, match="hanzi"):
        train_run_language_model(run, config, vocabulary, ignore_progress)
    assert not run.directory.exists()
    write_manifest(tmp_path / "train.jsonl", [dataclasses.replace(silent, text="你好")])
    train_run_language_model(run, config, vocabulary, ignore_progress)
    fusion_model(run.directory / "lm", vocabulary)


def test_run_is_not_made_where_its_text_makes_no_language_model(settings, folder, clips):
    write_manifest(folder / "silent.jsonl", [dataclasses.replace(clip, text="") for clip in clips])
    with pytest.raises(UserError, match="hanzi"):
        train(settings(f"data.train={folder}/silent.jsonl", "decode.language_model=train"), name="silent")
    assert not (folder / "runs" / "silent").exists()


def test_further_test_sets_whose_reports_would_be_one_file_are_refused(tmp_path):
    paths = [tmp_path / name / "set" / "test.jsonl" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("")
    refuse_final_files(load_config("demo", [f"data.more_tests={paths[0]}"]))
    with pytest.raises(UserError, match=r"a/set/test\.jsonl and .*b/set/test\.jsonl would be one file"):
        refuse_final_files(load_config("demo", [f"data.more_tests={paths[0]}, {paths[1]}"]))


@pytest.mark.parametrize("key", ["decode.language_model", "data.more_tests"])
def test_missing_file_is_refused_before_a_corpus_is_prepared(key, tmp_path):
    with pytest.raises(UserError, match=rf"{key}: expected .*gone, which does not exist"):
        refuse_final_files(load_config("demo", [f"{key}={tmp_path}/gone"]))


def test_further_test_set_may_be_one_that_preparation_makes(tmp_path):
    settings = [f"data.prepared_dir={tmp_path}", f"data.more_tests={tmp_path}/thchs30/test_far.jsonl"]
    refuse_final_files(load_config("demo", ["data.corpus=thchs30", *settings]))


def test_manifest_of_a_further_test_set_is_read_before_training(settings, folder):
    assert len(read_manifest(folder / "far.jsonl")) == 2
    with pytest.raises(UserError, match=r"gone\.jsonl"):
        train(settings(f"data.more_tests={folder}/gone.jsonl"), name="gone")
    assert not (folder / "runs" / "gone").exists()
