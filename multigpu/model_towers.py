"""A model's towers: on every device a share of the batch, a copy of the weights, and what comes of them.

Within a tower the model is a pure function. `keras.StatelessScope` hands it the copied weights and keeps
what it writes (moving statistics, seeds, metrics), so that towers do not wait for each other's writes, XLA
can compile one by itself, and what they wrote is put together once, by the towers' shares.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from multigpu.lockstep import run_in_lockstep
from multigpu.towers import Share, Structure, Tensor, as_tensors, merge, share_out

SEED_STATE = "seed_generator_state"  # the name of every Keras seed generator's variable
SEED_STEP = 1_000_003  # from tower to tower, far from the seeds that people give neighbouring layers

LossOfShare: TypeAlias = Callable[[Share, Structure], Any]
Updates: TypeAlias = list[tuple[Any, Tensor]]  # variables and the values that a tower gave them


class LossAndGradients(NamedTuple):
    """Of a whole batch."""

    loss: Tensor  # () mean over the rows
    outputs: Structure
    gradients: list[Tensor | None]  # of `trainable_variables`, None where the loss does not depend on one


class Tower(NamedTuple):
    """What one device works on."""

    device: str
    share: Share
    rows: Structure
    values: list[Tensor]  # of the model's variables, copied to the device


class ModelTowers:
    """Runs a model on several devices at once.

    Args:
        inner: the model.
        devices: their names.
        merge_on: name of the device where results are put together.
    """

    def __init__(self, inner: keras.Model, devices: Sequence[str], merge_on: str) -> None:
        self.inner, self.devices, self.merge_on = inner, list(devices), merge_on
        self.jit_compile = False

    @property
    def synchronized(self) -> bool:
        """Whether a layer asks for sums over all towers."""
        return any(getattr(layer, "synchronized", False) for layer in self.inner._flatten_layers())

    def outputs(self, call: Callable[[Structure], Structure], batch: Structure) -> Structure:
        """What `call` makes of each share, put together.

        Gradients taken from outside are computed on the device of each share.

        Args:
            call: rows -> outputs.
            batch: with rows.
        """
        towers = self._cut(batch)
        tensors, rebuild_towers = _tensors([(tower.rows, tower.values) for tower in towers])
        results: list[tuple[Structure, Updates]] = []

        @tf.custom_gradient
        def run(*tensors: Tensor) -> Any:
            own = [
                tower._replace(rows=rows, values=values)
                for tower, (rows, values) in zip(towers, rebuild_towers(tensors), strict=True)
            ]
            tapes = [tf.GradientTape(persistent=True, watch_accessed_variables=False) for _ in own]

            def forward(tower: Tower, tape: tf.GradientTape) -> tuple[Structure, Updates]:
                with tape:
                    tape.watch(_floating(_tensors((tower.rows, tower.values))[0]))
                    return self._run_tower(tower, lambda rows, _: call(rows))

            results.extend(self._run_all(forward, own, tapes))
            made = [_tensors(outputs)[0] for outputs, _ in results]

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

                below = self._run_all(differentiate, own, tapes, made, upstream_of)
                return [gradient for gradients in below for gradient in gradients]

            return [output for outputs in made for output in outputs], backward

        made = run(*tensors)
        _, rebuild_outputs = _tensors([outputs for outputs, _ in results])
        outputs = rebuild_outputs(made if isinstance(made, list | tuple) else [made])
        self._write([updates for _, updates in results], towers)
        with tf.device(self.merge_on):
            return merge(outputs, [tower.share for tower in towers])

    def losses(self, loss_of: LossOfShare, batch: Structure) -> tuple[Tensor, Structure]:
        """Loss and outputs of a batch.

        Args:
            loss_of: (share, rows) -> (loss, outputs, what the loss is a mean over; None for the rows).
            batch: with rows.
        """
        towers = self._cut(batch)

        def run(tower: Tower) -> Any:
            return self._run_tower(tower, lambda rows, _: loss_of(tower.share, rows))

        results = self._run_all(run, towers)
        self._write([updates for _, updates in results], towers)
        losses, outputs, counts = zip(*(result for result, _ in results), strict=True)
        shares = [tower.share for tower in towers]
        with tf.device(self.merge_on):
            return _weighted_sum(losses, _weights(counts, shares)), merge(outputs, shares)

    def loss_and_gradients(
        self, loss_of: LossOfShare, batch: Structure, scale: Tensor | float
    ) -> LossAndGradients:
        """Loss, outputs and gradients of a batch; each share's on its device.

        Args:
            loss_of: as `losses` takes it.
            batch: with rows.
            scale: gradients come multiplied by it.
        """
        towers = self._cut(batch)
        num_weights = len(self.inner.trainable_variables)

        def run(tower: Tower) -> Any:
            def work(rows: Structure, values: list[Tensor]) -> Any:
                weights = values[:num_weights]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(weights)
                    loss, outputs, count = loss_of(tower.share, rows)
                    factor = scale * (tower.share.weight if count is None else 1.0)
                    target = loss * tf.cast(factor, loss.dtype)
                return loss, outputs, count, tape.gradient(target, weights)

            return self._run_tower(tower, work)

        results = self._run_all(run, towers)
        self._write([updates for _, updates in results], towers)
        losses, outputs, counts, gradients = zip(*(result for result, _ in results), strict=True)
        shares = [tower.share for tower in towers]
        with tf.device(self.merge_on):
            weights = _weights(counts, shares)
            factors = None if counts[0] is None else weights  # else they are in the gradients already
            return LossAndGradients(
                _weighted_sum(losses, weights),
                merge(outputs, shares),
                [_sum_gradients(column, factors) for column in zip(*gradients, strict=True)],
            )

    def _cut(self, batch: Structure) -> list[Tower]:
        batch = as_tensors(batch)
        towers = []
        for index, (device, share) in enumerate(
            zip(self.devices, share_out(batch, len(self.devices)), strict=True)
        ):
            with tf.device(device):
                values = [self._copy(variable, index) for variable in self._variables]
                towers.append(Tower(device, share, share.rows(batch), values))
        return towers

    @property
    def _variables(self) -> list[Any]:
        """All that a tower may read; the trainable ones first."""
        rest = self.inner.non_trainable_variables
        return [*self.inner.trainable_variables, *rest, *self.inner.metrics_variables]

    def _copy(self, variable: Any, tower_index: int) -> Tensor:
        value = tf.identity(variable.value)
        if variable.name == SEED_STATE and tower_index:
            value += tf.constant([tower_index * SEED_STEP, 0], value.dtype)
        return value

    def _run_tower(self, tower: Tower, work: Callable[..., Any]) -> tuple[Any, Updates]:
        """Result of `work(rows, values)` under the tower's device, and what it wrote."""
        changed: list[Any] = []

        def pure(rows: Structure, values: list[Tensor]) -> tuple[Any, list[Tensor]]:
            mapping = zip(self._variables, values, strict=True)
            with _Recording(mapping) as scope:
                result = work(rows, values)
            changed[:] = scope.changed.values()
            return result, [scope.get_current_value(variable) for variable in changed]

        if self.jit_compile and not tf.executing_eagerly():
            pure = tf.function(pure, jit_compile=True, autograph=False)
        with tf.device(tower.device):
            result, written = pure(tower.rows, tower.values)
        return result, list(zip(changed, written, strict=True))

    def _run_all(self, function: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
        calls = [functools.partial(function, *arguments) for arguments in zip(*columns, strict=True)]
        return run_in_lockstep(calls) if self.synchronized else [call() for call in calls]

    def _write(self, written: Sequence[Updates], towers: Sequence[Tower]) -> None:
        """Give each variable that towers wrote to what they make of it together."""
        sums = {id(variable) for variable in self.inner.metrics_variables}
        shares = [tower.share for tower in towers]
        with tf.device(self.merge_on):
            for column in zip(*written, strict=True):
                variable = column[0][0]
                values = [value for _, value in column]
                if not values[0].dtype.is_floating:
                    variable.assign(values[0])  # a seed or a counter: as one device would have it
                elif id(variable) in sums:
                    old = tf.convert_to_tensor(variable.value)
                    more = [value - old for value in values]
                    variable.assign(old + _weighted_sum(more, [share.in_use for share in shares]))
                else:
                    variable.assign(_weighted_sum(values, [share.weight for share in shares]))


class _Recording(keras.StatelessScope):
    """Also keeps which variables are written to."""

    def __init__(self, mapping: Iterable[tuple[Any, Tensor]]) -> None:
        super().__init__(mapping, collect_losses=True, initialize_variables=False)
        self.changed: dict[int, Any] = {}

    def add_update(self, update: tuple[Any, Tensor]) -> None:
        super().add_update(update)
        self.changed[id(update[0])] = update[0]


def _tensors(structure: Structure) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Structure]]:
    """The tensors in a structure, and a function that puts others in their places."""
    leaves = tf.nest.flatten(structure)
    places = [place for place, leaf in enumerate(leaves) if tf.is_tensor(leaf)]

    def rebuild(tensors: Sequence[Tensor]) -> Structure:
        new = dict(zip(places, tensors, strict=True))
        return tf.nest.pack_sequence_as(structure, [new.get(i, leaf) for i, leaf in enumerate(leaves)])

    return [leaves[place] for place in places], rebuild


def _floating(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.dtype.is_floating]


def _weights(counts: Sequence[Tensor | None], shares: Sequence[Share]) -> list[Tensor]:
    """Of each tower's loss in the batch's."""
    if counts[0] is None:
        return [share.weight for share in shares]
    own = [tf.cast(count, tf.float32) * share.in_use for count, share in zip(counts, shares, strict=True)]
    return [tf.math.divide_no_nan(count, tf.add_n(own)) for count in own]


def _weighted_sum(values: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    return tf.add_n([v * tf.cast(w, v.dtype) for v, w in zip(values, weights, strict=True)])


def _sum_gradients(gradients: Sequence[Any], factors: Sequence[Tensor] | None) -> Any:
    """Of one variable over the towers; sparse ones, of embeddings, stay sparse."""
    there = [(g, factors[i] if factors else None) for i, g in enumerate(gradients) if g is not None]
    if not there:
        return None
    scaled = [gradient if factor is None else _times(gradient, factor) for gradient, factor in there]
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in scaled):
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in scaled], axis=0),
            tf.concat([gradient.indices for gradient in scaled], axis=0),
            scaled[0].dense_shape,
        )
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in scaled])


def _times(gradient: Any, factor: Tensor) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
