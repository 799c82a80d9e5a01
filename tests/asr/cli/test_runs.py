"""Test the remarks that `asr runs` prints; tests/asr/runs/test_listing.py tests which runs it finds."""

from pathlib import Path

from asr.cli.commands.training.runs import _remark
from asr.runs.listing import RunSummary


def test_runs_prints_why_a_run_failed_with_the_options_of_train():
    reason = "the weights have diverged; start another run under another `name`"
    run = RunSummary(
        directory=Path("runs/x"),
        state="failed",
        reason=reason,
        epochs_done=1,
        num_epochs=2,
        best_dev_error=None,
        best_epoch=None,
        chosen_epoch=None,
        token="syllable",
        train_s=1.0,
        last_modified_s=0.0,
        command="",
    )
    assert _remark(run).endswith("under another --name")
