"""Keep a run's latest, best and chosen checkpoints: write them in the background, and skip damaged ones.

with CheckpointStore(run, keep_last=2, keep_best=5) as store:
    store.save(state_of(model, optimizer), progress)   # returns at once
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from asr.base.errors import UserError
from asr.base.system.files import cannot_write
from asr.base.system.interrupt import Interrupted
from asr.base.text.wording import counted
from asr.runs.checkpoint import Arrays, Checkpoint, DamagedCheckpointError, read_checkpoint, write_checkpoint
from asr.runs.progress import EpochMetrics, Progress, best_first, chosen_epoch
from asr.runs.run import Run

logger = logging.getLogger(__name__)


class CheckpointStore:
    """Writes, keeps and finds the checkpoints of a run.

    Args:
        run: the run's directory.
        keep_last: number of latest checkpoints to keep.
        keep_best: number of checkpoints to keep of the epochs with the lowest dev error.
    """

    def __init__(self, run: Run, keep_last: int, keep_best: int) -> None:
        self.run, self.keep_last, self.keep_best = run, keep_last, keep_best
        self._writer = BackgroundWriter()

    def __enter__(self) -> CheckpointStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._writer.finish()
        elif not (isinstance(error, Interrupted) and error.at_once):
            with contextlib.suppress(Exception):  # the error that ends the run matters more
                self._writer.finish()

    def save(self, arrays: Arrays, progress: Progress) -> None:
        """Write a checkpoint, then the metrics, after those that are being written.

        Raises:
            UserError: the previous checkpoint could not be written.
        """

        def write() -> None:
            self.run.require()
            write_checkpoint(self.run.checkpoint_at(progress), arrays, progress)
            self.run.write_metrics(progress.history)
            self._remove_others(progress.history)

        self._writer.start(write)

    def finish(self) -> None:
        """Wait until everything is written.

        Raises:
            UserError: a checkpoint could not be written.
        """
        self._writer.finish()

    def raise_if_failed(self) -> None:
        """Raise the writer's error, if there was one.

        Raises:
            UserError: a checkpoint could not be written.
        """
        self._writer.raise_if_failed()

    def newest(self, repair: bool = True) -> Checkpoint | None:
        """Return the latest intact checkpoint, or None if there is none yet; log each damaged one.

        Args:
            repair: whether to rename damaged checkpoints, and to remove a killed process' unfinished files.

        Raises:
            UserError: all checkpoints are damaged or missing.
        """
        if repair:
            for path in self.run.directory.glob("checkpoints/*.part"):
                with contextlib.suppress(OSError):
                    path.unlink()
        paths = self.run.checkpoints()
        for number, path in enumerate(reversed(paths), 1):
            try:
                return read_checkpoint(path)
            except DamagedCheckpointError as error:
                if number == len(paths):
                    raise UserError(
                        f"{error}, and no other is left: start a new run under another `name`"
                    ) from None
                logger.warning("%s; using the one before it", error)
                if repair:
                    with contextlib.suppress(OSError):
                        path.replace(path.with_name(f"{path.name}.damaged"))
            except UserError:
                if path.exists():  # else another worker has renamed it meanwhile
                    raise
        if metrics := self.run.metrics():
            raise UserError(
                f"{self.run.directory}: no checkpoint is left of {counted(len(metrics), 'epoch')}; restore "
                "one, or start a new run under another `name`"
            )
        return None

    def _remove_others(self, history: Sequence[EpochMetrics]) -> None:
        kept = set(self.run.checkpoints()[-self.keep_last :])
        epochs = {metrics.epoch for metrics in best_first(history)[: self.keep_best]}
        epochs.add(chosen_epoch(history))
        kept |= {self.run.epoch_checkpoint(epoch) for epoch in epochs}
        for path in self.run.checkpoints():
            if path not in kept:
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise cannot_write(path.parent, "folder", error) from None


def trained_history(run: Run) -> Sequence[EpochMetrics]:
    """Return the metrics of a run's epochs; those of its last checkpoint if its process was killed after it.

    Raises:
        UserError: the metrics are damaged, or the checkpoint cannot be read.
    """
    metrics: Sequence[EpochMetrics] = run.metrics()
    for path in run.checkpoints()[-1:]:
        with contextlib.suppress(DamagedCheckpointError):
            metrics = max(metrics, read_checkpoint(path, ()).progress.history, key=len)
    return metrics


class BackgroundWriter:
    """A background thread that runs jobs one after another."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, job: Callable[[], None]) -> None:
        """Start a job after waiting for the previous one."""
        self.finish()
        # a daemon, so that the program can be stopped even if the disk hangs
        self._thread = threading.Thread(target=self._run, args=(job,), name="checkpoint", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the job, and raise its error if there was one."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.raise_if_failed()

    def raise_if_failed(self) -> None:
        """Raise the error of a finished job, if there was one."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self._error = error
