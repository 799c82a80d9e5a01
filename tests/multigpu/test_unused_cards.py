"""Test, in processes of their own, that a GPU that TensorFlow does not use is reported with the remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

from multigpu.start import LOG_LEVEL

START_TWICE = """
from multigpu.start import start_devices
for _ in range(2):
    assert start_devices("1", simulate=False) == ("/CPU:0",)
"""
CARD = 'echo "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-f0cd)"'
REMEDY = 'pip install "tensorflow[and-cuda]"'

pytestmark = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a program where `nvidia-smi` is a script, and returns what it reports."""

    def start(script, *command, **variables):
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        environment = {k: v for k, v in os.environ.items() if k not in (LOG_LEVEL, "CUDA_VISIBLE_DEVICES")}
        environment |= {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"} | variables
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    return start


def test_a_gpu_that_tensorflow_does_not_use_is_reported_once_with_the_remedy(run):
    (line,) = run(CARD, "-c", START_TWICE).splitlines()
    assert "NVIDIA GeForce RTX 4090" in line
    assert REMEDY in line


@pytest.mark.parametrize("hidden", ["-1", "", "none"])
def test_a_gpu_that_the_user_hides_is_not_reported(run, hidden):
    assert run(CARD, "-c", START_TWICE, CUDA_VISIBLE_DEVICES=hidden) == ""


def test_a_gpu_that_the_user_chooses_is_reported_if_it_is_not_used(run):
    assert "RTX 4090" in run(CARD, "-c", START_TWICE, CUDA_VISIBLE_DEVICES="0")


@pytest.mark.skipif(Path("/proc/driver/nvidia/gpus").is_dir(), reason="this machine has a driver for GPUs")
@pytest.mark.parametrize(
    "script", ["echo 'NVIDIA-SMI has failed because it could not reach the driver.'; exit 9", "exit 6"]
)
def test_an_nvidia_smi_without_a_card_is_not_reported(run, script):
    assert run(script, "-c", START_TWICE) == ""


def test_a_driver_whose_card_the_process_does_not_see_is_reported(run, tmp_path):
    (tmp_path / "gpus/0000:01:00.0").mkdir(parents=True)
    # in place of the folder in /proc, which only a driver makes
    program = f"""
from pathlib import Path
from multigpu import unused_cards
unused_cards.DRIVER_CARDS = Path({str(tmp_path / "gpus")!r})
{START_TWICE}
"""
    (line,) = [line for line in run("exit 9", "-c", program).splitlines() if "driver for NVIDIA" in line]
    assert "--gpus all" in line


def test_training_warns_of_a_gpu_that_is_not_used(run, separable_config, tmp_path):
    options = [str(separable_config), "--name", "run", "--set", f"train.runs_dir={tmp_path}"]
    lines = run(CARD, "train.py", *options).splitlines()
    (warning,) = [line for line in lines if "GPU" in line]
    assert warning.startswith("warning: this machine has a GPU (NVIDIA GeForce RTX 4090)")
    assert REMEDY in warning
