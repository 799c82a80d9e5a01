"""Runs all towers of a model on their devices, and merges their results by their shares of the batch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from multigpu.replication.declared import Shapes
from multigpu.replication.keras_internals import (
    clear_added_losses,
    layers_of,
    synchronize_masked_statistics,
)
from multigpu.replication.lockstep import TowerContext, run_in_lockstep, run_without_sums
from multigpu.replication.state import check_stateless, weigh_means_by_rows, write_updates
from multigpu.replication.stateless import Tower, TowerResult, call_as_outermost, shapes_for_any_rows
from multigpu.replication.towers import Structure, Tensor, as_tensors, merge, share_out, weighted_mean

LossOfRows: TypeAlias = Callable[[Structure], tuple[Tensor, Structure]]


class LossAndGradients(NamedTuple):
    """The loss, outputs and gradients of a whole batch."""

    loss: Tensor  # () mean over the rows
    outputs: Structure
    gradients: list[Tensor | None]  # of `trainable_variables`, None where the loss does not depend on one


class TowerOutputs(NamedTuple):
    """The outputs and added losses of a whole batch."""

    outputs: Structure
    added_losses: list[Tensor]  # values that the model's layers passed to `add_loss`, () each


class ModelTowers:
    """A model on several devices at once.

    Args:
        inner: the model.
        devices: their names.
        merge_on: name of the device where results are merged.
    """

    def __init__(self, inner: keras.Model, devices: Sequence[str], merge_on: str) -> None:
        self.inner, self.devices, self.merge_on = inner, list(devices), merge_on
        self.jit_compile = False
        self._in_lockstep = False

    @property
    def synchronized(self) -> bool:
        """Return whether a layer is configured to ask for sums over all towers."""
        return any(getattr(layer, "synchronized", False) for layer in layers_of(self.inner))

    def outputs(self, call: Callable[[Structure], Structure], batch: Structure) -> TowerOutputs:
        """Return the merged outputs of `call` over all shares.

        Gradients taken from outside are computed on the device of each share.

        Args:
            call: rows -> outputs.
            batch: tensors with rows.
        """
        towers = self._cut(batch)
        declared = self._declared(call, batch, towers)
        tensors, rebuild_towers = _tensors([(tower.rows, tower.values) for tower in towers])
        ran: list[TowerResult] = []

        @tf.custom_gradient
        def run(*tensors: Tensor) -> Any:
            own = [
                tower.with_tensors(rows, values)
                for tower, (rows, values) in zip(towers, rebuild_towers(tensors), strict=True)
            ]
            tapes = [tf.GradientTape(persistent=True, watch_accessed_variables=False) for _ in own]

            def forward(tower: Tower, tape: tf.GradientTape) -> TowerResult:
                with tape:
                    tape.watch(_floating(_tensors((tower.rows, tower.values))[0]))
                    return tower.run(lambda rows, _: call(rows), jit_compile=self.jit_compile)

            ran.extend(self._run_all(forward, own, tapes))
            made = [_tensors((one.result, one.added_losses))[0] for one in ran]

            def backward(*upstream: Tensor) -> list[Tensor | None]:
                given = iter(upstream)
                upstream_of = [[next(given) for _ in outputs] for outputs in made]

                def differentiate(tower: Tower, tape: tf.GradientTape, outputs: Any, above: Any) -> Any:
                    pairs = [(o, g) for o, g in zip(outputs, above, strict=True) if o.dtype.is_floating]
                    with tf.device(tower.device):
                        return tape.gradient(
                            [output for output, _ in pairs],
                            _tensors((tower.rows, tower.values))[0],
                            output_gradients=[gradient for _, gradient in pairs],
                        )

                run_calls = run_in_lockstep if self._in_lockstep else _run_in_turn
                below = run_calls(_calls(differentiate, own, tapes, made, upstream_of))
                _combine_overwritten(below, towers[0].variables)
                return [gradient for gradients in below for gradient in gradients]

            return [output for outputs in made for output in outputs], backward

        made = run(*tensors)
        _, rebuild_outputs = _tensors([(one.result, one.added_losses) for one in ran])
        outputs = rebuild_outputs(made if isinstance(made, list | tuple) else [made])
        self._write(ran, towers)
        with tf.device(self.merge_on):
            results, added_losses = zip(*outputs, strict=True)
            shares = [tower.share for tower in towers]
            return TowerOutputs(merge(results, shares, declared), merge(added_losses, shares))

    def losses(self, loss_of: LossOfRows, batch: Structure) -> tuple[Tensor, Structure]:
        """Return the loss and the outputs of a batch.

        Args:
            loss_of: rows -> (mean loss over these rows, outputs).
            batch: tensors with rows.
        """
        towers = self._cut(batch)
        declared = self._declared(lambda rows: loss_of(rows)[1], batch, towers)

        def run(tower: Tower) -> TowerResult:
            return tower.run(lambda rows, _: loss_of(rows), jit_compile=self.jit_compile)

        ran = self._run_all(run, towers)
        self._write(ran, towers)
        losses, outputs = zip(*(one.result for one in ran), strict=True)
        shares = [tower.share for tower in towers]
        with tf.device(self.merge_on):
            return weighted_mean(losses, shares), merge(outputs, shares, declared)

    def loss_and_gradients(
        self, loss_of: LossOfRows, batch: Structure, scale: Tensor | float
    ) -> LossAndGradients:
        """Return the loss, outputs and gradients of a batch, each share's computed on its own device.

        Args:
            loss_of: rows -> (mean loss over these rows, outputs).
            batch: tensors with rows.
            scale: factor of the gradients.
        """
        towers = self._cut(batch)
        declared = self._declared(lambda rows: loss_of(rows)[1], batch, towers)
        num_weights = len(self.inner.trainable_variables)

        def run(tower: Tower) -> TowerResult:
            def work(rows: Structure, values: list[Tensor]) -> Any:
                weights = values[:num_weights]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(weights)
                    loss, outputs = loss_of(rows)
                    factor = tf.cast(scale, tf.float64) * tower.share.weight
                    target = loss * tf.cast(factor, loss.dtype)
                return loss, outputs, tape.gradient(target, weights)

            return tower.run(work, jit_compile=self.jit_compile)

        ran = self._run_all(run, towers)
        self._write(ran, towers)
        losses, outputs, gradients = zip(*(one.result for one in ran), strict=True)
        shares = [tower.share for tower in towers]
        with tf.device(self.merge_on):
            return LossAndGradients(
                weighted_mean(losses, shares),
                merge(outputs, shares, declared),
                combined_gradients(self.inner.trainable_variables, gradients),
            )

    def _cut(self, batch: Structure) -> list[Tower]:
        batch = as_tensors(batch)
        inner, num_towers = self.inner, len(self.devices)
        if not inner.built:
            raise ValueError(
                f"{inner.name}: not built yet, so towers have no weights; call the model on a batch first"
            )
        check_stateless(inner, num_towers)
        synchronize_masked_statistics(inner)
        weigh_means_by_rows(inner)
        # the trainable ones first
        variables = [*inner.trainable_variables, *inner.non_trainable_variables, *inner.metrics_variables]
        return [
            Tower.on(device, TowerContext(index, num_towers, share), batch, variables)
            for index, (device, share) in enumerate(
                zip(self.devices, share_out(batch, num_towers), strict=True)
            )
        ]

    def _declared(
        self, work: Callable[[Structure], Structure], batch: Structure, towers: Sequence[Tower]
    ) -> Callable[[], Shapes | None]:
        shares = [tower.share for tower in towers]
        return shapes_for_any_rows(work, as_tensors(batch), towers[0].variables, shares)

    def _run_all(
        self, forward: Callable[..., TowerResult], towers: Sequence[Tower], *columns: Iterable[Any]
    ) -> list[TowerResult]:
        """Run every tower, in lockstep if one asks for a sum over all."""
        calls = _calls(forward, towers, *columns)
        if not self._in_lockstep:
            results = run_without_sums(lambda: _run_in_turn(calls), [tower.context for tower in towers])
            if results is not None:
                return results
            self._in_lockstep = True
            if self.jit_compile:
                warnings.warn(
                    "synchronized towers cannot be compiled by XLA; continuing without it", stacklevel=2
                )
                self.jit_compile = False
        clear_added_losses(self.inner)
        return run_in_lockstep([functools.partial(call_as_outermost, call) for call in calls])

    def _write(self, ran: Sequence[TowerResult], towers: Sequence[Tower]) -> None:
        updates = [one.updates for one in ran]
        write_updates(self.inner, updates, [tower.share for tower in towers], self.merge_on)


def _tensors(structure: Structure) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Structure]]:
    """Return the tensors in a structure, and a function that rebuilds it with other tensors."""
    leaves = tf.nest.flatten(structure)
    indices = [index for index, leaf in enumerate(leaves) if tf.is_tensor(leaf)]

    def rebuild(tensors: Sequence[Tensor]) -> Structure:
        new = dict(zip(indices, tensors, strict=True))
        return tf.nest.pack_sequence_as(structure, [new.get(i, leaf) for i, leaf in enumerate(leaves)])

    return [leaves[index] for index in indices], rebuild


def _floating(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if isinstance(tensor, tf.Tensor) and tensor.dtype.is_floating]


def combined_gradients(variables: Sequence[Any], of_towers: Iterable[Sequence[Any]]) -> list[Any]:
    """Return each variable's gradient of the whole batch, given the towers' gradients of all variables.

    A variable that the optimiser overwrites with its gradient, as a scale of float8 is, gets the maximum, as
    in Keras's gradient accumulation: such a gradient is a new value, not a part of a sum.
    """
    return [
        _maximum(column) if is_overwritten(variable) else sum_gradients(column)
        for variable, column in zip(variables, zip(*of_towers, strict=True), strict=True)
    ]


def is_overwritten(variable: Any) -> bool:
    """Return whether the optimiser overwrites a variable with its gradient."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


def _maximum(gradients: Sequence[Any]) -> Any:
    existing = [gradient for gradient in gradients if gradient is not None]
    return functools.reduce(tf.maximum, existing) if existing else None


def _combine_overwritten(of_towers: Sequence[list[Any]], variables: Sequence[Any]) -> None:
    """Let the sum of the towers' gradients be the maximum for variables that are overwritten with it.

    Args:
        of_towers: the gradients of each tower, changed in place; those of the variables are the last ones.
        variables: that the towers have copies of.
    """
    for index, variable in enumerate(variables, -len(variables)):
        if is_overwritten(variable):
            of_towers[0][index] = _maximum([gradients[index] for gradients in of_towers])
            for gradients in of_towers[1:]:
                gradients[index] = None


def sum_gradients(gradients: Sequence[Any]) -> Any:
    """Sum the towers' gradients of one variable; sparse ones, of embeddings, stay sparse."""
    existing = [gradient for gradient in gradients if gradient is not None]
    if not existing:
        return None
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in existing):
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in existing], axis=0),
            tf.concat([gradient.indices for gradient in existing], axis=0),
            existing[0].dense_shape,
        )
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in existing])


def _calls(function: Callable[..., Any], *columns: Iterable[Any]) -> list[Callable[[], Any]]:
    return [functools.partial(function, *arguments) for arguments in zip(*columns, strict=True)]


def _run_in_turn(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    return [call() for call in calls]
