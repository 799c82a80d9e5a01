import dataclasses
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from helpers import ROOT
from helpers.processes import LIMIT_S, children_of, wait_until_ended

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.base.system.child_process import ChildProcess
from asr.cli.commands.training.tune_batch import _print_conclusion
from asr.cli.main import main
from asr.model.devices import Devices
from asr.training.batch_tuning import (
    Attempts,
    Trial,
    limit_memory,
    search,
    serve,
    tune_batch,
    worst_batches,
)
from data_pipeline.manifests.manifest import write_manifest

ONE_DEVICE = Devices()


def fits_up_to(limit_s, num_rows=10):
    return lambda size: Trial(size, 100, num_rows, size, failure="" if size <= limit_s else "too large")


def tried(attempt, configured_s):
    return [(trial.batch_s, not trial.failure) for trial in search(attempt, configured_s)]


def test_batch_search_doubles_sizes_and_then_bisects():
    sizes = tried(fits_up_to(333), 30.0)
    assert sizes[:5] == [(30, True), (60, True), (120, True), (240, True), (480, False)]
    fits = max(size for size, fitting in sizes if fitting)
    fails = min(size for size, fitting in sizes if not fitting)
    assert 333 / 1.12 < fits <= 333 < fails < 333 * 1.12


def test_batch_search_reaches_a_large_configured_size_from_below():
    assert [size for size, _ in tried(fits_up_to(500), 400.0)][:4] == [50, 100, 200, 400]


def test_batch_search_halves_sizes_if_the_first_does_not_fit():
    sizes = tried(fits_up_to(9), 40.0)
    assert [size for size, _ in sizes[:4]] == [40, 20, 10, 5]
    assert 9 / 1.12 < max(size for size, fitting in sizes if fitting) <= 9


def test_batch_search_stops_at_a_single_clip():
    assert tried(fits_up_to(0, num_rows=1), 40.0) == [(40, False)]


def test_batch_search_stops_when_an_epoch_has_only_a_handful_of_batches():
    assert tried(lambda size: Trial(size, num_batches=round(1000 / size)), 30.0)[-1] == (240, True)


def test_worst_batches_are_the_largest_the_longest_and_the_most_labelled():
    plan = [[0, 1], [2], [3, 4, 5], [6]]
    padded = [50, 60, 100, 20, 20, 20, 1]
    assert worst_batches(plan, padded, [1, 1, 1, 5, 5, 5, 1]) == [0, 1, 2]


def serve_until_killed(requests, fatal_s):
    """Kill this process in the middle of a batch, as a system out of memory does."""
    for size in requests:
        if size > fatal_s:
            os.kill(os.getpid(), signal.SIGKILL)
        yield Trial(size, 100, 10, 1.0)


def test_killed_process_counts_as_a_size_that_does_not_fit():
    with Attempts(serve_until_killed, 50.0) as attempts:
        trials = list(search(attempts.try_size, 30.0))
    failed = [trial for trial in trials if trial.failure]
    assert "SIGKILL" in failed[0].failure
    assert max(trial.batch_s for trial in trials if not trial.failure) > 50 / 1.12


def serve_with_a_bug(requests):
    yield from ()
    raise RuntimeError("a bug")


def test_bug_in_a_process_is_not_taken_for_lack_of_memory():
    with (
        Attempts(serve_with_a_bug) as attempts,
        pytest.raises(UserError, match="its own error message is above"),
    ):
        attempts.try_size(30.0)


def serve_blocks(requests, usable_share):
    """Return whether this process, of a limited memory, can allocate a block of each size."""
    limit_memory(usable_share)
    for size in requests:
        try:
            yield len(bytearray(size)) == size
        except MemoryError:
            yield False


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA")
def test_memory_that_a_process_may_use_is_limited():
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    with ChildProcess(serve_blocks, 0.01) as child:
        for size, fits in ((1 << 20, True), (half, False)):
            child.send(size)
            assert child.receive() == fits


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (1e-3, "from 0.001 to 0.002 by the square root, which suits Adam, or to 0.004 linearly"),
        (0.0, "2 times what training chooses for the weights of another run, by the square root"),
    ],
)
def test_advice_scales_the_learning_rate_with_the_batch(rate, words, capsys):
    train = dataclasses.replace(load_config("demo").train, learning_rate=rate, batch_s=10.0)
    _print_conclusion([Trial(10.0, 8, 4, 100.0), Trial(40.0, 2, 16, 200.0)], train)
    assert f"Scale train.learning_rate with it: {words}" in capsys.readouterr().out


@pytest.mark.slow
def test_tune_batch_finds_the_largest_batch_and_writes_no_file(separable_config, capsys):
    before = sorted(separable_config.parent.rglob("*"))
    assert main(["tune-batch", str(separable_config), "--set", "train.batch_s=200.0"]) == 0
    said = capsys.readouterr().out
    assert "an epoch has only 1 batch." in said
    assert "[train]\n    batch_s = 50.0" in said  # the whole training set in a batch, so none is faster
    assert "from 0.002 to" in said
    assert sorted(separable_config.parent.rglob("*")) == before


def test_what_an_engine_cannot_process_in_parts_is_refused(separable_config, capfd):
    options = ["--gpus", "2", "--simulate", "--engine", "mirrored", "--set", "train.accumulate=2"]
    assert main(["tune-batch", str(separable_config), *options]) == 2
    said = capfd.readouterr().err
    assert "train.accumulate: mirrored: cannot process a batch in 2 parts" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_tune_batch_tries_larger_batches_while_they_fit(separable_config):
    tried = tune_batch(load_config(separable_config, ["train.batch_s=1.0"]), ONE_DEVICE)
    assert [trial.batch_s for trial in tried][:2] == [1.0, 2.0]
    assert not any(trial.failure for trial in tried)
    assert tried[0].num_batches > tried[-1].num_batches


@pytest.mark.slow
def test_an_epoch_has_the_clips_that_the_weights_of_corpora_give_it(clips, separable_config, tmp_path):
    rows = [dataclasses.replace(clip, corpus="ab"[place % 2]) for place, clip in enumerate(clips)]
    write_manifest(tmp_path / "joint.jsonl", rows)
    settings = [f"data.train={tmp_path / 'joint.jsonl'}", "train.batch_s=6.0"]
    single, tripled = (
        tune_batch(load_config(separable_config, [*settings, *more]), ONE_DEVICE)[0].num_batches
        for more in ([], ["data.weights=a=3, b=3"])
    )
    assert tripled > 2 * single


def serve_in_little_memory(requests, *arguments):
    resource.setrlimit(resource.RLIMIT_DATA, (1_500_000_000,) * 2)
    yield from serve(requests, *arguments)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA")
def test_batch_search_continues_after_out_of_memory(clips, separable_config, tmp_path):
    manifest = tmp_path / "long.jsonl"
    write_manifest(manifest, [dataclasses.replace(clip, duration_s=100.0) for clip in clips])  # never read
    config = load_config(separable_config, [f"data.train={manifest}", "model.size=s"])
    with Attempts(serve_in_little_memory, config, ONE_DEVICE, tmp_path) as attempts:
        trial = attempts.try_size(1800.0)
        assert "memory" in trial.failure
        assert not attempts.try_size(110.0).failure


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("end", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_interrupted_tune_batch_leaves_no_process(separable_config, end):
    command = [
        sys.executable,
        "-m",
        "asr",
        "tune-batch",
        str(separable_config),
        "--set",
        "train.batch_s=8.0",
    ]
    program = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout is not None
    assert any("train.batch_s" in line for line in program.stdout)
    deadline = time.monotonic() + LIMIT_S
    while not (children := children_of(program.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children
    if end == signal.SIGINT:
        os.killpg(program.pid, end)  # as a terminal does
    else:
        program.kill()
    _, said = program.communicate(timeout=LIMIT_S)
    if end == signal.SIGINT:
        assert "Traceback" not in said
    wait_until_ended(children)
