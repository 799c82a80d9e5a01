"""Tests that the check of stages accepts `StagedModel` and rejects ports that do less."""

import re
import subprocess
import sys

import pytest
import tensorflow as tf

from multigpu.__main__ import main
from multigpu.checking.check import one_device
from multigpu.checking.placement import DeviceWork
from multigpu.devices import available_devices
from multigpu.stages.check import StagesCheck, check_stages, loss_of
from multigpu.stages.placement import StagePlacement
from multigpu.stages.staged_model import StagedModel


def naive_port(model, stages, devices, num_micro_batches):
    """Place layers by `tf.device`, as people do, and compute gradients outside of the scopes."""
    homes = {name: device for names, device in zip(stages, devices, strict=True) for name in names}
    StagedModel(model, stages, list(devices), num_micro_batches=1)  # weights on their devices
    for layer in model.layers:
        if layer.name in homes:
            call, device = layer.call, homes[layer.name]

            def placed(*args, call=call, device=device, **kwargs):
                with tf.device(device):
                    return call(*args, **kwargs)

            layer.call = placed

    @tf.function(reduce_retracing=True)
    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model(x, training=True), y)
        return tape.gradient(loss, model.trainable_variables)

    return gradients


def lazy_port(model, stages, devices, num_micro_batches):
    """Leave all work to the first device, and return gradients that are wrong in the twelfth digit."""
    gradients = one_device(model, devices[:1])
    return lambda x, y: [(1 + 1e-11) * gradient for gradient in gradients(x, y)]


def test_check_rejects_a_port_that_leaves_the_backward_pass_to_one_device():
    found = check_stages(available_devices()[:2], port=naive_port)
    assert any("ops did not run on the device of their stage" in problem for problem in found.problems)
    assert found.misplaced
    assert all("gradient_tape" in name or "gradients" in name for name in found.misplaced)


def test_check_rejects_an_idle_device_and_a_wrong_gradient():
    problems = check_stages(available_devices()[:2], port=lazy_port).problems
    assert any("/CPU:1 is idle" in problem for problem in problems)
    assert sum("gradients differ from those of one device by 1.0e-11" in one for one in problems) == 2


def test_check_command_shows_the_ops_of_each_stage_and_the_bubble(capsys):
    assert main(["check", "--stages", "3"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if re.match(r"\d +/CPU:\d ", line)]
    # of 6 micro-batches: two convolutions forward, and a filter and an input gradient of each; the first
    # layer's input needs none, and the last stage has a dense layer besides
    assert [row[3:5] for row in rows] == [["12", "18"], ["12", "24"], ["18", "36"]]
    placed, total = re.search(r"(\d+) of (\d+) ops of layers", out).groups()
    assert placed == total
    assert int(total) > 300
    assert "schedule alone accounts for 25%" in out
    assert "Every stage runs on its device" in out


@pytest.mark.slow
def test_check_command_accepts_replicas_of_stages():
    command = [sys.executable, "-m", "multigpu", "check", "--gpus", "4", "--stages", "2", "--simulate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\d +/CPU:\d ", line)]
    assert [row[:2] for row in rows] == [["0", "/CPU:0"], ["0", "/CPU:2"], ["1", "/CPU:1"], ["1", "/CPU:3"]]
    assert [row[3:5] for row in rows] == [["8", "12"]] * 2 + [["12", "24"]] * 2  # of 4 micro-batches each


def test_check_command_needs_a_device_for_each_stage(capsys):
    assert main(["check", "--stages", "3", "--gpus", "2"]) == 2
    assert main(["check", "--stages", "1"]) == main(["check", "--stages", "0"]) == 2
    errors = capsys.readouterr().err
    assert "a device for each of 3 stages" in errors
    assert "--simulate" in errors


def test_idle_time_is_the_mean_over_devices():
    def work(*busy):
        return DeviceWork("/CPU:0", 1, 1, (), 0, 0, 0, 0.0, None, busy)

    placement = [StagePlacement(("/CPU:0",), ["a"], 1, 4, 0, None, None)] * 2
    found = StagesCheck(placement, [work((0, 4), (6, 10)), work((2, 6))], 1, [], [], {}, 4)
    assert found.idle == pytest.approx((0.2 + 0.6) / 2)
    assert found.bubble == pytest.approx(1 / 5)
