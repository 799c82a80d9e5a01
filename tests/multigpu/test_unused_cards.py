"""Test that a GPU that TensorFlow does not use is reported with the remedy."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers import ROOT

from multigpu import unused_cards
from multigpu.start import LOG_LEVEL, start_devices

CARD = 'echo "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-f0cd)"'
REMEDY = 'pip install "tensorflow[and-cuda]"'
CHOSEN = "CUDA_VISIBLE_DEVICES"
TOO_LONG_S = 300  # without the warning

pytestmark = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")


@pytest.fixture
def search_path(tmp_path):
    """Return a function that makes `nvidia-smi` a script, and returns a PATH where it comes first."""

    def make(script):
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        return f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    return make


@pytest.fixture
def reported(search_path, monkeypatch, caplog):
    """Return a function that starts devices twice, as if for the first time, and returns what is logged."""

    def start(script, **variables):
        monkeypatch.setenv("PATH", search_path(script))
        monkeypatch.delenv(CHOSEN, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        unused_cards.warn_of_unused_cards.cache_clear()
        for _ in range(2):
            assert start_devices("1", simulate=False) == ("/CPU:0",)
        return caplog.messages

    return start


def test_a_gpu_that_tensorflow_does_not_use_is_reported_once_with_the_remedy(reported):
    (line,) = reported(CARD)
    assert "NVIDIA GeForce RTX 4090" in line
    assert REMEDY in line


@pytest.mark.parametrize("hidden", ["-1", "", "none"])
def test_a_gpu_that_the_user_hides_is_not_reported(reported, hidden):
    assert reported(CARD, CUDA_VISIBLE_DEVICES=hidden) == []


def test_a_gpu_that_the_user_chooses_is_reported_if_it_is_not_used(reported):
    (line,) = reported(CARD, CUDA_VISIBLE_DEVICES="0")
    assert "RTX 4090" in line


@pytest.mark.skipif(Path("/proc/driver/nvidia/gpus").is_dir(), reason="this machine has a driver for GPUs")
@pytest.mark.parametrize(
    "script", ["echo 'NVIDIA-SMI has failed because it could not reach the driver.'; exit 9", "exit 6"]
)
def test_an_nvidia_smi_without_a_card_is_not_reported(reported, script):
    assert reported(script) == []


def test_a_driver_whose_card_the_process_does_not_see_is_reported(reported, tmp_path, monkeypatch):
    (tmp_path / "gpus/0000:01:00.0").mkdir(parents=True)
    # in place of the folder in /proc, which only a driver makes
    monkeypatch.setattr(unused_cards, "DRIVER_CARDS", tmp_path / "gpus")
    (line,) = reported("exit 9")
    assert "driver for NVIDIA" in line
    assert "--gpus all" in line


def test_training_warns_of_a_gpu_that_is_not_used(search_path, separable_config, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in (LOG_LEVEL, CHOSEN)}
    with subprocess.Popen(
        [sys.executable, "train.py", str(separable_config), "--set", f"train.runs_dir={tmp_path}"],
        cwd=ROOT,
        env=environment | {"PATH": search_path(CARD)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as training:
        ends = threading.Timer(TOO_LONG_S, training.kill)
        ends.start()
        warning = next((line for line in training.stderr if "GPU" in line), "")
        ends.cancel()
        training.terminate()  # what it learns is of no interest
    assert warning.startswith("warning: this machine has a GPU (NVIDIA GeForce RTX 4090)")
    assert REMEDY in warning
