from asr.base.work import Work
from asr.cli.progress_bars import ProgressBars


def test_each_task_has_a_bar_of_its_own(capsys):
    with ProgressBars(delay_s=0) as bars:
        bars(Work("checking", 1, 2, "clips"))
        bars(Work("checking", 2, 2, "clips"))
        bars(Work("fetching", 512, 2048, "bytes", "a.zip"))
    shown = capsys.readouterr().err
    assert "checking: 100%" in shown
    assert "2/2" in shown
    assert "fetching:  25%" in shown
    assert "512/2.00k" in shown
    assert "a.zip" in shown


def test_short_task_shows_no_bar(capsys):
    with ProgressBars() as bars:
        for done in range(1, 4):
            bars(Work("checking", done, 3, "clips"))
    assert capsys.readouterr().err == ""


def test_bar_without_a_known_total_counts(capsys):
    with ProgressBars(delay_s=0) as bars:
        bars(Work("reading", 7, None, "lines"))
    assert "7 lines" in capsys.readouterr().err


def test_task_that_only_waits_shows_for_how_long(capsys):
    with ProgressBars(delay_s=0) as bars:
        bars(Work("waiting for a neighbour", 0))
    assert capsys.readouterr().err.split("\r")[-1].strip() == "waiting for a neighbour [00:00]"
