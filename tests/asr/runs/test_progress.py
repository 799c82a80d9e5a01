"""Of a run whose best and chosen epochs differ, every command and page says the same."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from asr.base.config import Config
from asr.base.types import EditCounts
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.cli.training_display import TrainingDisplay
from asr.report.curves import curves
from asr.runs.progress import EpochMetrics, Progress, best_first, chosen_epoch, describe_choice, is_chosen
from asr.runs.run import Run

DEV_ERRORS = (0.9, 0.5, 0.2, 0.22, 0.4, 0.21)  # epoch 3 is the best, epoch 6 within its standard error
BEST, CHOSEN = 3, 6
TOKENS = 100


def history(dev_errors=DEV_ERRORS):
    """Return the metrics of epochs with these errors in 100 tokens, marked as training marks them."""
    epochs = []
    for number, error in enumerate(dev_errors, start=1):
        lowest = min((metrics.dev_error for metrics in epochs), default=float("inf"))
        edits = EditCounts(substitutions=round(error * TOKENS), reference_length=TOKENS)
        epochs.append(
            EpochMetrics(
                number,
                30.0,
                error,
                20.0,
                edits.rate,
                1e-3,
                100.0,
                60.0 * number,
                best=edits.rate <= lowest,
                chosen=is_chosen(edits, lowest),
            )
        )
    return epochs


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "runs" / "mine", Config(), Vocabulary(("a1", "b1")))
    made.write_metrics(history())
    return made


def printed(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_best_is_the_lowest_error_and_chosen_the_last_epoch_within_its_standard_error(run):
    metrics = run.metrics()
    assert best_first(metrics)[0].epoch == BEST
    assert chosen_epoch(metrics) == CHOSEN
    assert [m.epoch for m in metrics if m.best] == [1, 2, 3]
    assert describe_choice(metrics) == "epoch 6 (21.0% on dev); best: 3 (20.0%)"
    assert describe_choice(metrics[:3]) == "epoch 3 (20.0% on dev)"
    assert describe_choice([]) == "none"


@pytest.mark.parametrize(
    ("num_errors", "chosen"), [(29, True), (30, True), (31, False), (90, False)]
)  # 31 are within a standard error
def test_no_epoch_with_more_errors_than_the_model_before_training_is_chosen(num_errors, chosen):
    dev = EditCounts(substitutions=num_errors, reference_length=900)
    assert is_chosen(dev, 30 / 900, start_error=30 / 900) == chosen
    assert Progress(start_error=0.4).best_dev_error == 0.4


def test_the_choice_is_described_with_the_error_before_training(run):
    metrics = run.metrics()[:3]
    assert describe_choice(metrics, 0.4) == "epoch 3 (20.0% on dev); before training: 40.0% on dev"
    none = [dataclasses.replace(m, chosen=False) for m in metrics]
    assert "the model before training (10.0% on dev)" in describe_choice(none, 0.1)


def test_epoch_lines_of_training_say_best_for_new_lows_only(run, capsys):
    display = TrainingDisplay()
    display.on_session(600.0, 0.0, 1)
    for metrics in run.metrics():
        display.on_epoch(metrics, len(DEV_ERRORS))
    display.on_session_end()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert [line.endswith("  best") for line in lines] == [True, True, True, False, False, False]


def test_runs_lists_the_best_and_the_chosen_epoch(run, capsys):
    assert "20.00% of tokens (epoch 3)  epoch 6" in printed(capsys, "runs", run.directory)
    [row] = json.loads(printed(capsys, "runs", run.directory, "--json"))
    assert (row["best_epoch"], row["chosen_epoch"], row["best_dev_error"]) == (BEST, CHOSEN, 0.2)


def test_runs_and_compare_know_that_the_model_before_training_was_better(run, tmp_path, capsys):
    run.write_metrics([dataclasses.replace(m, chosen=False) for m in run.metrics()])
    run.write_start_error(0.1)
    assert "10.00% of tokens (epoch 0)  epoch 0" in printed(capsys, "runs", run.directory)
    other = Run.create(tmp_path / "runs" / "other", Config(), Vocabulary(("a1", "b1")))
    other.write_metrics(history((0.9, 0.6)))
    output = printed(capsys, "compare", run.directory, other.directory, "--html", tmp_path / "compare.html")
    assert re.search(r"best dev error +10.0% +60.0%\n +at epoch +0 +2\n", output)


def test_compare_has_both_epochs_in_its_table_and_on_its_page(run, tmp_path, capsys):
    other = Run.create(tmp_path / "runs" / "other", Config(), Vocabulary(("a1", "b1")))
    other.write_metrics(history((0.9, 0.6)))
    page = tmp_path / "compare.html"
    output = printed(capsys, "compare", run.directory, other.directory, "--html", page)
    rows = {
        row[0]: row[1:] for line in output.splitlines() if len(row := re.split(r"\s{2,}", line.strip())) == 3
    }
    assert rows["best dev error"] == ["20.0%", "60.0%"]
    assert rows["at epoch"] == ["3", "2"]
    assert rows["chosen epoch"] == ["6", "2"]
    assert rows["its dev error"] == ["21.0%", "60.0%"]
    text = page.read_text(encoding="utf-8")
    assert "best dev token error rate, the lowest of these runs, at epoch 3; chosen: epoch 6, 21.0%;" in text


def test_curves_mark_the_chosen_epoch_and_their_table_both(run):
    drawn = curves(run.metrics(), "token")
    assert [row[0] for row in drawn.table.rows] == ["1", "2", "3 (best)", "4", "5", "6 (chosen)"]


def test_decoding_uses_the_chosen_epoch(run):
    for epoch in (BEST, CHOSEN):
        run.epoch_checkpoint(epoch).parent.mkdir(exist_ok=True)
        run.epoch_checkpoint(epoch).touch()
    assert run.chosen_checkpoint() == run.epoch_checkpoint(CHOSEN)


def test_metrics_from_before_the_word_chosen_are_read(run):
    path = run.directory / "metrics.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["best"] = record.pop("chosen")
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run.metrics() == history()
    values = {**Progress(tuple(history())).to_json(), "history": records}
    assert Progress.from_json(values) == Progress(tuple(history()))
    assert dataclasses.asdict(Progress.from_json(values).history[3])["best"] is False
