"""Measures `asr doctor`'s decoding by two Dask workers of one core against one process of one core.

    python -m benchmarks.speed.cluster [--files 10000] [--pairs 3]

Scheduler and workers are processes of this machine; each worker, and the one process, is bound to a core.
Two processes without Dask, as those of `asr doctor`, show what two cores can do: on virtual machines often
less than twice as much as one.
Files are copies of the demo's recordings, read from the page cache. Needs the extra cluster, and Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from asr.base.cluster import Cluster
from benchmarks.common import compare, show
from data_pipeline.doctor.checkup import Checkup
from data_pipeline.doctor.workers import LIMIT_S, CheckingProcesses, check_recordings
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus

NUM_FILES = 10_000
CORES = (0, 1)
DASK = [sys.executable, "-m", "dask"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=NUM_FILES)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    corpus = prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo"))
    clips = [str(Path(clip.audio_path).resolve()) for clip in read_manifest(corpus.manifests["train"])]
    paths = [clips[number % len(clips)] for number in range(arguments.files)]
    with (
        tempfile.TemporaryDirectory() as folder,
        dask_workers(Path(folder)) as address,
        Cluster.connect(address) as cluster,
        contextlib.closing(process_of_one_core()) as process,
        contextlib.closing(CheckingProcesses(len(CORES), LIMIT_S)) as processes,
    ):

        def two_workers() -> list[Checkup]:
            return [one for _, one in check_recordings(paths, cluster=cluster)]

        def one_process() -> list[Checkup]:
            return [one for _, one in process.check(paths)]

        def two_processes() -> list[Checkup]:
            return [one for _, one in sorted(processes.check(paths))]

        assert two_workers() == one_process() == two_processes()
        there_s, here_s, ratio = compare(two_workers, one_process, arguments.pairs)
        both_s, one_s, most = compare(two_processes, one_process, arguments.pairs)
    show(
        f"decoding {len(paths):,} files",
        {
            "two Dask workers of one core": times(there_s, here_s, ratio),
            "two processes without Dask": times(both_s, one_s, most),
        },
    )


def times(seconds: float, alone_s: float, ratio: float) -> str:
    return f"{seconds:5.1f} s, one process {alone_s:5.1f} s, {ratio:.2f} times as fast (median of the pairs)"


def process_of_one_core() -> CheckingProcesses:
    """Start a process that checks recordings on one core; like those of the workers, it stays."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORES[0]})
    try:
        return CheckingProcesses(1, LIMIT_S)
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def dask_workers(folder: Path) -> Iterator[str]:
    """Start a scheduler and a worker on each core, and yield the scheduler file."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    processes: list[subprocess.Popen[bytes]] = []

    def start(*command: str, core: int | None = None) -> None:
        bound = [] if core is None else ["taskset", "-c", str(core)]
        with (folder / "log").open("ab") as log:
            processes.append(
                subprocess.Popen(
                    [*bound, *DASK, *command], cwd=folder, env=environment, stdout=log, stderr=log
                )
            )

    try:
        start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file.name
        )
        wait_for(file.exists)
        for core in CORES:
            start(
                *("worker", "--scheduler-file", file.name, "--nthreads", "1", "--no-nanny", "--no-dashboard"),
                *("--local-directory", f"worker{core}"),
                core=core,
            )
        wait_for(lambda: (folder / "log").read_text().count("Registered to") == len(CORES))
        yield str(file)
    finally:
        for process in processes:
            process.kill()


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.1)


if __name__ == "__main__":
    main()
