"""Test the spreading of work over a real scheduler and real workers; tests/end_to_end has the commands."""

import functools
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from helpers import ROOT
from helpers.dask_cluster import (
    add_worker_when,
    dask_cluster,
    described,
    killing,
    noted,
    process_ids,
    read_all,
    read_or_error,
    refusing,
    without_credentials,
)

from asr.audio.recording import audio_duration_s
from asr.base.cluster import Cluster
from asr.base.errors import UserError
from asr.base.system.storage.refusals import StorageError
from asr.base.types import Utterance
from asr.base.version import __version__
from data_pipeline.types import LeftOut
from data_pipeline.work import in_parallel

pytest.importorskip("distributed", reason="needs the extra cluster")

OTHER_VERSION = "import asr.base.version\nasr.base.version.__version__ = '0.0.9'\n"
NOT_INSTALLED = "import sys\nsys.modules['asr'] = None\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Return a scheduler with two workers of one thread."""
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running):
    with Cluster.connect(running.address) as cluster:
        yield cluster


@pytest.fixture
def copies(clips, tmp_path, monkeypatch):
    """Return relative paths of recordings; the workers have another working directory."""
    monkeypatch.chdir(tmp_path)
    for number, clip in enumerate(clips):
        Path(f"{number:02}.wav").write_bytes(Path(clip.audio_path).read_bytes())
    return [f"{number:02}.wav" for number in range(len(clips))]


def test_results_of_workers_come_in_order_and_equal_those_of_threads(cluster, copies):
    progress = []
    there = list(in_parallel(audio_duration_s, copies, "lengths", 2, progress.append, cluster))
    assert there == list(in_parallel(audio_duration_s, copies, "lengths", 2))
    assert len(set(there)) > 1
    assert [work.done for work in progress] == list(range(13))  # few clips: a chunk each, for all threads


def test_errors_of_workers_name_files_as_they_were_given(cluster, copies):
    Path("no sound.wav").write_text("text")
    paths = ["no sound.wav", "./no sound.wav", copies[0], "missing.wav"]
    (there,) = cluster.results(read_all, [paths])
    assert list(map(str, there)) == [str(read_or_error(path)) for path in paths]
    assert str(there[1]).startswith("./no sound.wav: ")


def test_all_workers_take_part(cluster):
    processes = {process for (process,) in cluster.results(process_ids, [["item"]] * 40)}
    assert len(processes) == 2
    assert os.getpid() not in processes


def test_scheduler_file_names_a_cluster_as_well(running):
    with Cluster.connect(str(running.scheduler_file)) as cluster:
        assert len(list(cluster.results(process_ids, [["item"], ["item"]]))) == 2


def test_error_in_a_worker_is_raised_here(cluster):
    with pytest.raises(UserError, match="first: is refused"):
        list(cluster.results(refusing, [["/first", "/second"]]))


def test_only_paths_of_results_are_named_as_they_were_given(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside = f"set{tmp_path}/a.wav"  # the folder of this process, in the middle of an id
    (found,) = cluster.results(described, [["a.wav"]])
    one, left_out = found[0]
    assert one == Utterance(inside, "a.wav", 1.0, inside, ("a",), f"{tmp_path}/")
    assert left_out == LeftOut(inside, "reason", f"a.wav: see b.wav and {inside}")


def test_storage_that_a_worker_cannot_read_ends_the_work_with_its_name(cluster):
    with pytest.raises(StorageError, match=r"^worker tcp://.* on .*: s3://bucket/a\.wav: no credentials"):
        list(cluster.results(without_credentials, [["s3://bucket/a.wav"]]))


def test_file_that_a_worker_does_not_find_is_an_error_with_its_name(cluster, copies):
    path = f"/proc/self/cwd/{copies[0]}"  # which is another folder in another process
    with pytest.raises(UserError, match=rf"^worker tcp://.* on .*: does not find {path}, .* same paths"):
        list(cluster.results(read_all, [[path]]))


def test_work_that_was_not_begun_is_cancelled_when_the_caller_stops(cluster, tmp_path):
    notes = tmp_path / "notes"
    results = cluster.results(functools.partial(noted, notes=notes), [[f"/{n}"] for n in range(40)])
    next(results)
    results.close()
    assert list(cluster.results(process_ids, [["item"]])), "the workers are free again"
    time.sleep(1)
    assert len(notes.read_text().splitlines()) < 8  # that many were submitted ahead


def test_scheduler_without_workers_is_waited_for_with_a_line(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    with dask_cluster(tmp_path, 0) as running:
        starting = threading.Thread(target=add_worker_when, args=[running, lambda: caplog.messages])
        starting.start()
        with Cluster.connect(running.address) as cluster:
            assert len(list(cluster.results(process_ids, [["item"]]))) == 1
        starting.join()
        (line,) = caplog.messages
        assert line.startswith(f"{running.address}: has no workers; waiting")


def test_lost_workers_are_waited_for_and_an_ended_scheduler_is_an_error(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("asr.base.cluster.LOOK_S", 0.2)
    with dask_cluster(tmp_path, 1) as running, Cluster.connect(running.address) as cluster:
        results = cluster.results(process_ids, [["item"]] * 20)
        (first,) = next(results)
        running.workers[0].kill()
        starting = threading.Thread(target=add_worker_when, args=[running, lambda: caplog.messages])
        starting.start()
        others = {process for (process,) in results}
        starting.join()
        assert others - {first}
        running.kill_scheduler()
        with pytest.raises(UserError, match=f"{running.address}: the scheduler does not answer any more"):
            list(cluster.results(process_ids, [["item"]]))


def test_work_that_ends_its_workers_is_named(tmp_path):
    with (
        dask_cluster(tmp_path, 1, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as running,
        Cluster.connect(running.address) as cluster,
        pytest.raises(UserError, match=r"1 worker was lost.* by the work on /one\.wav, /two\.wav"),
    ):
        list(cluster.results(killing, [["/one.wav", "/two.wav"]]))


@pytest.mark.parametrize(
    ("preload", "message"),
    [
        (
            "import asr.base.version\nasr.base.version.__version__ = '0.0.9'\n",
            "has Polyphone 0.0.9, expected",
        ),
        ("import sys\nsys.modules['asr'] = None\n", "does not have Polyphone"),
    ],
)
def test_worker_with_another_version_is_an_error_with_its_name(tmp_path, preload, message):
    with dask_cluster(tmp_path, 0) as running:
        running.add_worker(preload)
        with (
            pytest.raises(UserError, match=rf"worker tcp://.*: {message}.*same version on all workers"),
            Cluster.connect(running.address),
        ):
            pass


def test_worker_with_other_files_of_the_same_version_is_an_error_with_its_name(tmp_path):
    other = tmp_path / "other"
    for room in ("asr", "data_pipeline"):
        shutil.copytree(ROOT / room, other / room, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "asr" / "base" / "errors.py").open("a") as file:
        file.write("# changed\n")
    with dask_cluster(tmp_path, 0) as running:
        running.add_worker("", path=[other])
        named = rf"worker tcp://.*: has Polyphone {__version__} \(\w+\), expected {__version__} \("
        with pytest.raises(UserError, match=named), Cluster.connect(running.address):
            pass


@pytest.mark.slow
def test_worker_that_joins_later_with_another_version_is_an_error(tmp_path):
    with dask_cluster(tmp_path, 1) as running, Cluster.connect(running.address) as cluster:
        running.add_worker(OTHER_VERSION)
        running.workers[0].kill()
        with pytest.raises(
            UserError, match=rf"worker tcp://.*: has Polyphone 0\.0\.9 \(.*expected {__version__} "
        ):
            list(cluster.results(process_ids, [["item"]] * 20))
