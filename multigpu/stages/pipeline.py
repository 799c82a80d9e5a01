"""Computes outputs, losses and gradients of a batch by stages, in micro-batches, and merges their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from multigpu.replication.declared import Shapes
from multigpu.replication.keras_internals import (
    LayerGraph,
    clear_added_losses,
    layers_of,
    synchronize_masked_statistics,
)
from multigpu.replication.lockstep import TowerContext, run_without_sums
from multigpu.replication.model_towers import LossAndGradients, sum_gradients
from multigpu.replication.state import check_stateless, weigh_means_by_rows, write_updates
from multigpu.replication.stateless import Tower, call_as_outermost, copies_of, shapes_for_any_rows
from multigpu.replication.towers import Share, Structure, Tensor, as_tensors, merge, share_out, weighted_mean
from multigpu.stages.cut import ModelStage
from multigpu.stages.finish import Finish, finish_without_loss
from multigpu.stages.schedules import (
    MicroBatch,
    Passes,
    Schedule,
    forward_in_lockstep,
    forward_in_turn,
    one_forward_one_backward,
    stage_by_stage,
)
from multigpu.stages.stage_run import LossOfValues, Rules, StageRun, Values

HOST = "/CPU:0"  # where batches come from


class _Work(NamedTuple):
    finish: Finish
    scale: Tensor | float
    x: Structure
    rows: Structure
    training: bool


class Pipeline:
    """Stages on several devices, which compute outputs, losses and gradients of a batch.

    Args:
        inner: the model.
        graph: its calls of layers.
        stages: its stages.
        replicas: for each replica of the stages the names of their devices; the first one's hold the weights.
        num_micro_batches: number of parts of each replica's share of a batch.
        recompute: whether all stages but the last repeat their forward pass before the backward pass.

    Attributes:
        adds_losses: whether the loss includes regularisers, and values that layers passed to `add_loss`.
    """

    adds_losses = True

    def __init__(
        self,
        inner: keras.Model,
        graph: LayerGraph,
        stages: Sequence[ModelStage],
        replicas: Sequence[Sequence[str]],
        num_micro_batches: int,
        *,
        recompute: bool = False,
    ) -> None:
        self.inner, self.graph, self.stages = inner, graph, list(stages)
        self.replicas, self.num_micro_batches = [list(devices) for devices in replicas], num_micro_batches
        self.recompute = recompute
        self._in_lockstep = False

    @property
    def homes(self) -> list[str]:
        """Return the name of the device of each stage that holds its weights."""
        return self.replicas[0]

    def num_held(self, stage: ModelStage) -> int:
        """Return of how many of a replica's micro-batches a stage holds the activations, at most."""
        if any(getattr(layer, "synchronized", False) for layer in layers_of(self.inner)):
            return self.num_micro_batches
        if self._recomputes(stage):
            return 1
        return min(self.num_micro_batches, len(self.stages) - stage.index)

    def forward(
        self, finish: Finish, x: Structure, *rows: Structure, training: bool
    ) -> tuple[Tensor, Structure]:
        """Return the loss of a batch, 0 without one, and what `finish` returns; no backward pass can follow.

        Args:
            finish: runs on the last stage's device.
            x: what the model is called with.
            *rows: further tensors of the batch, with rows.
            training: whether layers train.
        """
        x, rows = as_tensors((x, rows))
        work = _Work(finish, 1.0, x, rows, training)
        shares, passes, declared = self._run(work, forward_in_turn, forward_in_lockstep)
        penalties = []
        for stage, home in zip(self.stages, self.homes, strict=True):
            with tf.device(home):
                penalties += self._regularization(stage, 1.0)[0]
        return self._merge(work, passes, shares, penalties, declared)

    def loss_and_gradients(
        self, finish: Finish, scale: Tensor | float, x: Structure, *rows: Structure
    ) -> LossAndGradients:
        """Return the loss of a batch, what `finish` returns, and gradients.

        Where the batch has fewer rows than micro-batches, the remaining ones repeat a row with a weight of 0.

        Args:
            finish: runs on the last stage's device.
            scale: factor of the gradients.
            x: what the model is called with.
            *rows: further tensors of the batch, with rows.
        """
        x, rows = as_tensors((x, rows))
        work = _Work(finish, scale, x, rows, training=True)
        shares, passes, declared = self._run(work, one_forward_one_backward, stage_by_stage)
        penalties: list[Tensor] = []
        of_weight: dict[int, Tensor | None] = {}
        for stage, home, gradients in zip(self.stages, self.homes, passes.gradients, strict=True):
            with tf.device(home):
                losses, more = self._regularization(stage, scale)
                sums = [sum_gradients(pair) for pair in zip(gradients, more, strict=True)]
            penalties += losses
            of_weight.update(zip(map(id, self._trained(stage)), sums, strict=True))
        loss, outputs = self._merge(work, passes, shares, penalties, declared)
        return LossAndGradients(
            loss, outputs, [of_weight[id(weight)] for weight in self.inner.trainable_variables]
        )

    # parts of a step

    def _run(
        self, work: _Work, pipelined: Schedule, in_lockstep: Schedule
    ) -> tuple[list[Share], Passes, Callable[[], Shapes | None]]:
        """Run a batch, in lockstep if a layer or a loss needs sums over all micro-batches.

        Returns:
            The micro-batches' shares of the batch, replica by replica, their results, and a function that
            returns the shapes of what `finish` returns for any number of rows.
        """
        num_shares = len(self.replicas) * self.num_micro_batches
        check_stateless(self.inner, num_shares)
        synchronize_masked_statistics(self.inner)
        weigh_means_by_rows(self.inner)
        shares = share_out((work.x, work.rows), num_shares)
        declared = self._declared(work, shares)
        contexts = [TowerContext(index, len(shares), share) for index, share in enumerate(shares)]
        passes = None
        if not self._in_lockstep:
            passes = run_without_sums(
                lambda: pipelined(self._micro_batches(work, contexts), self.homes), contexts
            )
        if passes is None:
            self._in_lockstep = True
            clear_added_losses(self.inner)
            passes = in_lockstep(self._micro_batches(work, contexts), self.homes)
        for home, column in zip(self.homes, zip(*passes.forwards, strict=True), strict=True):
            write_updates(self.inner, [forward.updates for forward in column], shares, home)
        return shares, passes, declared

    def _declared(self, work: _Work, shares: Sequence[Share]) -> Callable[[], Shapes | None]:
        def whole(batch: Structure) -> Structure:
            x, rows = batch
            outputs = call_as_outermost(lambda: self.inner(x), training=work.training)
            return work.finish(outputs, *rows)[1]

        variables = [*self.inner.variables, *self.inner.metrics_variables]
        return shapes_for_any_rows(whole, (work.x, work.rows), variables, shares)

    def _micro_batches(self, work: _Work, contexts: Sequence[TowerContext]) -> list[list[MicroBatch]]:
        """Return the micro-batches of each replica, whose devices have one copy of their stage's weights."""
        remaining = iter(contexts)
        replicas = []
        for devices in self.replicas:
            towers = [
                (device, self._variables(stage), copies_of(self._variables(stage), device))
                for stage, device in zip(self.stages, devices, strict=True)
            ]
            own = itertools.islice(remaining, self.num_micro_batches)
            replicas.append([self._micro_batch(work, context, towers) for context in own])
        return replicas

    def _micro_batch(
        self, work: _Work, context: TowerContext, towers: Sequence[tuple[str, list[Any], list[Tensor]]]
    ) -> MicroBatch:
        share = context.share
        with tf.device(HOST):
            inputs = self.graph.standardize(share.rows(work.x))
        runs = [
            StageRun(
                stage,
                Tower(device, context, (), variables, values).with_own_seeds(),
                len(self._trained(stage)),
                Rules(work.training, self._recomputes(stage), self.adds_losses),
                self._finish(work, share) if stage is self.stages[-1] else None,
            )
            for stage, (device, variables, values) in zip(self.stages, towers, strict=True)
        ]
        factor = tf.cast(work.scale, tf.float64) * share.weight
        return MicroBatch(dict(zip(self.graph.inputs, inputs, strict=True)), runs, factor)

    def _finish(self, work: _Work, share: Share) -> LossOfValues:
        def finish(values: Values) -> tuple[Tensor | None, Structure]:
            outputs = self.graph.pack([values[key] for key in self.graph.outputs])
            return work.finish(outputs, *share.rows(work.rows))

        return finish

    def _recomputes(self, stage: ModelStage) -> bool:
        return self.recompute and stage is not self.stages[-1]

    def _trained(self, stage: ModelStage) -> list[Any]:
        """Return the trainable weights of a stage, in the order of the model's."""
        own = {id(variable) for variable in stage.variables}
        return [weight for weight in self.inner.trainable_variables if id(weight) in own]

    def _variables(self, stage: ModelStage) -> list[Any]:
        """Return what a stage may read: its variables, trainable first, and metrics in the last stage."""
        variables = {id(variable): variable for variable in (*self._trained(stage), *stage.variables)}
        if stage is self.stages[-1]:
            elsewhere = {id(variable) for other in self.stages[:-1] for variable in other.variables}
            metrics = {id(v): v for v in self.inner.metrics_variables if id(v) not in elsewhere}
            variables = {**variables, **metrics}
        return list(variables.values())

    def _regularization(
        self, stage: ModelStage, scale: Tensor | float
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """Return the penalties of regularised weights, and the gradient of each, None without a penalty."""
        penalties, gradients = [], []
        for weight in self._trained(stage):
            gradient = None
            if weight.regularizer is not None and self.adds_losses:
                value = tf.identity(weight.value)
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(value)
                    penalty = weight.regularizer(value)
                gradient = tape.gradient(penalty, value, output_gradients=tf.cast(scale, penalty.dtype))
                penalties.append(penalty)
            gradients.append(gradient)
        return penalties, gradients

    def _merge(
        self,
        work: _Work,
        passes: Passes,
        shares: Sequence[Share],
        penalties: Sequence[Tensor],
        declared: Callable[[], Shapes | None],
    ) -> tuple[Tensor, Structure]:
        """Return the loss and the outputs of the whole batch, on the last stage's device.

        Raises:
            ValueError: there is no loss, and `finish` should have computed one.
        """
        losses = []
        for forwards in passes.forwards:
            added = [loss for forward in forwards for loss in forward.added_losses]
            losses.append(added if forwards[-1].loss is None else [*added, forwards[-1].loss])
        with tf.device(self.homes[-1]):
            outputs = merge([forwards[-1].outputs for forwards in passes.forwards], shares, declared)
            means = [weighted_mean(column, shares) for column in zip(*losses, strict=True)]
            dtype = means[-1].dtype if means else keras.config.floatx()
            terms = [tf.cast(term, dtype) for term in (*means, *penalties)]
            if not terms and work.finish is not finish_without_loss:
                raise ValueError("No loss to compute. Provide a `loss` argument in `compile()`.")  # as Keras
            return tf.add_n(terms) if terms else tf.zeros((), dtype), outputs


def grouped(devices: Sequence[str], num_stages: int) -> list[tuple[str, ...]]:
    """Return the names of the devices of each replica of some stages.

    Raises:
        ValueError: the number of devices is no multiple of the number of stages.
    """
    if num_stages < 1 or len(devices) % num_stages:
        raise ValueError(
            f"expected a device for each of {num_stages} stages, or a multiple of that, received "
            f"{len(devices)}: {', '.join(devices)}"
        )
    starts = range(0, len(devices), num_stages)
    return [tuple(devices[start : start + num_stages]) for start in starts]
