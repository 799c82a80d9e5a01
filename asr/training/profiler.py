"""TensorFlow's profiler over a few steps of a session: what the devices do, and what they wait for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tqdm import tqdm

from asr.base.types import UserError


class Profiler:
    """Profiles some steps, once they run as usual: the first ones trace and compile.

    Args:
        directory: where TensorBoard is pointed at.
        first_step: of this session, from 2.
        num_steps: to profile; fewer where the session ends before.
    """

    def __init__(self, directory: Path, first_step: int = 10, num_steps: int = 10) -> None:
        assert first_step > 1, "the profiler starts after a step"
        self._directory, self._first, self._last = directory, first_step, first_step + num_steps - 1
        self._num_done = 0
        self._running = False
        self._marked = contextlib.ExitStack()

    def step(self) -> None:
        """Call after every step.

        Raises:
            UserError: the profiler cannot start, or its profile cannot be written.
        """
        self._num_done += 1
        if not self._first - 1 <= self._num_done <= self._last:
            return
        self._marked.close()
        if self._num_done == self._first - 1:
            with self._named_errors():
                tf.profiler.experimental.start(str(self._directory))
            self._running = True
        if self._num_done == self._last:
            self.close()
        else:
            # what it shows as one step includes the wait for the batch
            self._marked.enter_context(
                tf.profiler.experimental.Trace("train", step_num=self._num_done + 1, _r=1)
            )

    def close(self) -> None:
        """End the profile, where the session ends before its last step.

        Raises:
            UserError: the profile cannot be written.
        """
        self._marked.close()
        if not self._running:
            if self._num_done < self._first - 1:
                tqdm.write(f"no profile: step {self._first} was to be its first, {self._num_done} were made")
            return
        self._running = False
        with self._named_errors():
            tf.profiler.experimental.stop()
        tqdm.write(
            f"profile of steps {self._first} to {self._num_done} in {self._directory}: "
            f"pip install tensorboard-plugin-profile, then tensorboard --logdir {self._directory}"
        )

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (tf.errors.OpError, OSError) as error:
            reason = str(getattr(error, "message", error)).partition("\n")[0]
            raise UserError(f"{self._directory}: no profile ({reason}); train without --profile") from None
