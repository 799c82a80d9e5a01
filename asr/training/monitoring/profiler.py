"""Profile a few steps of a session with TensorFlow: what the devices compute, and what they wait for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from asr.base.errors import UserError

logger = logging.getLogger(__name__)


class Profiler:
    """A profile of some steps after the first ones, which trace and compile.

    Args:
        directory: the one that TensorBoard reads.
        first_step: the first profiled step of this session, at least 2.
        num_steps: number of steps to profile; fewer if the session ends before.
    """

    def __init__(self, directory: Path, first_step: int = 10, num_steps: int = 10) -> None:
        assert first_step > 1, "the profiler starts after a step"
        self._directory, self._first, self._last = directory, first_step, first_step + num_steps - 1
        self._num_done = 0
        self._running = False
        self._marked = contextlib.ExitStack()

    def step(self) -> None:
        """Count a step, and start or end the profile if it is time; call this after every step.

        Raises:
            UserError: the profiler cannot start, or its profile cannot be written.
        """
        self._num_done += 1
        if not self._first - 1 <= self._num_done <= self._last:
            return
        self._marked.close()
        if self._num_done == self._first - 1:
            with self._errors_as_user_errors():
                tf.profiler.experimental.start(str(self._directory))
            self._running = True
        if self._num_done == self._last:
            self.close()
        else:
            # the profiler's step includes the wait for the batch
            self._marked.enter_context(
                tf.profiler.experimental.Trace("train", step_num=self._num_done + 1, _r=1)
            )

    def close(self) -> None:
        """End the profile, if the session ends before the last profiled step.

        Raises:
            UserError: the profile cannot be written.
        """
        self._marked.close()
        if not self._running:
            if self._num_done < self._first - 1:
                logger.warning(
                    "no profile: it starts at step %d, but the session had only %d",
                    self._first,
                    self._num_done,
                )
            return
        self._running = False
        with self._errors_as_user_errors():
            tf.profiler.experimental.stop()
        logger.info(
            "profile of steps %d to %d written to %s; to view it, pip install tensorboard-plugin-profile and "
            "start TensorBoard on that folder",
            self._first,
            self._num_done,
            self._directory,
        )

    @contextlib.contextmanager
    def _errors_as_user_errors(self) -> Iterator[None]:
        try:
            yield
        except (tf.errors.OpError, OSError) as error:
            reason = str(getattr(error, "message", error)).partition("\n")[0]
            raise UserError(
                f"{self._directory}: profiling failed ({reason}); train without `profile`"
            ) from None
