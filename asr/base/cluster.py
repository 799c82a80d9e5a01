"""Spread work over the workers of a Dask scheduler, on this machine or on many.

with Cluster.connect("tcp://head-node:8786") as cluster:
    for lengths in cluster.results(lengths_of, [["a.wav", "b.wav"], ["c.wav"]]):
        print(lengths)

`dask scheduler` and `dask worker` start one; dask-jobqueue does so on Slurm, Dask's operator on Kubernetes.
A worker has the same version of this project installed, and finds the same files under the same paths. Dask
repeats the work of a worker that is lost.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import logging
import os
import pickle
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from asr.base.errors import UserError
from asr.base.system.scheduler import scheduler_client
from asr.base.system.storage.refusals import StorageError
from asr.base.text.wording import counted, listed
from asr.base.version import __version__

logger = logging.getLogger(__name__)

WAIT_S = 0.2
LOOK_S = 5.0  # after which it is looked again how many workers there are
AHEAD = 4  # chunks for each thread of the workers, so that none waits for the slowest
CHUNKS_OF_A_THREAD = 8  # at least, so that all threads end at about the same time
MAX_LISTED = 3
# a worker evaluates it without this project, or with another version of it
VERSION_THERE = "__import__('asr.base.version', fromlist=['*']).__version__"

ROOMS_OF_WORK = ("asr", "data_pipeline")  # whose functions workers call
# fields of results that name files; others, such as ids, stay as they are
PATHS, MESSAGES = ("audio_path", "what"), ("detail",)
BEGIN_OF_PATH = r"(?<![\w/.@~-])"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Cluster:
    """The workers of a Dask scheduler; use `Cluster.connect` to get it.

    Args:
        client: a `distributed.Client`.
        address: of the scheduler, as the user named it.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._num_threads, self._looked_s = -1, -LOOK_S  # not counted yet

    @classmethod
    @contextlib.contextmanager
    def connect(cls, address: str) -> Iterator[Cluster]:
        """Connect to a scheduler, wait until it has a worker, and check the workers' versions.

        Args:
            address: such as "tcp://head-node:8786", or the path of a scheduler file.

        Raises:
            UserError: the package `distributed` is missing, the address is none, no scheduler answers there,
                or a worker has another version of this project.
        """
        with contextlib.closing(scheduler_client(address)) as client:
            cluster = cls(client, address)
            cluster._look()
            while not cluster._num_threads:
                time.sleep(WAIT_S)
                cluster._look()
            cluster._refuse_other_versions()
            yield cluster

    def chunks(self, items: Sequence[Item], at_most: int) -> Iterator[Sequence[Item]]:
        """Yield items in chunks of up to this many, a few chunks or more for each thread of the workers.

        A chunk costs the scheduler, a worker and this process some ten milliseconds of processor time.
        Workers may come and go meanwhile.
        """
        begin = 0
        while begin < len(items):
            enough = len(items) // (CHUNKS_OF_A_THREAD * max(1, self._num_threads))
            end = begin + max(1, min(at_most, enough))
            yield items[begin:end]
            begin = end

    def results(
        self, function: Callable[[list[Item]], Sequence[Result]], chunks: Iterable[Sequence[Item]]
    ) -> Generator[list[Result], None, None]:
        """Yield the results of each chunk of items, in order; only a few chunks are computed ahead.

        Args:
            function: returns a result for each item; of a module, or a `functools.partial` of such a one. A
                lost worker's chunks are computed again, so it may be called twice for a chunk.
            chunks: of paths, or of dataclasses with an `audio_path`.

        Raises:
            UserError: the function raised it, a worker does not find a file that is found here, several
                workers were lost by the same chunk, or the scheduler has ended.
        """
        pending: deque[_Chunk] = deque()
        source = iter(chunks)
        try:
            while True:
                while len(pending) < self._num_ahead() and (items := next(source, None)) is not None:
                    pending.append(self._submit(function, list(items)))
                if not pending:
                    return
                yield self._results_of(pending[0])
                pending.popleft()
        finally:
            if pending:  # interrupted
                with contextlib.suppress(Exception):  # the scheduler may be gone
                    self._client.cancel([chunk.future for chunk in pending])

    def _submit(self, function: Callable[[list[Item]], Sequence[Result]], items: list[Item]) -> _Chunk:
        # the paths of workers, which have another working directory
        there = [_with_path(item, _absolute(_path_of(item))) for item in items]
        call = pickle.dumps((function, there))
        future = self._client.submit(_call_there, _own_version(), call, pure=False)
        return _Chunk([_path_of(item) for item in items], future)

    def _results_of(self, chunk: _Chunk) -> list[Any]:
        answer = self._answer(chunk)
        for path in answer.missing:
            if _is_there(path):
                raise UserError(
                    f"{answer.worker}: does not find {path}, which is there on {socket.gethostname()}; every "
                    "worker needs the same files under the same paths, such as those of a network disk"
                )
        return [_as_given(result, path) for path, result in zip(chunk.paths, answer.results, strict=True)]

    def _answer(self, chunk: _Chunk) -> _Answer:
        from distributed import KilledWorker

        try:
            while not chunk.future.done():
                with contextlib.suppress(TimeoutError):
                    chunk.future.exception(timeout=LOOK_S)
                    break
                self._look()
            answer: _Answer = chunk.future.result()
        except KilledWorker as error:
            number = error.allowed_failures + 1
            were = "was" if number == 1 else "were"
            raise UserError(
                f"{self._address}: {counted(number, 'worker')} {were} lost by the work on "
                f"{listed(chunk.paths, MAX_LISTED)}; their logs give the reason, such as too little memory"
            ) from None
        except ModuleNotFoundError as error:
            raise UserError(f"{self._address}: a worker lacks a module ({error}); {SAME_VERSION}") from None
        except CancelledError:
            raise self._ended() from None
        return answer

    def _num_ahead(self) -> int:
        if time.monotonic() - self._looked_s >= LOOK_S:
            self._look()
        return AHEAD * max(1, self._num_threads)

    def _look(self) -> None:
        """Count the workers' threads, and log it when there are no more.

        Raises:
            UserError: the scheduler has ended.
        """
        before = self._num_threads
        if self._client.status != "running":
            raise self._ended()
        try:
            self._num_threads = sum(self._client.nthreads().values())
        except (OSError, TimeoutError):
            raise self._ended() from None
        self._looked_s = time.monotonic()
        if before and not self._num_threads:
            waiting = "has no workers; waiting for one, which `dask worker %s` starts"
            logger.warning(f"%s: {waiting}", self._address, self._address)

    def _refuse_other_versions(self) -> None:
        """Raise a UserError for a worker without this project, or with another version or files of it."""
        versions = self._client.run(eval, VERSION_THERE, on_error="return")
        for worker, version in versions.items():
            if isinstance(version, Exception):
                reason = f"does not have Polyphone ({type(version).__name__}: {version})"
                raise UserError(f"worker {worker}: {reason}; {SAME_VERSION}")
            if version != __version__:
                raise UserError(_other_version(f"worker {worker}", version, __version__))
        for worker, version in self._client.run(_own_version).items():
            if version != _own_version():
                raise UserError(_other_version(f"worker {worker}", version, _own_version()))

    def _ended(self) -> UserError:
        return UserError(
            f"{self._address}: the scheduler does not answer any more; start it and its workers, and run the "
            "same command again"
        )


SAME_VERSION = "install the same version on all workers, and start them again"


class _Chunk(NamedTuple):
    """Work that was submitted: the paths of its items as given, and a `distributed.Future` of an answer."""

    paths: list[str]
    future: Any


class _Answer(NamedTuple):
    """The results of a chunk, the worker that computed them, and the files that it did not find."""

    results: Sequence[Any]
    worker: str
    missing: list[str]


def _call_there(version: str, call: bytes) -> _Answer:
    """Compute the results of a chunk, on a worker."""
    from distributed import get_worker

    worker = f"worker {get_worker().address} on {socket.gethostname()}"
    if version != _own_version():
        raise UserError(_other_version(worker, _own_version(), version))
    function, items = pickle.loads(call)
    paths = [_path_of(item) for item in items]
    try:
        results = function(items)
    except StorageError as error:  # such as credentials that this worker lacks
        raise StorageError(f"{worker}: {error}") from None
    return _Answer(results, worker, [path for path in paths if not _is_there(path)])


@functools.cache
def _own_version() -> str:
    """Return the version of this project with a digest of its modules; checkouts differ."""
    digest = hashlib.sha256()
    project = Path(__file__).parents[2]
    for module in sorted(path for room in ROOMS_OF_WORK for path in (project / room).rglob("*.py")):
        digest.update(f"{module.relative_to(project).as_posix()}\n".encode() + module.read_bytes())
    return f"{__version__} ({digest.hexdigest()[:8]})"


def _other_version(worker: str, received: str, expected: str) -> str:
    return f"{worker}: has Polyphone {received}, expected {expected}; {SAME_VERSION}"


def _path_of(item: Any) -> str:
    return str(item if isinstance(item, str | Path) else item.audio_path)


def _with_path(item: Any, path: str) -> Any:
    if isinstance(item, str | Path):
        return type(item)(path)
    return item if item.audio_path == path else dataclasses.replace(item, audio_path=path)


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 (keeps `./`)


def _is_there(path: str) -> bool:
    """Return whether a file exists, or that of a piece of a packed file, PATH@BEGIN+SIZE."""
    return any(name and os.path.exists(name) for name in (path, path.rpartition("@")[0]))  # noqa: PTH110


def _as_given(result: Any, path: str) -> Any:
    """Return a worker's result for a file in which the file has the name that it was given here."""
    there = _absolute(path)
    if path == there:
        return result
    if isinstance(result, list):
        return [_as_given(one, path) for one in result]
    if isinstance(result, UserError):
        renamed = copy.copy(result)
        renamed.args = (_message_as_given(str(result), there, path),)
        return renamed
    if not dataclasses.is_dataclass(result) or isinstance(result, type):
        return result
    fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    paths = {name: path for name in PATHS if fields.get(name) == there}
    messages = {name: _message_as_given(fields[name], there, path) for name in MESSAGES if fields.get(name)}
    return dataclasses.replace(result, **paths, **messages)


def _message_as_given(message: str, there: str, path: str) -> str:
    """Return a message in which a file, and others of this folder, have their names of here."""
    renamed = re.sub(BEGIN_OF_PATH + re.escape(there), lambda _: path, message)
    folder = _absolute("")  # such as of a proposed file beside it
    return renamed if folder == "/" else re.sub(BEGIN_OF_PATH + re.escape(folder), "", renamed)
