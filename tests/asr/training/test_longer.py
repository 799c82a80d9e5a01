"""A finished run is trained on for more epochs, and a run without a test set says that nothing was tested."""

import dataclasses
import shutil

import pytest

from asr import load_config, resume, train
from asr.base.errors import UserError
from asr.cli.main import main
from asr.runs.checkpoint import read_checkpoint
from asr.runs.run import Run


@pytest.fixture
def finished(trained_run, tmp_path):
    """Return a copy of a finished run of two epochs."""
    return Run(shutil.copytree(trained_run, tmp_path / "runs" / "longer"))


def arrays_of(run, epoch):
    return read_checkpoint(run.epoch_checkpoint(epoch)).arrays


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)


@pytest.fixture(scope="module")
def longer(trained_run, tmp_path_factory):
    """Return a copy of the finished run that the command has trained for two more epochs."""
    run = shutil.copytree(trained_run, tmp_path_factory.mktemp("longer") / "run")
    settings = ["train.epochs=4", "train.keep_last=4"]
    assert main(["train", str(run), "--resume", "--set", *settings]) == 0
    return Run(run)


def test_a_finished_run_is_trained_for_more_epochs_and_keeps_their_number(longer, finished):
    metrics = longer.metrics()
    assert [m.epoch for m in metrics] == [1, 2, 3, 4]
    assert same(arrays_of(longer, 2), arrays_of(finished, 2))
    assert not same(arrays_of(longer, 4), arrays_of(finished, 2))
    # the schedule of four epochs is at its middle
    assert metrics[2].learning_rate > finished.metrics()[-1].learning_rate
    assert longer.config().train.epochs == 4
    assert longer.report_path.read_bytes() != finished.report_path.read_bytes()


@pytest.mark.slow
def test_a_longer_run_that_is_killed_and_resumed_equals_one_that_is_not(longer, tmp_path):
    killed = Run(shutil.copytree(longer.directory, tmp_path / "killed"))
    killed.epoch_checkpoint(4).unlink()
    killed.write_metrics(killed.metrics()[:3])
    resume(killed.directory)
    assert same(arrays_of(killed, 4), arrays_of(longer, 4))


@pytest.mark.parametrize(
    ("done", "epochs", "message"),
    [(2, 1, "has 2; expected more"), (1, 9, "has trained 1 of 2 epochs, .* finish it")],
)
def test_a_run_is_not_shortened_and_not_lengthened_before_its_end(finished, done, epochs, message):
    finished.write_metrics(finished.metrics()[:done])
    for epoch in range(done + 1, 3):
        finished.epoch_checkpoint(epoch).unlink()
    before = (finished.directory / "config.toml").read_bytes()
    with pytest.raises(UserError, match=message):
        resume(finished.directory, [f"train.epochs={epochs}"])
    assert (finished.directory / "config.toml").read_bytes() == before


def test_a_run_that_has_stopped_early_says_how_to_train_on(finished):
    config = finished.config()
    stops_early = dataclasses.replace(config.train, epochs=5, early_stopping_epochs=1)
    finished.write_config(dataclasses.replace(config, train=stops_early))
    first, second = finished.metrics()
    finished.write_metrics([first, dataclasses.replace(second, dev_error=first.dev_error)])
    with pytest.raises(UserError, match=r"stopped early, after epoch 2; .* start another run"):
        resume(finished.directory, ["train.epochs=9"])


@pytest.mark.slow
def test_without_a_test_set_everything_works_on_dev_and_says_so(clip_config, tmp_path, capsys):
    arguments = ["data.test=", "train.epochs=1", f"train.runs_dir={tmp_path}"]
    assert main(["train", str(clip_config), "--name", "untested", "--set", *arguments]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "syllable error rate" in said
    assert "Nothing was tested: data.test is empty." in said
    assert "dev.jsonl" in said
    run = Run(tmp_path / "untested")
    assert "Nothing was tested" in run.report_path.read_text(encoding="utf-8")
    assert main(["evaluate", str(run.directory), run.config().data.dev]) == 0
    assert main(["train", str(run.directory), "--resume"]) == 0


def test_train_and_dev_are_still_needed(clip_config, tmp_path):
    for split in ("train", "dev"):
        config = load_config(clip_config, [f"data.{split}=", "data.test=", f"train.runs_dir={tmp_path}"])
        with pytest.raises(UserError, match=f"data.{split}: no manifest"):
            train(config, name="none")
