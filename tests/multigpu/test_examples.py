"""Tests that the example programs run, each in a process of its own, since each simulates its devices."""

import subprocess
import sys

import pytest
from helpers import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_stages"), [("layers_by_hand", 3), ("inception_v3", 7)])
def test_example_runs_and_shows_where_layers_are(name, num_stages):
    command = [sys.executable, "-m", f"multigpu.examples.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert sum("/CPU:" in line or "/GPU:" in line for line in done.stdout.splitlines()) == num_stages
    assert "loss" in done.stdout
