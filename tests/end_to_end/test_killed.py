"""Test that training that is killed repeatedly ends with the same weights as uninterrupted training."""

import dataclasses
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import ROOT

from asr.runs.checkpoint import read_checkpoint
from asr.runs.progress import TIMES
from asr.runs.run import Run
from asr.runs.state import read_state

KILLS = 20
KILLS_WHILE_STARTING, KILLS_WHILE_WRITING = 3, 4
SETTINGS = [
    "train.epochs=20",
    "train.batch_s=3.0",
    "train.ema_decay=0.9",
    "train.checkpoint_s=0.15",
    "train.tensorboard_utterances=1",
    "augment.noise=coloured",
    "train.cpu_towers=2",
    "augment.gain_db_max=6.0",
]


@pytest.fixture
def train(separable_config, tmp_path):
    """Return a function that starts `python train.py` as a process; all are killed at the end."""
    processes = []

    def start(name, *options):
        command = [sys.executable, "train.py", str(separable_config), "--name", name, *options]
        settings = [f"train.runs_dir={tmp_path}"]
        settings += [] if "--resume" in options else SETTINGS
        command += [part for setting in settings for part in ("--set", setting)]
        with (tmp_path / f"{name}.log").open("a") as log:
            processes.append(subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def wait_for(condition, process, timeout_s=120):
    """Poll until a condition holds, and return whether the process is still running."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        if process.poll() is not None:
            return False
        time.sleep(0.0005)
    return True


@pytest.mark.slow
def test_run_killed_twenty_times_equals_uninterrupted_run(train, tmp_path):
    rng = random.Random(2)
    kinds = ["starting"] * KILLS_WHILE_STARTING + ["writing"] * KILLS_WHILE_WRITING
    kinds += ["anywhere"] * (KILLS - len(kinds))
    rng.shuffle(kinds)
    run, folder = Run(tmp_path / "killed"), tmp_path / "killed" / "checkpoints"

    process = train("killed")
    wait_for(lambda: run.checkpoints(), process)
    killed = {"starting": 0, "writing": 0, "anywhere": 0}
    points = set()
    for kind in kinds:
        seen = [path.name for path in run.checkpoints()]
        if kind == "starting":
            time.sleep(rng.uniform(0, 5))
        elif kind == "writing":
            wait_for(lambda: any(folder.glob("*.part")), process)
        else:
            wait_for(lambda seen=seen: [path.name for path in run.checkpoints()] != seen, process)
            time.sleep(rng.uniform(0, 0.8))
        assert process.poll() is None, "the run finished before it was killed often enough"
        process.send_signal(signal.SIGKILL)
        process.wait()
        points.add(run.checkpoints()[-1].name)
        killed["writing" if any(folder.glob("*.part")) else kind] += 1
        assert read_state(run.directory).state == "killed"
        process = train("killed", "--resume")
    whole = train("whole")
    assert process.wait(timeout=300) == 0, (tmp_path / "killed.log").read_text()
    assert whole.wait(timeout=300) == 0

    print(killed, sorted(points))
    assert sum(killed.values()) == KILLS
    assert killed["writing"] >= 3
    assert len(points) >= 10  # it made progress between kills
    assert sum("-batch-" in name for name in points) >= 5
    one, other = (read_checkpoint(Run(tmp_path / name).epoch_checkpoint(20)) for name in ("killed", "whole"))
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)
    histories = [
        [dataclasses.replace(metrics, **dict.fromkeys(TIMES, 0.0)) for metrics in checkpoint.progress.history]
        for checkpoint in (one, other)
    ]
    assert histories[0] == histories[1]
    assert run.metrics() == list(one.progress.history)
    assert not list(folder.glob("*.part"))
    assert read_state(run.directory).state == "finished"
