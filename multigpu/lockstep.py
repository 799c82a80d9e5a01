"""Towers that meet: each runs in a thread of its own, one at a time, and all stop where values are summed.

A layer or a loss asks for the sum over all towers by TensorFlow's own means, as Keras's
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
from typing import Any

import tensorflow as tf

from multigpu.towers import Share, Tensor


class TowersMustMeet(BaseException):
    """A tower that was not run in lockstep asks for a sum over all; no layer is to catch it."""


def run_in_lockstep(towers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run every tower to its end and return their results.

    Raises:
        RuntimeError: the towers do not meet in the same places, or within a loop or a function.
        Exception: what a tower raised; the others are stopped.
    """
    around = _surroundings()
    threads = [_TowerThread(tower, around) for tower in towers]
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


def meet(values: Sequence[Tensor]) -> list[Tensor]:
    """The sum of each value over the towers, for the tower that asks.

    Raises:
        TowersMustMeet: it was not run in lockstep.
    """
    thread = threading.current_thread()
    if not isinstance(thread, _TowerThread):
        raise TowersMustMeet
    return thread.meet(list(values))


class TowerContext(tf.distribute.ReplicaContext):
    """What layers and losses of a tower find in `tf.distribute.get_replica_context()`.

    Args:
        index: of the tower.
        num_towers: of the model.
        share: of the batch.
    """

    def __init__(self, index: int, num_towers: int, share: Share) -> None:
        super().__init__(tf.distribute.get_strategy(), replica_id_in_sync_group=index)
        self.index, self.share = index, share
        self._num_towers = num_towers

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of towers."""
        return self._num_towers

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Of every tensor of a structure, the sum over the towers, or the mean weighted by their rows.

        A tower without rows of its own counts for nothing.
        """
        mean = str(getattr(reduce_op, "value", reduce_op)).upper() == "MEAN"
        factor = self.share.weight if mean else self.share.in_use

        def scaled(values: Sequence[Tensor]) -> list[Tensor]:
            return [value * tf.cast(factor, value.dtype) for value in values]

        @tf.custom_gradient
        def reduced(*values: Tensor) -> Any:
            def backward(*gradients: Tensor) -> list[Tensor]:
                return scaled(meet(gradients))

            return meet(scaled(values)), backward

        sums = reduced(*(tf.convert_to_tensor(one) for one in tf.nest.flatten(value)))
        return tf.nest.pack_sequence_as(value, list(sums) if isinstance(sums, list | tuple) else [sums])

    def all_gather(self, value: Any, axis: Any, options: Any = None) -> Any:
        """Refused.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("towers only sum: use all_reduce in place of all_gather")


class _Stopped(BaseException):
    """Ends a tower whose neighbour failed."""


class _TowerThread(threading.Thread):
    """A tower that runs until it meets the others, and on when it is told their sum."""

    def __init__(
        self,
        tower: Callable[[], Any],
        around: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        super().__init__(daemon=True)
        self.result: Any = None
        self._tower, self._around = tower, around
        self._error: BaseException | None = None
        self._my_turn, self._their_turn = threading.Semaphore(0), threading.Semaphore(0)
        self._values: list[Tensor] | None = None
        self._sums: list[Tensor] | None = None
        self._home: tf.Graph | None = None
        self._stopping = False
        self.start()

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
        self.join()

    def meet(self, values: list[Tensor]) -> list[Tensor]:
        """Called by the tower: wait for the sum over all towers."""
        if _graph() is not self._home:
            raise RuntimeError(
                "towers cannot meet within a loop, or a tf.function of a layer's own: take the synchronized "
                "layer out of it, or leave synchronized=True out"
            )
        self._values = values
        self._their_turn.release()
        self._my_turn.acquire()
        if self._stopping or self._sums is None:
            raise _Stopped
        return self._sums

    def run(self) -> None:
        """The thread."""
        self._my_turn.acquire()
        try:
            if not self._stopping:
                with self._around():
                    self._home = _graph()
                    self.result = self._tower()
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        self._their_turn.release()


def _graph() -> tf.Graph | None:
    """That operations go to; None where they run at once."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def _surroundings() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """The graph and name scope of this thread, to be entered in another."""
    graph = _graph()
    if graph is None:
        return contextlib.nullcontext
    scope = graph.get_name_scope()

    @contextlib.contextmanager
    def enter() -> Iterator[None]:
        with graph.as_default(), tf.name_scope(f"{scope}/" if scope else ""):
            yield

    return enter
