"""Towers that meet: each runs in a thread of its own, one at a time, and all stop where values are summed.

A layer asks for the sum over all towers by TensorFlow's own means, as Keras's
`BatchNormalization(synchronized=True)` does:

    tf.distribute.get_replica_context().all_reduce("SUM", values)

The gradient of that sum is the sum of the gradients, so the backward passes meet as well. Threads, because
gradient tapes, device scopes and Keras's scopes belong to a thread; one at a time, so that the order of
operations is the same in every run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

Tensor: TypeAlias = Any


def run_in_lockstep(towers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run every tower to its end and return their results.

    Raises:
        RuntimeError: the towers do not meet in the same places.
        Exception: what a tower raised; the others are stopped.
    """
    around = _surroundings()
    threads = [_TowerThread(index, len(towers), tower, around) for index, tower in enumerate(towers)]
    try:
        sums: list[Tensor] | None = None
        while True:
            met = [thread.go_on(sums) for thread in threads]
            if all(values is None for values in met):
                return [thread.result for thread in threads]
            if any(values is None for values in met):
                raise RuntimeError("a tower ended where others wait for its values: towers must do the same")
            sums = [tf.add_n(column) for column in zip(*met, strict=True)]
    finally:
        for thread in threads:
            thread.stop()


class _Stopped(BaseException):
    """Ends a tower whose neighbour failed."""


class _TowerThread:
    """A tower that runs until it meets the others, and on when it is told their sum."""

    def __init__(
        self, index: int, num_towers: int, tower: Callable[[], Any], around: Callable[[], Any]
    ) -> None:
        self.index, self.num_towers = index, num_towers
        self.result: Any = None
        self._tower, self._around = tower, around
        self._error: BaseException | None = None
        self._my_turn, self._their_turn = threading.Semaphore(0), threading.Semaphore(0)
        self._values: list[Tensor] | None = None
        self._sums: list[Tensor] | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self, sums: list[Tensor] | None) -> list[Tensor] | None:
        """Run until the next meeting; returns the values to be summed, or None at the end."""
        self._sums, self._values = sums, None
        self._my_turn.release()
        self._their_turn.acquire()
        if self._error:
            raise self._error
        return self._values

    def stop(self) -> None:
        """End it, wherever it is."""
        self._stopping = True
        self._my_turn.release()
        self._thread.join()

    def meet(self, values: list[Tensor]) -> list[Tensor]:
        """Called by the tower: wait for the sum over all towers."""
        self._values = values
        self._their_turn.release()
        self._my_turn.acquire()
        if self._stopping or self._sums is None:
            raise _Stopped
        return self._sums

    def _run(self) -> None:
        self._my_turn.acquire()
        try:
            if not self._stopping:
                with self._around(), _TowerContext(self):
                    self.result = self._tower()
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        self._their_turn.release()


class _TowerContext(tf.distribute.ReplicaContext):
    """What layers find in `tf.distribute.get_replica_context()`."""

    def __init__(self, thread: _TowerThread) -> None:
        super().__init__(tf.distribute.get_strategy(), replica_id_in_sync_group=thread.index)
        self._tower_thread = thread

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of towers."""
        return self._tower_thread.num_towers

    def meet(self, values: list[Tensor]) -> list[Tensor]:
        """The sum of each value over the towers."""
        return self._tower_thread.meet(values)

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Sum or mean over the towers of every tensor of a structure."""
        mean = str(getattr(reduce_op, "value", reduce_op)).upper() == "MEAN"

        @tf.custom_gradient
        def summed(*values: Tensor) -> Any:
            def backward(*gradients: Tensor) -> list[Tensor]:
                # not self: `call` runs forward and backward passes in threads of their own
                context: _TowerContext = tf.distribute.get_replica_context()
                return context.meet(list(gradients))

            return self.meet(list(values)), backward

        sums = summed(*tf.nest.flatten(value))
        sums = list(sums) if isinstance(sums, list | tuple) else [sums]
        if mean:
            sums = [total / self.num_replicas_in_sync for total in sums]
        return tf.nest.pack_sequence_as(value, sums)


def _surroundings() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """The graph and name scope of this thread, to be entered in another."""
    if tf.executing_eagerly():
        return contextlib.nullcontext
    graph = tf.compat.v1.get_default_graph()
    scope = graph.get_name_scope()

    @contextlib.contextmanager
    def enter() -> Iterator[None]:
        with graph.as_default(), tf.name_scope(f"{scope}/" if scope else ""):
            yield

    return enter
