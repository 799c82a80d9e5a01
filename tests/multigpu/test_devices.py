"""Tests which devices a specification names, and the errors for devices that are not available."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf

from multigpu import devices
from multigpu.devices import available_devices, parse_devices, share_cpu, short_name, simulate_devices
from multigpu.errors import DeviceError
from multigpu.start import LOG_LEVEL

ALL = ("/CPU:0", "/CPU:1", "/CPU:2")  # as tests/conftest.py simulates them


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (2, ALL[:2]),
        ("2", ALL[:2]),
        ("3", ALL),
        ("2,", ALL[2:]),
        ("0,2", ("/CPU:0", "/CPU:2")),
        (" 2 , 0 ", ("/CPU:2", "/CPU:0")),
        ([0, 2], ("/CPU:0", "/CPU:2")),
        ((1,), ("/CPU:1",)),
        ("all", ALL),
        (" ALL", ALL),
        (["/CPU:1", "cpu:2", 0], ("/CPU:1", "/CPU:2", "/CPU:0")),
        ("/CPU:1,/CPU:2", ALL[1:]),
        (["/job:localhost/replica:0/task:0/device:CPU:1"], ("/CPU:1",)),
        (share_cpu(2), ("/CPU:0", "/CPU:0")),
    ],
)
def test_device_specification_is_parsed_into_names(spec, expected):
    assert parse_devices(spec) == expected


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (4, "4 devices requested"),
        ("0,3", "/CPU:3 requested"),
        ("/GPU:0", "/GPU:0 requested"),
        ([0, 1, 0], "/CPU:0 named more than once"),
        ([1, "/CPU:1"], "/CPU:1 named more than once"),
        (["/CPU:1", "/CPU:1"], "/CPU:1 named more than once"),
        ("0,0", "/CPU:0 named more than once"),
        (-1, "at least 1 device"),
        ("-1", "at least 1 device"),
        ([0, -1], "ids from 0, received -1"),
        ("1,-2", "ids from 0, received -2"),
        (0, "at least 1 device"),
        ("0", "at least 1 device"),
        ([], "no device named"),
        ("", "no device named"),
        (",", "'' is neither"),
        ("1.5", "'1.5' is neither"),
        ("gpu", "'gpu' is neither"),
        (["all"], "'all' is neither"),
        ([1.0], "received 1.0"),
        ([True], "received True"),
        (True, "expected a number, ids"),
        (2.0, "expected a number, ids"),
        (None, "expected a number, ids"),
    ],
)
def test_device_error_lists_available_devices_and_the_remedy(spec, complaint):
    with pytest.raises(DeviceError) as error:
        parse_devices(spec)
    message = str(error.value)
    assert message.startswith(f"devices {spec!r}: ")
    assert complaint in message
    assert "available: /CPU:0, /CPU:1, /CPU:2; " in message
    remedy = "CUDA_VISIBLE_DEVICES" if "requested" in complaint else "give a number of devices"
    assert remedy in message


def test_invalid_device_name_is_an_error():
    assert short_name("/job:worker/replica:0/task:3/device:GPU:07") == "/GPU:7"
    with pytest.raises(DeviceError, match="such as /GPU:1"):
        short_name("cuda")


def test_simulating_after_initialization_is_an_error_unless_unchanged():
    assert simulate_devices(3) == ALL == available_devices()
    with pytest.raises(DeviceError, match=r"cannot simulate 2 devices: .*/CPU:0, "):
        simulate_devices(2)
    with pytest.raises(DeviceError, match="expected 1 to 64, received 0"):
        simulate_devices(0)


def test_simulated_devices_work_and_cannot_change_after_the_first_tensor():
    program = """
import tensorflow as tf
from multigpu import DeviceError, data_parallelism, parse_devices, simulate_devices
assert simulate_devices(2) == parse_devices("all") == ("/CPU:0", "/CPU:1")
assert data_parallelism(parse_devices(2), lambda x: x + 1.0, tf.zeros(3)).numpy().tolist() == [1, 1, 1]
try:
    simulate_devices(4)
except DeviceError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "before the first tensor" in done.stdout


def test_towers_that_share_the_cpu_divide_its_threads_and_tensorflow_starts_without_messages():
    program = """
import os
os.cpu_count = lambda: 6
from multigpu.start import start_devices
assert start_devices("1", simulate=False, cpu_towers=2) == ("/CPU:0", "/CPU:0")
import tensorflow as tf
assert tf.config.threading.get_intra_op_parallelism_threads() == 3
from multigpu import data_parallelism
assert data_parallelism(("/CPU:0",) * 2, lambda x: x + 1.0, tf.zeros(3)).numpy().tolist() == [1, 1, 1]
assert start_devices("1", simulate=False, cpu_towers=3) == ("/CPU:0",) * 3  # with the threads that there are
assert start_devices("1", simulate=False) == ("/CPU:0",)
"""
    environment = {name: value for name, value in os.environ.items() if name != LOG_LEVEL}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not tf.__version__.startswith("2.21."), reason="only its XLA lacks a lock")
def test_what_towers_compile_for_cpus_may_first_run_in_several_of_them_at_once():
    program = """
import tensorflow as tf
import multigpu.devices
softmax = tf.function(lambda x: tf.nn.softmax(x), jit_compile=True)
print(softmax.experimental_get_compiler_ir(tf.ones((64, 64, 64)))(stage="optimized_hlo"))
"""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-c", program]
    compiled = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "exponential" in compiled
    assert "__ynn_fusion" not in compiled


class Machine:
    """Imitates TensorFlow's configuration functions on a machine with GPUs, and records their calls."""

    def __init__(self, num_gpus, *, at_work=False, cut=()):
        self.cards = [SimpleNamespace(name=f"/physical_device:GPU:{n}") for n in range(num_gpus)]
        self.at_work, self.cut = at_work, cut
        self.growing, self.visible, self.parts = [], None, {}

    def list_physical_devices(self, kind):
        return self.cards if kind == "GPU" else [SimpleNamespace(name="/physical_device:CPU:0")]

    def list_logical_devices(self, kind):
        parts = [part for parts in self.parts.values() for part in parts]
        number = 1 if kind == "CPU" else len(parts) or len(self.cards)
        return [SimpleNamespace(name=f"/device:{kind}:{n}") for n in range(number)]

    def get_logical_device_configuration(self, card):
        return ["part", "part"] if card in [self.cards[n] for n in self.cut] else None

    def set_memory_growth(self, card, enable):
        self._touch()
        assert enable
        self.growing.append(card)

    def set_visible_devices(self, cards, kind):
        self._touch()
        assert kind == "GPU"
        self.visible = cards

    def set_logical_device_configuration(self, card, parts):
        self._touch()
        self.parts[card.name] = parts

    def _touch(self):
        if self.at_work:
            raise RuntimeError("devices cannot be modified after being initialized")


@pytest.fixture
def machine(monkeypatch):
    def make(num_gpus, memory_mb="16000\n", **kwargs):
        made = Machine(num_gpus, **kwargs)
        for name in (
            "list_physical_devices",
            "list_logical_devices",
            "get_logical_device_configuration",
            "set_visible_devices",
            "set_logical_device_configuration",
        ):
            monkeypatch.setattr(tf.config, name, getattr(made, name))
        monkeypatch.setattr(tf.config.experimental, "set_memory_growth", made.set_memory_growth)
        monkeypatch.setattr(devices.shutil, "which", lambda _: memory_mb and "/usr/bin/nvidia-smi")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")

        def nvidia_smi(command, **_):
            assert "--id=1" in command
            return SimpleNamespace(stdout=memory_mb)

        monkeypatch.setattr(devices.subprocess, "run", nvidia_smi)
        return made

    return make


def test_gpus_are_preferred_to_cpus_with_memory_growth(machine):
    gpus = machine(4)
    assert parse_devices("all") == ("/GPU:0", "/GPU:1", "/GPU:2", "/GPU:3")
    assert gpus.growing == gpus.cards
    assert parse_devices("0,2,3") == ("/GPU:0", "/GPU:2", "/GPU:3")
    assert parse_devices(["/GPU:1", "/CPU:0"]) == ("/GPU:1", "/CPU:0")
    with pytest.raises(DeviceError, match=r"available: /GPU:0, .*/GPU:3; choose .* 0,2") as error:
        parse_devices([4])
    assert "simulate" not in str(error.value)


def test_initialized_or_split_gpus_keep_their_settings(machine):
    assert parse_devices(machine(2, at_work=True).cards and 2) == ("/GPU:0", "/GPU:1")
    gpus = machine(2, cut=[0])
    parse_devices(2)
    assert gpus.growing == gpus.cards[1:]


@pytest.mark.parametrize(("memory_mb", "expected"), [("16000\n", 16000), ("", 8192)])
def test_first_gpu_is_split_into_equal_parts_of_its_memory(machine, memory_mb, expected):
    gpus = machine(2, memory_mb)
    assert simulate_devices(3) == ("/GPU:0", "/GPU:1", "/GPU:2")
    assert gpus.visible == gpus.cards[:1]
    (parts,) = gpus.parts.values()
    assert list(gpus.parts) == [gpus.cards[0].name]
    limits = [part.memory_limit for part in parts]
    assert limits == [pytest.approx(expected * devices.SHARE_OF_CARD / 3)] * 3


def test_initialized_gpus_cannot_be_split(machine):
    machine(2, at_work=True)
    assert simulate_devices(2) == ("/GPU:0", "/GPU:1")  # two real ones suffice
    with pytest.raises(DeviceError, match="already uses /GPU:0, /GPU:1"):
        simulate_devices(3)
