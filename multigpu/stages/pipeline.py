"""Runs the stages of a model on a batch, micro-batch by micro-batch, and sums what each contributes.

Stages run at the same time because a graph only says what depends on what. The order of each stage is that
of 1F1B (one forward, one backward pass; Narayanan et al., 2021, arXiv:2006.09503): stage k of S begins the
forward pass of a micro-batch when the backward pass of the one S - k before it has ended. So at most S - k of
them hold activations there. Where layers or losses need sums over the whole batch, all micro-batches run
stage by stage instead, and all of them hold activations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from multigpu.keras_internals import LayerGraph, clear_added_losses, layers_of
from multigpu.lockstep import LockstepRequired, TowerContext, run_in_lockstep
from multigpu.model_towers import LossAndGradients, sum_gradients, write_updates
from multigpu.stages.cut import Stage
from multigpu.stages.stage_run import Backward, Forward, Gradients, StageRun
from multigpu.towers import Share, Structure, Tensor, as_tensors, merge, share_out, weighted_mean

HOST = "/CPU:0"  # where batches come from

# (outputs, *rows) -> (() mean loss over these rows or None, what a step returns of these rows)
Finish: TypeAlias = Callable[..., tuple[Tensor | None, Structure]]


class Pipeline:
    """Computes outputs, losses and gradients of a batch by stages on several devices.

    Args:
        inner: the model.
        graph: its calls of layers.
        stages: its stages.
        devices: name of each stage's device.
        num_micro_batches: number of parts of a batch.
        recompute: whether all stages but the last repeat their forward pass before the backward pass.
        adds_losses: whether the loss includes regularisers, and values that layers passed to `add_loss`.
    """

    def __init__(
        self,
        inner: keras.Model,
        graph: LayerGraph,
        stages: Sequence[Stage],
        devices: Sequence[str],
        num_micro_batches: int,
        *,
        recompute: bool = False,
        adds_losses: bool = True,
    ) -> None:
        self.inner, self.graph, self.stages = inner, graph, list(stages)
        self.devices, self.num_micro_batches = list(devices), num_micro_batches
        self.recompute, self.adds_losses = recompute, adds_losses
        self._in_lockstep = False

    def num_held(self, stage: Stage) -> int:
        """Return the largest number of micro-batches whose activations a stage holds at a time."""
        last = len(self.stages) - 1
        if any(getattr(layer, "synchronized", False) for layer in layers_of(self.inner)):
            return self.num_micro_batches
        if self.recompute and stage.index < last:
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
        return self._forward(finish, as_tensors((x, rows)), training=training)

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
        shares = share_out((x, rows), self.num_micro_batches)
        factors = [tf.cast(scale, tf.float64) * share.weight for share in shares]
        passes: list[list[Forward]] = []

        def step() -> list[list[Tensor | None]]:
            runs, inputs = self._runs(finish, (x, rows), shares, training=True)
            schedule = self._stage_by_stage if self._in_lockstep else self._one_forward_one_backward
            return schedule(runs, inputs, factors, passes)

        sums = self._synchronizing(step, passes)
        self._write(passes, shares)
        penalties = []
        for index, (stage, device) in enumerate(zip(self.stages, self.devices, strict=True)):
            with tf.device(device):
                losses, more = self._regularization(stage, scale)
                sums[index] = [sum_gradients(pair) for pair in zip(sums[index], more, strict=True)]
                penalties += losses
        of_weight = {
            id(weight): gradient
            for stage, gradients in zip(self.stages, sums, strict=True)
            for weight, gradient in zip(self._weights(stage), gradients, strict=True)
        }
        loss, outputs = self._merge(passes, shares, penalties)
        return LossAndGradients(
            loss, outputs, [of_weight[id(weight)] for weight in self.inner.trainable_variables]
        )

    # schedules

    def _one_forward_one_backward(
        self,
        runs: list[list[StageRun]],
        inputs: list[dict[int, Structure]],
        factors: Sequence[Tensor],
        passes: list[list[Forward]],
    ) -> list[list[Tensor | None]]:
        """Return the sums of each stage's gradients, with at most S - k micro-batches alive in stage k."""
        num_stages = len(self.stages)
        sums: list[list[Tensor | None]] = [[] for _ in self.stages]
        ended: list[list[Any]] = [[] for _ in self.stages]  # of each stage's backward passes
        for micro_batch, own_runs in enumerate(runs):
            values, forwards = dict(inputs[micro_batch]), []
            for index, run in enumerate(own_runs):
                before = micro_batch - (num_stages - index)
                after = [ended[index][before]] if before >= 0 else []
                forwards.append(run.forward(values, after, differentiable=True))
                values.update(forwards[-1].values)
            passes.append(forwards)
            above: Gradients = {}
            for index, run in reversed(list(enumerate(own_runs))):
                back = run.backward(self._above(index, above), factors[micro_batch])
                above = _collected(above, back.below)
                with tf.device(self.devices[index]):
                    sums[index] = _added(sums[index], back.gradients)
                    ended[index].append(tf.group(*_tensors_of(back)))
        return sums

    def _stage_by_stage(
        self,
        runs: list[list[StageRun]],
        inputs: list[dict[int, Structure]],
        factors: Sequence[Tensor],
        passes: list[list[Forward]],
    ) -> list[list[Tensor | None]]:
        """Return the sums of each stage's gradients; micro-batches synchronize within a stage."""
        values = [dict(own) for own in inputs]
        passes.extend([] for _ in runs)
        for index, device in enumerate(self.devices):
            calls = [
                functools.partial(own_runs[index].forward, own, differentiable=True)
                for own_runs, own in zip(runs, values, strict=True)
            ]
            with tf.device(device):
                for own, forwards, forward in zip(values, passes, run_in_lockstep(calls), strict=True):
                    own.update(forward.values)
                    forwards.append(forward)
        sums: list[list[Tensor | None]] = [[] for _ in self.stages]
        above: list[Gradients] = [{} for _ in runs]
        for index, device in reversed(list(enumerate(self.devices))):
            backward_calls = [
                functools.partial(own_runs[index].backward, self._above(index, own), factor)
                for own_runs, own, factor in zip(runs, above, factors, strict=True)
            ]
            with tf.device(device):
                backs: list[Backward] = run_in_lockstep(backward_calls)
                for back in backs:
                    sums[index] = _added(sums[index], back.gradients)
            above = [_collected(own, back.below) for own, back in zip(above, backs, strict=True)]
        return sums

    def _forward(
        self, finish: Finish, batch: tuple[Structure, Structure], *, training: bool
    ) -> tuple[Tensor, Structure]:
        shares = share_out(batch, self.num_micro_batches)
        passes: list[list[Forward]] = []

        def step() -> None:
            runs, inputs = self._runs(finish, batch, shares, training=training)
            passes.extend([] for _ in runs)
            for index, device in enumerate(self.devices):
                calls = [
                    functools.partial(own_runs[index].forward, own)
                    for own_runs, own in zip(runs, inputs, strict=True)
                ]
                with tf.device(device):
                    done = run_in_lockstep(calls) if self._in_lockstep else [call() for call in calls]
                for own, forwards, forward in zip(inputs, passes, done, strict=True):
                    own.update(forward.values)
                    forwards.append(forward)

        self._synchronizing(step, passes)
        self._write(passes, shares)
        penalties = []
        for stage, device in zip(self.stages, self.devices, strict=True):
            with tf.device(device):
                penalties += self._regularization(stage, 1.0)[0]
        return self._merge(passes, shares, penalties)

    def _synchronizing(self, step: Callable[[], Any], passes: list[list[Forward]]) -> Any:
        """Run a step, in lockstep if a layer or a loss asks for sums over all micro-batches."""
        if not self._in_lockstep:
            try:
                return step()
            except LockstepRequired:
                self._in_lockstep = True
                passes.clear()
        clear_added_losses(self.inner)
        return step()

    # parts of a step

    def _runs(
        self,
        finish: Finish,
        batch: tuple[Structure, Structure],
        shares: Sequence[Share],
        *,
        training: bool,
    ) -> tuple[list[list[StageRun]], list[dict[int, Structure]]]:
        """Return for each micro-batch the runs of its stages, and the inputs of the model by key."""
        last = len(self.stages) - 1
        runs, inputs = [], []
        for index, share in enumerate(shares):
            context = TowerContext(index, len(shares), share)
            with tf.device(HOST):
                x = self.graph.standardize(share.rows(batch[0]))
            inputs.append(dict(zip(self.graph.inputs, x, strict=True)))
            runs.append(
                [
                    StageRun(
                        stage,
                        device,
                        context,
                        self._variables(stage),
                        len(self._weights(stage)),
                        training=training,
                        recompute=self.recompute and stage.index < last,
                        adds_losses=self.adds_losses,
                        finish=self._finish(finish, share, batch[1]) if stage.index == last else None,
                    )
                    for stage, device in zip(self.stages, self.devices, strict=True)
                ]
            )
        return runs, inputs

    def _finish(
        self, finish: Finish, share: Share, rows: Structure
    ) -> Callable[[Any], tuple[Tensor | None, Structure]]:
        def of_values(values: Any) -> tuple[Tensor | None, Structure]:
            outputs = self.graph.pack([values[key] for key in self.graph.outputs])
            return finish(outputs, *share.rows(rows))

        return of_values

    def _regularization(
        self, stage: Stage, scale: Tensor | float
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        weights = self._weights(stage)
        return _regularization(weights, scale) if self.adds_losses else ([], [None] * len(weights))

    def _weights(self, stage: Stage) -> list[Any]:
        own = {id(variable) for variable in stage.variables}
        return [weight for weight in self.inner.trainable_variables if id(weight) in own]

    def _variables(self, stage: Stage) -> list[Any]:
        """Return what the stage may read: its variables, trainable first, and metrics in the last stage."""
        weights = self._weights(stage)
        variables = {id(variable): variable for variable in (*weights, *stage.variables)}
        if stage is self.stages[-1]:
            elsewhere = {id(variable) for other in self.stages[:-1] for variable in other.variables}
            metrics = {id(v): v for v in self.inner.metrics_variables if id(v) not in elsewhere}
            variables = {**variables, **metrics}
        return list(variables.values())

    def _above(self, index: int, above: Gradients) -> Gradients:
        """Return the gradients of what a stage made for others."""
        return {key: above[key] for key in self.stages[index].outputs if key in above}

    def _write(self, passes: Sequence[Sequence[Forward]], shares: Sequence[Share]) -> None:
        for device, column in zip(self.devices, zip(*passes, strict=True), strict=True):
            write_updates(self.inner, [forward.updates for forward in column], shares, device)

    def _merge(
        self, passes: Sequence[Sequence[Forward]], shares: Sequence[Share], penalties: Sequence[Tensor]
    ) -> tuple[Tensor, Structure]:
        losses = []
        for forwards in passes:
            of_one = [loss for forward in forwards for loss in forward.added_losses]
            if forwards[-1].loss is not None:
                of_one.append(forwards[-1].loss)
            losses.append(of_one)
        with tf.device(self.devices[-1]):
            outputs = merge([forwards[-1].outputs for forwards in passes], shares)
            means = [weighted_mean(column, shares) for column in zip(*losses, strict=True)]
            dtype = means[-1].dtype if means else keras.config.floatx()
            terms = [tf.cast(term, dtype) for term in (*means, *penalties)]
            return tf.add_n(terms) if terms else tf.zeros((), dtype), outputs


def _regularization(
    weights: Sequence[Any], scale: Tensor | float
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return the penalties of regularised weights, and the gradient of each weight's, None without one."""
    losses, gradients = [], []
    for weight in weights:
        gradient = None
        if weight.regularizer is not None:
            value = tf.identity(weight.value)
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(value)
                loss = weight.regularizer(value)
            gradient = tape.gradient(loss, value, output_gradients=tf.cast(scale, loss.dtype))
            losses.append(loss)
        gradients.append(gradient)
    return losses, gradients


def _collected(above: Gradients, below: Mapping[int, Sequence[Tensor | None]]) -> Gradients:
    """Return gradients of values with those from one more stage that took them."""
    collected = dict(above)
    for key, column in below.items():
        known = collected.get(key, [[] for _ in column])
        more = [[] if gradient is None else [gradient] for gradient in column]
        collected[key] = [[*old, *new] for old, new in zip(known, more, strict=True)]
    return collected


def _added(sums: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    if not sums:
        return list(gradients)
    return [sum_gradients(pair) for pair in zip(sums, gradients, strict=True)]


def _tensors_of(back: Backward) -> list[Tensor]:
    gradients = [*back.gradients, *(gradient for column in back.below.values() for gradient in column)]
    return [gradient for gradient in gradients if gradient is not None]
