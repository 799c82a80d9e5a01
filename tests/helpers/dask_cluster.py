"""Start a Dask scheduler and workers, in processes of their own, and work for them to do."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from asr.audio.recording import read_audio
from asr.base.errors import UserError
from asr.base.system.storage.refusals import StorageError
from asr.base.types import Utterance
from data_pipeline.types import LeftOut
from helpers import ROOT
from helpers.processes import LIMIT_S
from helpers.servers import wait_until

PRELOAD = "from helpers.tiny import register_tiny\nregister_tiny()\n"  # the network of `trained_run`


class DaskCluster:
    """A scheduler of this machine, and its workers.

    Args:
        folder: for their files; it is also the workers' working directory.
        environment: variables to set for all processes.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self.scheduler_file = folder / "scheduler.json"
        self._scheduler = self._start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            "scheduler.json",
        )
        self.workers: list[subprocess.Popen[bytes]] = []
        # the file is there before its text is
        self._until(lambda: self.scheduler_file.exists() and self.scheduler_file.read_text().endswith("\n}"))
        self.address: str = json.loads(self.scheduler_file.read_text())["address"]

    def add_worker(
        self,
        preload: str = PRELOAD,
        path: Sequence[Path] = (ROOT, ROOT / "tests"),
        num_threads: int = 1,
        nanny: bool = False,
    ) -> None:
        """Start a worker, and wait until the scheduler knows it.

        Args:
            preload: a program that it runs first.
            path: where it finds modules.
            num_threads: of the worker.
            nanny: whether it runs in a process of a nanny, which starts it again when it ends.
        """
        number = len(self.workers)
        (self._folder / f"preload{number}.py").write_text(preload)
        self.workers.append(
            self._start(
                *("worker", self.address, "--nthreads", str(num_threads), "--no-dashboard"),
                *("--nanny" if nanny else "--no-nanny",),
                *(
                    "--death-timeout",
                    "60",
                    "--name",
                    f"worker{number}",
                    "--local-directory",
                    str(self._folder / f"worker{number}"),
                ),
                *("--preload", str(self._folder / f"preload{number}.py")),
                path=path,
            )
        )
        self._until(
            lambda: "Registered to" in (self._folder / "log").read_text().partition(f"--{number}--")[2]
        )

    def kill_scheduler(self) -> None:
        """End the scheduler as a machine that loses its power does."""
        self._scheduler.kill()
        self._scheduler.wait()

    def close(self) -> None:
        """End all processes."""
        for process in (*self.workers, self._scheduler):
            process.kill()  # the worker of a nanny ends when its nanny has
            process.wait()

    def _start(self, *command: str, path: Sequence[Path] = (ROOT,)) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(map(str, path))}
        with (self._folder / "log").open("ab") as log:
            if command[0] == "worker":
                log.write(f"--{len(self.workers)}--\n".encode())
                log.flush()
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *command],
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def _until(self, condition) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.05)


@contextlib.contextmanager
def dask_cluster(folder: Path, num_workers: int = 2, **environment: str) -> Iterator[DaskCluster]:
    """Start a cluster, and end it with the block."""
    cluster = DaskCluster(folder, environment)
    try:
        for _ in range(num_workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()


def process_ids(items: list[str]) -> list[int]:
    """Return the process's id for each item, after a moment."""
    time.sleep(0.05)
    return [os.getpid()] * len(items)


def noted(items: list[str], notes: Path) -> list[str]:
    """Write each item to a file when its turn comes, and take a moment for it."""
    for item in items:
        with notes.open("a") as file:
            file.write(f"{item}\n")
        time.sleep(0.2)
    return items


def read_or_error(path: str) -> int | UserError:
    """Return the number of samples of a recording, or its error."""
    try:
        return len(read_audio(path))
    except UserError as error:
        return error


def read_all(paths: list[str]) -> list[int | UserError]:
    """Return the number of samples of each recording, or its error."""
    return [read_or_error(path) for path in paths]


def add_worker_when(cluster: DaskCluster, condition: Callable[[], object]) -> None:
    """Start a worker once a condition holds."""
    wait_until(condition)
    cluster.add_worker()


def killing(items: list[str]) -> list[str]:
    """End the process, as a decoder that crashes does."""
    os._exit(1)


def refusing(items: list[str]) -> list[str]:
    """Raise a mistake of the user."""
    raise UserError(f"{items[0]}: is refused")


def described(paths: list[str]) -> list[list[Utterance | LeftOut]]:
    """Return results in which the folder of a path is part of an id, and of a message."""
    results: list[list[Utterance | LeftOut]] = []
    for path in paths:
        folder, inside = path.removesuffix("a.wav"), f"set{path}"
        one = Utterance(inside, path, 1.0, inside, ("a",), folder)
        results.append([one, LeftOut(inside, "reason", f"{path}: see {folder}b.wav and {inside}")])
    return results


def without_credentials(paths: list[str]) -> list[str]:
    """Raise what reading from object storage raises on a machine without credentials."""
    raise StorageError(f"{paths[0]}: no credentials")
