"""Runs one stage of a model on its device with the rows of one micro-batch, forward and then backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from multigpu.replication.model_towers import sum_gradients
from multigpu.replication.stateless import Tower, TowerResult, Update, call_as_outermost, masks_of, with_masks
from multigpu.replication.towers import Structure, Tensor
from multigpu.stages.cut import ModelStage

Values: TypeAlias = Mapping[int, Structure]  # what layers return, by key
Gradients: TypeAlias = dict[int, list[list[Tensor]]]  # of values by key: for each tensor, those to be summed
LossOfValues: TypeAlias = Callable[[Values], tuple[Tensor | None, Structure]]


class Forward(NamedTuple):
    """The results of a stage's forward pass."""

    values: Values  # that the stage computed for others
    loss: Tensor | None  # of the last stage, () mean over the rows
    outputs: Structure  # of the last stage
    added_losses: list[Tensor]  # values that layers passed to `add_loss`, () each
    updates: list[Update]


class Backward(NamedTuple):
    """The results of a stage's backward pass."""

    below: dict[int, list[Tensor | None]]  # of what the stage took from earlier ones, one for each tensor
    gradients: list[Tensor | None]  # of the trainable weights


class Rules(NamedTuple):
    """How a stage runs."""

    training: bool  # whether layers train
    recompute: bool = False  # whether the forward pass is repeated before the backward pass
    adds_losses: bool = True  # whether values that layers pass to `add_loss` are part of the loss


class StageRun:
    """A stage on its device, run for one micro-batch.

    Both passes run inside of the device's scope, in which the tape records and is used. The tape is released
    by the backward pass, and the activations with it. With `recompute`, only what the stage took is kept
    between the passes, and the forward pass is repeated before the backward pass, with equal random numbers.

    Args:
        stage: what runs.
        tower: the device, the micro-batch's share of the batch, and the values of all variables that the
            stage may read, the trainable weights first.
        num_weights: number of trainable weights.
        rules: how it runs.
        finish: of the last stage: values that it took or made -> (mean loss or None, outputs).
    """

    def __init__(
        self,
        stage: ModelStage,
        tower: Tower,
        num_weights: int,
        rules: Rules,
        finish: LossOfValues | None = None,
    ) -> None:
        self.stage, self.device = stage, tower.device
        self._num_weights, self._rules, self._finish = num_weights, rules, finish
        self._tower = tower
        self._tape: tf.GradientTape | None = None
        self._recorded: Forward | None = None

    def forward(self, values: Values, after: Sequence[Any] = (), *, differentiable: bool = False) -> Forward:
        """Run the forward pass.

        Args:
            values: at least those that the stage takes.
            after: operations of the graph that must end before the pass begins.
            differentiable: whether the backward pass follows.
        """
        self._take({key: values[key] for key in (*self.stage.batch_inputs, *self.stage.inputs)}, after)
        if differentiable and not self._rules.recompute:
            return self._record()
        return self._run()

    def backward(self, above: Gradients, factor: Tensor, after: Sequence[Any] = ()) -> Backward:
        """Run the backward pass, once, after a differentiable forward pass.

        Args:
            above: gradients of values, from all later stages.
            factor: gradient of the losses, () float64.
            after: operations of the graph that must end before a forward pass is repeated.
        """
        above = {key: above[key] for key in self.stage.outputs if key in above}
        if self._rules.recompute:
            # not before the gradients are there, to keep memory free until then
            given = [one for column in above.values() for gradients in column for one in gradients]
            self._take(self._tower.rows, [*given, *after])
            self._record()
        made, tape = self._recorded, self._tape
        assert made is not None
        assert tape is not None
        targets, upstream = [], []
        with tf.device(self.device):
            for key, column in above.items():
                for value, gradients in zip(tf.nest.flatten(made.values[key]), column, strict=True):
                    if gradients:
                        targets.append(value)
                        upstream.append(tf.convert_to_tensor(sum_gradients(gradients)))
            for loss in (made.loss, *made.added_losses):
                if loss is not None:
                    targets.append(loss)
                    upstream.append(tf.cast(factor, loss.dtype))
            taken = self._differentiable()
            below = tape.gradient(targets, [*taken, *self._weights], output_gradients=upstream)
        self._tape = self._recorded = None
        of_taken = iter(below[: len(taken)])
        own = {
            key: [next(of_taken) if _is_floating(value) else None for value in tf.nest.flatten(values)]
            for key, values in self._tower.rows.items()
            if key in self.stage.inputs
        }
        return Backward(own, below[len(taken) :])

    @property
    def trained(self) -> list[Any]:
        """Return the trainable weights of the stage, in the order of their gradients."""
        return list(self._tower.variables[: self._num_weights])

    @property
    def _weights(self) -> list[Tensor]:
        return self._tower.values[: self._num_weights]

    def _take(self, values: Values, after: Sequence[Any]) -> None:
        """Copy values to the device, with the masks that Keras attached to them."""
        with tf.device(self.device), tf.control_dependencies(list(after)):
            taken = {key: _copied(value) for key, value in values.items()}
        self._tower = self._tower.with_tensors(taken, self._tower.values)

    def _differentiable(self) -> list[Tensor]:
        """Return the tensors that were taken from earlier stages and have gradients."""
        taken = self._tower.rows
        return [
            value for key in self.stage.inputs for value in tf.nest.flatten(taken[key]) if _is_floating(value)
        ]

    def _record(self) -> Forward:
        self._tape = tf.GradientTape(watch_accessed_variables=False)
        with self._tape:
            self._tape.watch([*self._differentiable(), *self._weights])
            self._recorded = self._run()
        return self._recorded

    def _run(self) -> Forward:
        def work(taken: dict[int, Structure], _: list[Tensor]) -> Any:
            values = dict(taken)

            def run_calls() -> None:
                for call in self.stage.calls:
                    values.update(call.run(values, self._rules.training))

            call_as_outermost(run_calls, training=self._rules.training, name=f"stage{self.stage.index}")
            finished = self._finish(values) if self._finish else (None, ())
            return {key: values[key] for key in self.stage.outputs}, *finished

        ran: TowerResult = self._tower.run(work, jit_compile=False)
        values, loss, outputs = ran.result
        added = ran.added_losses if self._rules.adds_losses else []
        return Forward(values, loss, outputs, added, ran.updates)


def _copied(value: Structure) -> Structure:
    masks = [None if mask is None else tf.identity(mask) for mask in masks_of(value)]
    copied = tf.nest.map_structure(lambda one: tf.identity(one) if tf.is_tensor(one) else one, value)
    return with_masks(copied, masks)


def _is_floating(value: Any) -> bool:
    return bool(tf.is_tensor(value) and value.dtype.is_floating)
