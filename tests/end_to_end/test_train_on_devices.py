"""Test `asr train` on several devices and in several processes."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
from helpers import ROOT
from helpers.processes import free_ports
from helpers.small_conformer import use_small_conformer

from asr.base.config import dump_config, load_config
from asr.cli.main import main
from asr.runs.checkpoint import read_checkpoint
from asr.runs.run import Run
from asr.training.trainer import Trainer

# settings with which steps on several devices equal those on one: no randomness, statistics of the whole
# batch, and no division by the size of gradients, which would magnify rounding errors of the smallest ones
SAME_STEPS = [
    "--set=train.optimizer=sgd",
    "--set=model.dropout=0.0",
    "--set=augment.frequency_masks=0",
    "--set=model.synchronized_batch_norm=true",
]
CONFORMER = ["--set=model.family=conformer"]


def train(config, name, *options):
    assert main(["train", str(config), "--name", name, *options]) == 0
    return config.parent / "runs" / name


def values(run):
    """Return the arrays of a run's last checkpoint."""
    arrays = read_checkpoint(Run(run).checkpoints()[-1]).arrays
    return [arrays[name] for name in sorted(arrays)]


def assert_same_weights(one, other):
    for ours, theirs in zip(values(one), values(other), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@contextlib.contextmanager
def smooth_gradients():
    """Train with SiLU in place of ReLU. The gradient of ReLU jumps at zero: of a hundred thousand inputs one
    may be so near to it that rounding decides its sign, and then two trainings differ that are both right.
    The few inputs of a gate, which network xs does not have, would keep their ReLU.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.ops, "relu", keras.ops.silu)
        yield


@pytest.fixture
def _smooth():
    with smooth_gradients():
        yield


smooth = pytest.mark.usefixtures("_smooth")
SMOOTH_COMMAND = (
    "import keras, sys; keras.ops.relu = keras.ops.silu; from asr.cli.main import main; sys.exit(main())"
)


@pytest.fixture(
    scope="module", params=["clip_config", pytest.param("separable_config", marks=pytest.mark.slow)]
)
def config(request):
    """Return the configuration of a tiny network, and of one of the product."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def on_one_device(config):
    with smooth_gradients():
        return train(config, f"one-{config.stem}", *SAME_STEPS)


MIRRORED = pytest.param(["--gpus", "2", "--engine", "mirrored"], marks=pytest.mark.slow)
STAGES = pytest.param(["--gpus", "2", "--engine", "stages"], marks=pytest.mark.slow)


@smooth
@pytest.mark.parametrize("options", [["--gpus", "2,1"], MIRRORED, STAGES])
def test_training_on_several_devices_equals_training_on_one(config, on_one_device, options, capsys):
    run = train(config, config.stem + re.sub(r"\W", "", "".join(options)), *SAME_STEPS, *options)
    output = capsys.readouterr()
    assert ("/CPU:2, /CPU:1" if "2,1" in options else "/CPU:0, /CPU:1") in output.out
    assert "devices:" in output.err
    assert_same_weights(run, on_one_device)


@smooth
@pytest.mark.slow
def test_conformer_trains_alike_on_every_engine(separable_config, monkeypatch):
    use_small_conformer(monkeypatch)
    options = [*SAME_STEPS, *CONFORMER]
    one = train(separable_config, "conformer-one", *options)
    for engine in ("parallel-model", "mirrored", "stages"):
        run = train(separable_config, f"conformer-{engine}", *options, "--gpus=2", f"--engine={engine}")
        assert_same_weights(run, one)


@pytest.mark.slow
@smooth
def test_towers_that_share_the_cpu_train_as_one_device(config, on_one_device, capsys):
    run = train(config, f"{config.stem}-towers", *SAME_STEPS, "--set=train.cpu_towers=2")
    output = capsys.readouterr()
    assert "on the CPU, whose cores 2 towers share (train.cpu_towers)" in output.out
    assert "devices:" not in output.err
    assert_same_weights(run, on_one_device)
    for one, other in zip(values(run), values(on_one_device), strict=True):
        if not np.array_equal(one, other):
            return  # sums of two towers are rounded differently
    pytest.fail("no tower was used")


@pytest.mark.slow
def test_run_of_before_towers_and_flat_starts_is_resumed_without_them(clip_config, capsys):
    run = train(clip_config, "old", "--set=train.epochs=1")
    file = run / "config.toml"
    text = file.read_text().replace("epochs = 1\n", "epochs = 2\n")
    assert "cpu_towers = 1\n" in text
    file.write_text(text.replace("cpu_towers = 1\n", "").replace("flat_start = 0.1\n", ""))
    assert Run(run).config().train.flat_start == 0
    capsys.readouterr()
    assert main(["train", str(run), "--resume"]) == 0
    output = capsys.readouterr().out
    assert "epoch   2/2" in output
    assert "towers" not in output
    assert "cpu_towers = 2" in dump_config(load_config(file))  # what it would be for a new run


@pytest.mark.slow
@smooth
@pytest.mark.parametrize("options", [["--gpus", "2"], MIRRORED, STAGES])
def test_run_resumes_within_an_epoch_on_another_number_of_devices(
    config, on_one_device, monkeypatch, options
):
    def stop_in_the_second_step(trainer, batch, num_rows):
        if trainer.progress.step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(trainer, batch, num_rows)

    train_step, name = Trainer.train_step, f"{config.stem}-moved{options[-1]}"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", stop_in_the_second_step)
        assert main(["train", str(config), "--name", name, *SAME_STEPS, *options]) == 143
    assert [p.name for p in Run(config.parent / "runs" / name).checkpoints()] == [
        "epoch-0001-batch-00002.npz"
    ]
    run = train(config, name, "--resume")
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    assert_same_weights(run, on_one_device)


def test_missing_devices_are_an_error_that_lists_the_available_ones(clip_config, capsys):
    assert main(["train", str(clip_config), "--name", "none", "--gpus", "0,7"]) == 2
    error = capsys.readouterr().err.strip()
    assert "/CPU:7" in error
    assert "/CPU:0, /CPU:1, /CPU:2" in error
    assert not (clip_config.parent / "runs" / "none").exists()


@pytest.mark.parametrize("options", [["--simulate"], ["--engine", "multi-worker", "--gpus", "2"]])
def test_incompatible_device_options_are_refused(clip_config, options, capsys):
    assert main(["train", str(clip_config), "--name", "none", *options]) == 2
    assert "--gpus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stages", "1"], "--stages 1: expected at least 2"),
        (["--stages", "2", "--engine", "mirrored", "--gpus", "2"], "--stages 2: --engine mirrored keeps"),
        (["--stages", "2", "--engine", "multi-worker"], "--stages 2: --engine multi-worker keeps"),
        (["--stages", "2", "--gpus", "3"], "--stages: expected"),
        (["--stages", "7"], "7 devices requested"),
        (["--engine", "stages"], "--engine: stages: expected several devices"),
    ],
)
def test_impossible_stages_are_refused_before_the_run_exists(clip_config, options, words, capsys):
    assert main(["train", str(clip_config), "--name", "none", *options]) == 2
    assert words in capsys.readouterr().err
    assert not (clip_config.parent / "runs" / "none").exists()


def start_workers(config, name, *options, command=("-m", "asr")):
    """Start two processes that train together."""
    ports = free_ports(2)
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    processes = []
    for index in range(2):
        settings = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        processes.append(
            subprocess.Popen(
                [
                    *(sys.executable, *command, "train", str(config)),
                    *("--name", name, "--engine", "multi-worker", *options),
                ],
                env={**os.environ, "TF_CONFIG": settings, "PYTHONUNBUFFERED": "1"},
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


METHODS = [
    "--set=train.consistency=0.5",
    '--set=model.intermediate_ctc="0.7"',
    "--set=model.self_conditioned=true",
    "--set=model.intermediate_units=phones",
    "--set=model.stem=2d_fast",
]


@smooth
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [[], METHODS, [*CONFORMER, "--set=train.epochs=1"]],
    ids=["plain", "methods", "conformer"],
)
def test_training_in_two_processes_equals_training_in_one(separable_config, changes):
    options = [*SAME_STEPS, *changes, "--set=train.batch_s=12.0"]
    one, two = (f"{name}-{len(changes)}" for name in ("alone", "workers"))
    alone = train(separable_config, one, *options)
    chief, other = start_workers(separable_config, two, *options, command=("-c", SMOOTH_COMMAND))
    output, errors = chief.communicate(timeout=600)
    assert chief.returncode == 0, errors
    assert "of each of 2 workers (multi-worker)" in output
    assert "epoch" not in other.communicate(timeout=60)[0]
    assert other.returncode == 0
    assert_same_weights(separable_config.parent / "runs" / two, alone)


@pytest.mark.slow
def test_lost_worker_ends_the_run_which_can_be_resumed(separable_config, capsys):
    chief, other = start_workers(separable_config, "lost", "--set=train.epochs=40")
    for line in chief.stdout:
        if re.match(r"epoch +2/40", line):
            break
    other.kill()
    other.wait()
    _, errors = chief.communicate(timeout=100)
    assert chief.returncode == 2
    assert "another worker has ended" in errors
    assert "--resume" in errors
    assert "Traceback" not in errors

    run = train(separable_config, "lost", "--resume")
    epochs = [json.loads(line)["epoch"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert epochs == list(range(1, 41))
