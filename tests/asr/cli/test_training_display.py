"""Test the terminal output of training."""

import dataclasses
import functools
import re
from pathlib import Path

from asr.base.config import Config, TrainConfig
from asr.base.errors import UserError
from asr.base.types import EditCounts
from asr.base.work import Work
from asr.cli import progress_bars
from asr.cli.main import main
from asr.cli.training_display import TrainingDisplay
from asr.runs.stage_record import StageRecord
from asr.training import train
from asr.training.monitoring.observer import TrainingStart


def test_error_during_preparation_is_on_its_own_line(monkeypatch, capsys):
    def fail(config, name, devices, *, observer, **how):
        observer.on_work(Work("checking audio", 1, 4, "clips"))
        raise UserError("the disk is gone")

    at_once = functools.partial(progress_bars.ProgressBars, delay_s=0)
    monkeypatch.setattr(progress_bars, "ProgressBars", at_once)
    monkeypatch.setattr(train, "train", fail)
    assert main(["train", "demo"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any("checking audio:  25%" in line for line in lines)
    assert lines[-1] == "error: the disk is gone"


def test_display_prints_the_table_and_how_a_batch_is_divided(capsys):
    start = TrainingStart(
        directory=Path("runs/x"),
        config=Config(train=TrainConfig(batch_s=30.0)),
        num_parameters=1_000,
        num_tokens=4,
        train_s=60.0,
        num_train=9,
        num_dev=2,
        engine="stages",
        devices=("/CPU:0", "/CPU:1"),
        num_devices=2,
        num_workers=1,
        num_stages=2,
    )
    display = TrainingDisplay()
    display.on_start(start)
    four = ("/CPU:0", "/CPU:1", "/CPU:2", "/CPU:3")
    display.on_start(dataclasses.replace(start, devices=four, num_devices=4))
    display.on_stages([StageRecord(("/CPU:0",), ["a", "b", "c"], 1_000, 4_000, 8_000, 2_000_000, 0.4)])
    output = capsys.readouterr().out
    assert "/CPU:0, /CPU:1 (stages): a batch of 30 s passes through 2 stages\n" in output
    assert "(stages): a batch of 30 s is 15 s on each replica of 2 stages\n" in output
    assert re.search(r"stage +device +layers .*\n +0 +/CPU:0 +a to c \(3\) +1,000 +4.00kB", output)


def test_bar_says_what_the_first_step_waits_for_until_it_is_done(capsys):
    display = TrainingDisplay()
    display.on_session(total_s=30.0, done_s=0.0, num_devices=1)
    assert "compiling the model for the first step" in capsys.readouterr().err
    display.on_step(10.0, 3.0, EditCounts(1, 0, 0, 2))
    display.on_session_end()
    shown = capsys.readouterr().err.rstrip("\n").split("\r")
    assert "\n" not in "".join(shown)  # on one line
    assert "compiling" not in shown[-1]
    assert "loss 3.00" in shown[-1]


def test_throughput_is_shown_after_the_first_step_which_compiles(capsys):
    display = TrainingDisplay()
    display.on_session(total_s=30.0, done_s=0.0, num_devices=1)
    display.on_step(10.0, 3.0, EditCounts(1, 0, 0, 2))
    display.on_session_end()
    assert "audio/s" not in capsys.readouterr().err
    display.on_session(total_s=30.0, done_s=0.0, num_devices=1)
    display.on_step(10.0, 3.0, EditCounts(1, 0, 0, 2))
    display.on_skipped_step(10.0)
    display.on_session_end()
    assert re.search(r"[\d,]+ s of audio/s, loss 3\.00, token errors 50\.0%", capsys.readouterr().err)
