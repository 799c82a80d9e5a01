import os
import re
import subprocess
import sys

import pytest
import tensorflow as tf
from helpers import ROOT

from multigpu.__main__ import main
from multigpu.checking.check import Times, check_devices, loss_of, one_device, parallel_port
from multigpu.devices import available_devices
from multigpu.start import LOG_LEVEL


def naive_port(model, devices):
    """Compute gradients as Matterport's ParallelModel does on today's Keras: only the forward pass is cut."""

    @tf.function(reduce_retracing=True)
    def gradients(x, y):
        with tf.GradientTape() as tape:
            outputs = []
            for index, device in enumerate(devices):
                with tf.device(device):
                    each = tf.shape(x)[0] // len(devices)
                    stop = tf.shape(x)[0] if device == devices[-1] else (index + 1) * each
                    outputs.append(model(x[index * each : stop], training=True))
            loss, _ = loss_of(lambda *_, **__: tf.concat(outputs, axis=0), x, y)
        return tape.gradient(loss, model.trainable_variables)

    return gradients


def idle_port(model, devices):
    return one_device(model, devices[:1])


def wrong_port(model, devices):
    gradients = one_device(model, devices)
    return lambda x, y: [1.001 * gradient for gradient in gradients(x, y)]


def test_check_rejects_an_idle_device_and_a_wrong_gradient():
    problems = " ".join(check_devices(available_devices()[:2], idle_port).problems)
    assert "/CPU:1 is idle" in problems
    assert "differ" not in problems
    assert "differ from those of one device by 1.0e-03" in " ".join(
        check_devices(available_devices()[:2], wrong_port).problems
    )


def test_check_command_accepts_parallel_model_and_shows_work_per_device(capsys):
    assert main(["check", "--gpus", "3"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if re.match(r"/CPU:\d ", line)]
    assert [row[0] for row in rows] == ["/CPU:0", "/CPU:1", "/CPU:2"]
    # 3 convolutions and 2 dense layers; the first needs no gradient of its input
    assert [row[1:3] for row in rows] == [["5", "9"]] * 3
    assert "strong scaling" in out
    assert "limited by" in out
    assert "Every device does its part" in out


@pytest.mark.slow
def test_check_command_rejects_the_naive_port_with_status_1(monkeypatch, capsys):
    monkeypatch.setattr("multigpu.checking.check.parallel_port", naive_port)
    assert main(["check", "--gpus", "2"]) == 1
    out = capsys.readouterr().out
    problems = [line for line in out.splitlines() if line.startswith("PROBLEM")]
    assert any("on the device of their forward ops" in problem for problem in problems)
    assert any("/CPU:1 is idle: 5 forward and 0 backward ops" in problem for problem in problems)
    assert "Every device does its part" not in out


@pytest.mark.slow
def test_check_reports_work_on_an_unrequested_device():
    def port(model, devices):
        return parallel_port(model, ["/CPU:0", "/CPU:2"])

    problems = check_devices(["/CPU:0", "/CPU:1"], port).problems
    assert any(problem.startswith("/CPU:2 did work") for problem in problems)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (Times(1.0, 0.5, 0.5, 2), "nothing"),
        (Times(1.0, 0.8, 0.85, 2), "batch size"),
        (Times(1.0, 0.5, 0.55, 4), "batch size"),
        (Times(1.0, 0.52, 0.9, 2), "communication"),
    ],
)
def test_limiting_factor_of_scaling_is_named(times, words):
    assert words in times.limit


def test_scaling_is_relative_to_one_device():
    times = Times(whole_batch_s=1.0, one_share_s=0.6, all_devices_s=0.625, num_devices=2)
    assert times.strong == pytest.approx(1.6)
    assert times.weak == pytest.approx(1.92)


@pytest.mark.slow
def test_check_command_with_one_device_is_an_error_with_the_remedy():
    command = [sys.executable, "-m", "multigpu", "check", "--gpus", "1"]
    environment = os.environ | {LOG_LEVEL: "3"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 2
    (error,) = done.stderr.splitlines()  # after none of TensorFlow's, with its own log level as well
    assert error.startswith("error: ")
    assert "--simulate" in error
