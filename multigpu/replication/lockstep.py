"""Runs towers in lockstep: each in a thread of its own, one at a time, and all wait where values are summed.

A layer or a loss asks for the sum over all towers through TensorFlow's own interface, as Keras's
`BatchNormalization(synchronized=True)` does:

    tf.distribute.get_replica_context().all_reduce("SUM", values)

The gradient of that sum is the sum of the gradients, so the backward passes synchronize as well. Threads are
used because gradient tapes, device scopes and Keras's scopes belong to a thread; one runs at a time, so that
the order of operations is the same in every run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from multigpu.replication.towers import Share, Tensor

Result = TypeVar("Result")


def run_without_sums(run: Callable[[], Result], contexts: Sequence[TowerContext]) -> Result | None:
    """Run towers outside of lockstep and return their results; None if one asks for a sum over all towers.

    The contexts know whether one has asked. The error does not: a layer may catch it, and AutoGraph raises
    another one in its place.

    Args:
        run: runs the towers.
        contexts: of the towers.
    """
    try:
        results = run()
    except Exception:
        if any(context.asked_for_sum for context in contexts):
            return None
        raise
    return None if any(context.asked_for_sum for context in contexts) else results


def run_in_lockstep(towers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run every tower to its end and return their results.

    Raises:
        RuntimeError: the towers do not ask for the same sums, or one asks within a loop or a function.
        Exception: the error that a tower raised; the others are stopped.
    """
    around = _surroundings()
    threads = [_TowerThread(tower, around) for tower in towers]
    try:
        sums: list[Tensor] | None = None
        while True:
            pending = [thread.run_to_next_sum(sums) for thread in threads]
            if all(values is None for values in pending):
                return [thread.result for thread in threads]
            if any(values is None for values in pending):
                raise RuntimeError(
                    "a tower ended while others wait for a sum over all towers; every tower must ask for the "
                    "same sums"
                )
            sums = [tf.add_n(column) for column in zip(*pending, strict=True)]
    finally:
        for thread in threads:
            thread.stop()


def sum_over_towers(values: Sequence[Tensor]) -> list[Tensor]:
    """Return the sum of each value over the towers; called from within a tower.

    Raises:
        RuntimeError: the tower was not run in lockstep.
    """
    thread = threading.current_thread()
    if not isinstance(thread, _TowerThread):
        raise RuntimeError("expected a tower in lockstep, received one outside; run it by `run_in_lockstep`")
    return thread.sum_over_towers(list(values))


class TowerContext(tf.distribute.ReplicaContext):
    """The answer to `tf.distribute.get_replica_context()` for the layers and losses of a tower.

    Args:
        index: index of the tower.
        num_towers: number of towers of the model.
        share: the tower's share of the batch.

    Attributes:
        asked_for_sum: whether the tower has asked for a sum over all towers.
    """

    def __init__(self, index: int, num_towers: int, share: Share) -> None:
        super().__init__(tf.distribute.get_strategy(), replica_id_in_sync_group=index)
        self.index, self.share, self.asked_for_sum = index, share, False
        self._num_towers = num_towers

    @property
    def num_replicas_in_sync(self) -> int:
        """Return the number of towers."""
        return self._num_towers

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Return the sum over the towers of every tensor of a structure, or the mean weighted by their rows.

        A tower without rows of its own has no effect.
        """
        self.asked_for_sum = True
        mean = str(getattr(reduce_op, "value", reduce_op)).upper() == "MEAN"
        factor = self.share.weight if mean else self.share.in_use

        def scaled(values: Sequence[Tensor]) -> list[Tensor]:
            return [value * tf.cast(factor, value.dtype) for value in values]

        @tf.custom_gradient
        def reduced(*values: Tensor) -> Any:
            def backward(*gradients: Tensor) -> list[Tensor]:

                return scaled(sum_over_towers(gradients))

            return sum_over_towers(scaled(values)), backward

        sums = reduced(*(tf.convert_to_tensor(one) for one in tf.nest.flatten(value)))
        return tf.nest.pack_sequence_as(value, list(sums) if isinstance(sums, list | tuple) else [sums])

    def all_gather(self, value: Any, axis: Any, options: Any = None) -> Any:
        """Refuse to gather values of all towers.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("towers support all_reduce only; use it in place of all_gather")


class Alone(TowerContext):
    """The context of a tower that has no others: its sums over all towers are its own values."""

    def __init__(self, share: Share) -> None:
        super().__init__(0, 1, share)

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Return the value, as tensors."""
        return tf.nest.map_structure(tf.convert_to_tensor, value)


class _TowerThread(threading.Thread):
    """A tower's thread, which pauses when it asks for a sum over all towers, until it is given that sum."""

    def __init__(
        self,
        tower: Callable[[], Any],
        around: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        super().__init__(daemon=True)
        self.result: Any = None
        self._tower, self._around = tower, around
        self._error: BaseException | None = None
        self._refusal: RuntimeError | None = None
        self._my_turn, self._their_turn = threading.Semaphore(0), threading.Semaphore(0)
        self._values: list[Tensor] | None = None
        self._sums: list[Tensor] | None = None
        self._home: tf.Graph | None = None
        self._stopping = False
        self.start()

    def run_to_next_sum(self, sums: list[Tensor] | None) -> list[Tensor] | None:
        """Run until the tower asks for a sum, and return the values to be summed, or None at the end."""
        self._sums, self._values = sums, None
        self._my_turn.release()
        self._their_turn.acquire()
        if self._error:
            raise self._error
        return self._values

    def stop(self) -> None:
        """End the thread, wherever it is."""
        self._stopping = True
        self._my_turn.release()
        self.join()

    def sum_over_towers(self, values: list[Tensor]) -> list[Tensor]:
        """Wait for the sum over all towers and return it; called by the tower itself."""
        if _graph() is not self._home:
            self._refusal = RuntimeError(
                "towers cannot synchronize within a loop, or a tf.function of a layer's own; move the "
                "synchronized layer out of it, or leave synchronized=True out"
            )
            raise self._refusal
        if not self._stopping:
            self._values = values
            self._their_turn.release()
            self._my_turn.acquire()
        if self._stopping or self._sums is None:
            raise RuntimeError("another tower has failed")  # unwinds this one, whose result nobody reads
        return self._sums

    def run(self) -> None:
        """Run the tower when it is its turn (called by `start`)."""
        self._my_turn.acquire()
        try:
            if not self._stopping:
                with self._around():
                    self._home = _graph()
                    self.result = self._tower()
            self._error = self._refusal  # which a layer may have caught
        except BaseException as error:  # raised again in the thread of `run_to_next_sum`
            if not self._stopping:
                self._error = error
        self._their_turn.release()


def _graph() -> tf.Graph | None:
    """Return the graph that operations are added to; None in eager mode."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def _surroundings() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return a context manager that enters this thread's graph and name scope in another thread."""
    graph = _graph()
    if graph is None:
        return contextlib.nullcontext
    scope = graph.get_name_scope()

    @contextlib.contextmanager
    def enter() -> Iterator[None]:
        with graph.as_default(), tf.name_scope(f"{scope}/" if scope else ""):
            yield

    return enter
