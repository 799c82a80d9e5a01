import subprocess
import sys

import pytest
import tensorflow as tf
from helpers import ROOT

from multigpu.__main__ import main
from multigpu.check import Times, check_devices, loss_of, one_device, parallel_port
from multigpu.devices import available_devices


def naive_port(model, devices):
    """Matterport's ParallelModel on today's Keras: towers for the forward pass alone."""

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


def test_the_check_rejects_the_naive_port():
    found = check_devices(available_devices()[:2], naive_port)
    assert any("not on the device of their forward ops" in problem for problem in found.problems)
    assert "/CPU:1 idles: 5 forward and 0 backward ops" in found.problems


def test_the_check_rejects_an_idle_device_and_a_wrong_gradient():
    problems = " ".join(check_devices(available_devices()[:2], idle_port).problems)
    assert "/CPU:1 idles" in problems
    assert "differ" not in problems
    assert "gradients differ from one device's by 1.0e-03" in " ".join(
        check_devices(available_devices()[:2], wrong_port).problems
    )


def test_the_command_passes_parallel_model_and_shows_what_each_device_did(capsys):
    assert main(["check", "--gpus", "3"]) == 0
    told = capsys.readouterr().out
    rows = [line.split() for line in told.splitlines() if line.startswith("/CPU:") and "step" not in line]
    assert [row[0] for row in rows] == ["/CPU:0", "/CPU:1", "/CPU:2"]
    # 3 convolutions and 2 dense layers; the first needs no gradient of its input
    assert [row[1:3] for row in rows] == [["5", "9"]] * 3
    assert "strong scaling" in told
    assert "limited by" in told
    assert "Every device does its part" in told


def test_the_command_s_exit_status_tells_of_problems(monkeypatch, capsys):
    monkeypatch.setattr("multigpu.check.parallel_port", naive_port)
    assert main(["check", "--gpus", "2"]) == 1
    told = capsys.readouterr().out
    assert "PROBLEM" in told
    assert "Every device does its part" not in told


def test_a_device_that_was_not_asked_for_is_told():
    def port(model, devices):
        return parallel_port(model, ["/CPU:0", "/CPU:2"])

    problems = check_devices(["/CPU:0", "/CPU:1"], port).problems
    assert "/CPU:2 works, which was not asked for" in problems


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (Times(1.0, 0.5, 0.5, 2), "nothing"),
        (Times(1.0, 0.8, 0.85, 2), "the size of the batch"),
        (Times(1.0, 0.5, 0.55, 4), "the size of the batch"),
        (Times(1.0, 0.52, 0.9, 2), "working together"),
    ],
)
def test_the_limiting_factor_is_named(times, words):
    assert words in times.limit


def test_scaling_is_told_in_times_of_one_device():
    times = Times(whole_batch_s=1.0, one_share_s=0.6, all_devices_s=0.625, num_devices=2)
    assert times.strong == pytest.approx(1.6)
    assert times.weak == pytest.approx(1.92)


def test_one_device_alone_is_a_clear_error():
    command = [sys.executable, "-m", "multigpu", "check", "--gpus", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "--simulate" in done.stderr
