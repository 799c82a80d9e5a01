"""A run that starts from the weights of another evaluates them first, and never ends worse on dev."""

import shutil

import numpy as np
import pytest

from asr import evaluate, load_config, resume, train
from asr.base.errors import UserError
from asr.runs.checkpoint import read_checkpoint, write_checkpoint
from asr.runs.listing import summarize
from asr.runs.run import Run

LEARNED = [
    "train.epochs=20",
    "train.learning_rate=0.01",
    "train.batch_s=4.0",
    "augment.frequency_masks=0",
]


@pytest.fixture(scope="module")
def parent(clip_config, tmp_path_factory):
    """Return a run that has learned some of its few clips."""
    folder = tmp_path_factory.mktemp("parents")
    return train(load_config(clip_config, [*LEARNED, f"train.runs_dir={folder}"]), name="parent").run


def tuned_from(parent, clip_config, name, *settings):
    settings = [f"train.init_from={parent.directory}", f"train.runs_dir={parent.directory.parent}", *settings]
    return train(load_config(clip_config, ["train.epochs=2", "train.keep_last=3", *settings]), name=name)


@pytest.fixture(scope="module")
def tuned(parent, clip_config):
    # with the learning rate that is chosen by what the parent knows
    return tuned_from(parent, clip_config, "tuned", "train.learning_rate=0")


def dev_error_of(run):
    return evaluate(run.directory, run.config().data.dev).scores[0].total.rate


def arrays_of(run, epoch):
    return read_checkpoint(run.epoch_checkpoint(epoch)).arrays


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)


def test_the_other_runs_weights_are_evaluated_and_saved_as_epoch_0(parent, tuned):
    assert tuned.run.start_error() == pytest.approx(dev_error_of(parent))
    assert 0 < tuned.run.start_error() < 0.9
    assert parent.start_error() is None
    first = read_checkpoint(tuned.run.epoch_checkpoint(0)).decoding_weights
    theirs = read_checkpoint(parent.chosen_checkpoint()).decoding_weights
    assert theirs
    assert all((first[path] == array).all() for path, array in theirs.items() if "seed" not in path)


@pytest.mark.slow
def test_features_that_the_weights_do_not_know_are_said(parent, clip_config, caplog):
    tuned_from(parent, clip_config, "same-features", "train.epochs=1", "features.num_mels=64")  # what 0 means
    assert "whose weights know no other features" not in caplog.text
    others = ["features.normalize_over=speech", "features.normalize=false"]
    tuned_from(parent, clip_config, "others", "train.epochs=1", *others)
    assert (
        "features.normalize is False and was True and features.normalize_over is 'speech' and was 'clip' "
        f"when {parent.directory} was trained" in caplog.text
    )


def test_a_fine_tuned_run_is_not_worse_than_its_parent_on_dev(parent, tuned):
    assert dev_error_of(tuned.run) <= tuned.run.start_error()
    assert all(m.dev_error <= tuned.run.start_error() for m in tuned.run.metrics() if m.chosen)


@pytest.mark.slow
def test_the_other_runs_weights_are_used_where_every_epoch_is_worse(parent, clip_config):
    trained = tuned_from(parent, clip_config, "spoiled", "train.learning_rate=0.5", "train.keep_last=1")
    run = trained.run
    assert all(metrics.dev_error > run.start_error() for metrics in run.metrics())
    assert not any(metrics.chosen or metrics.best for metrics in run.metrics())
    assert run.chosen_checkpoint() == run.epoch_checkpoint(0)
    assert dev_error_of(run) == pytest.approx(run.start_error())
    assert summarize(run.directory).chosen_epoch == 0
    page = run.report_path.read_text(encoding="utf-8")
    assert "before training" in page
    assert "0 of 2" in page


@pytest.mark.slow
def test_a_fine_tuned_run_that_is_stopped_and_resumed_equals_one_that_is_not(tuned, tmp_path):
    for num_saved in (0, 1, 2):
        stopped = Run(shutil.copytree(tuned.run.directory, tmp_path / f"stopped-{num_saved}"))
        for epoch in range(num_saved, 3):
            stopped.epoch_checkpoint(epoch).unlink()
        stopped.write_metrics(stopped.metrics()[: max(0, num_saved - 1)])
        resume(stopped.directory)
        assert same(arrays_of(stopped, 2), arrays_of(tuned.run, 2))
        assert read_checkpoint(stopped.epoch_checkpoint(2)).progress.start_error == tuned.run.start_error()
        assert [m.chosen for m in stopped.metrics()] == [m.chosen for m in tuned.run.metrics()]


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "rate"), [(1.0, 3e-4), (0.0, 1e-3)])
def test_the_learning_rate_suits_what_the_other_run_knows_and_is_logged_apart_from_the_users_settings(
    parent, clip_config, monkeypatch, limit, rate, caplog
):
    monkeypatch.setattr("asr.training.fine_tuning.STRANGE_SPEECH", limit)
    settings = ("train.epochs=1", "train.learning_rate=0", "train.schedule=constant", "train.warmup_share=0")
    with caplog.at_level("INFO"):
        run = tuned_from(parent, clip_config, f"rate-{rate}", *settings).run
    assert run.config().train.learning_rate == rate  # a resumed run has it, too
    assert run.metrics()[0].learning_rate == pytest.approx(rate)
    line = next(line for line in caplog.text.splitlines() if "settings for fine-tuning" in line)
    usual, own = line.split("; yours: ")
    assert "train.flat_start=0" in usual
    assert f"train.learning_rate={rate:g}" in usual
    assert "train.epochs=1" in own


def test_weights_that_have_diverged_are_refused_before_the_run_exists(parent, clip_config, tmp_path):
    spoiled = Run(shutil.copytree(parent.directory, tmp_path / "spoiled"))
    checkpoint = spoiled.chosen_checkpoint()
    state = read_checkpoint(checkpoint)
    arrays = {
        name: np.full_like(array, np.nan) if array.dtype == np.float32 else array
        for name, array in state.arrays.items()
    }
    write_checkpoint(checkpoint, arrays, state.progress)
    with pytest.raises(UserError, match=r"init_from=.*spoiled: with these weights the dev loss is nan"):
        tuned_from(spoiled, clip_config, "from-spoiled")
    assert not (spoiled.directory.parent / "from-spoiled").exists()


def test_a_damaged_record_of_the_start_is_an_error(tuned, tmp_path):
    run = Run(shutil.copytree(tuned.run.directory, tmp_path / "damaged"))
    (run.directory / "start.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match=r"start\.json: damaged"):
        run.start_error()


def test_a_missing_run_to_start_from_is_an_error_before_its_corpus_is_prepared(tmp_path):
    prepared = tmp_path / "data"
    settings = [f"data.prepared_dir={prepared}", f"train.init_from={tmp_path}", f"train.runs_dir={tmp_path}"]
    with pytest.raises(UserError, match="no run here"):
        train(load_config("demo", settings), name="tuned")
    assert not prepared.exists()
