"""The page of a run shows its curves while it is trained, and never ends the training."""

import dataclasses
import logging
import os
import re
import signal

import pytest
from helpers.full_disk import largest_file

from asr import load_config, resume, train
from asr.base.config import Config, TrainConfig
from asr.base.errors import UserError
from asr.base.system.interrupt import Interrupted
from asr.report.training_page import TrainingPage
from asr.runs.progress import EpochMetrics
from asr.runs.run import Run
from asr.training.monitoring.observer import TrainingObserver

EPOCH = EpochMetrics(1, 50.0, 1.2, 40.0, 0.9, 1e-3, 600.0, 100.0, True, True, dev_s=20.0)
LATER = dataclasses.replace(EPOCH, epoch=2, train_s=200.0)


class Reader(TrainingObserver):
    """Keeps the page as it is at each step, by the number of epochs that are done."""

    def __init__(self):
        self.pages, self.num_done, self.path = {}, 0, None

    def on_start(self, start):
        self.path = Run(start.directory).report_path

    def on_step(self, audio_s, loss, edits):
        self.pages[self.num_done] = self.path.read_text(encoding="utf-8")

    def on_epoch(self, metrics, num_epochs):
        self.num_done = metrics.epoch


class Stopper(Reader):
    """Asks training to stop in its second epoch."""

    def on_step(self, audio_s, loss, edits):
        super().on_step(audio_s, loss, edits)
        if self.num_done == 1:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def config(clip_config, tmp_path):
    return load_config(clip_config, overrides=["train.epochs=2", f"train.runs_dir={tmp_path}"])


def num_epochs_drawn(page):
    """Return the number of epochs with a tooltip in the first chart; 0 without a chart."""
    chart = re.search(r"<svg.*?</svg>", page, re.DOTALL)
    return chart[0].count("<title>") if chart else 0


def refreshes(page):
    return "location.reload" in page


def test_page_has_the_curves_of_each_epoch_so_far_until_the_report_takes_its_place(config):
    reader = Reader()
    trained = train(config, name="x", observer=reader)
    assert {done: num_epochs_drawn(page) for done, page in reader.pages.items()} == {0: 0, 1: 1}
    assert all(map(refreshes, reader.pages.values()))
    report = trained.run.report_path.read_text(encoding="utf-8")
    assert num_epochs_drawn(report) == 2
    assert "Worst utterances" in report
    assert not refreshes(report)


@pytest.mark.slow
def test_page_of_a_stopped_run_names_the_command_that_resumes_it_which_continues_the_page(config, tmp_path):
    stopper = Stopper()
    with pytest.raises(Interrupted):
        train(config, name="x", observer=stopper)
    stopped = stopper.path.read_text(encoding="utf-8")
    assert num_epochs_drawn(stopped) == 1
    assert f"train {tmp_path / 'x'} --resume" in stopped
    assert not refreshes(stopped)
    reader = Reader()
    reader.num_done = 1
    trained = resume(tmp_path / "x", observer=reader)
    assert all(map(refreshes, reader.pages.values()))
    report = trained.run.report_path.read_text(encoding="utf-8")
    resume(tmp_path / "x")  # trains nothing more
    assert num_epochs_drawn(trained.run.report_path.read_text(encoding="utf-8")) == num_epochs_drawn(report)


@pytest.mark.slow
def test_page_that_cannot_be_written_is_reported_once_and_does_not_stop_training(config, caplog):
    class Blocker(Reader):
        """Blocks the place of the page by a folder, until the last epoch."""

        def on_start(self, start):
            super().on_start(start)
            self.path.mkdir(parents=True)

        def on_step(self, audio_s, loss, edits):
            pass

        def on_epoch(self, metrics, num_epochs):
            if metrics.epoch == num_epochs:
                self.path.rmdir()

    trained = train(config, name="x", observer=Blocker())
    warnings = [r.message for r in caplog.records if "training continues without this page" in r.message]
    assert len(warnings) == 1
    assert str(trained.run.report_path) in warnings[0]
    assert trained.run.report_path.is_file()


def test_full_disk_keeps_the_last_page(tmp_path, caplog):
    run = Run(tmp_path)
    with TrainingPage(run, Config(), "syllable", "asr train x --resume") as page:
        page.show([EPOCH])
        before = run.report_path.read_bytes()
        with largest_file(1000), caplog.at_level(logging.WARNING):
            page.show([EPOCH, LATER])
            page.evaluating()
    assert run.report_path.read_bytes() == before
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_error_that_ends_training_is_on_the_page(tmp_path):
    run = Run(tmp_path)
    page = TrainingPage(run, Config(), "syllable", "asr train x --resume")
    with pytest.raises(UserError), page:
        raise UserError("<the disk> is gone")
    text = run.report_path.read_text(encoding="utf-8")
    assert "&lt;the disk&gt; is gone" in text
    assert not refreshes(text)


def test_time_left_is_predicted_from_training_and_evaluation(tmp_path):
    run = Run(tmp_path)
    with TrainingPage(run, Config(train=TrainConfig(epochs=50)), "syllable", "") as page:
        page.show([EPOCH])  # 120 s, and 49 more of them
    assert "1 of 50 epochs done, about 1 h 38 min left" in run.report_path.read_text(encoding="utf-8")
