"""Test the terminal output of training."""

import functools

from asr.base.types import UserError
from asr.base.work import Work
from asr.cli import progress_bars
from asr.cli.main import main
from asr.training import train


def test_error_during_preparation_is_on_its_own_line(monkeypatch, capsys):
    def fail(config, name, *, observer, **how):
        observer.on_work(Work("checking audio", 1, 4, "clips"))
        raise UserError("the disk is gone")

    at_once = functools.partial(progress_bars.ProgressBars, delay_s=0)
    monkeypatch.setattr(progress_bars, "ProgressBars", at_once)
    monkeypatch.setattr(train, "train", fail)
    assert main(["train", "demo"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any("checking audio:  25%" in line for line in lines)
    assert lines[-1] == "error: the disk is gone"
