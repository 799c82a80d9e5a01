"""One tower of a model: its share of a batch, its copy of the weights, and what comes of them.

Within a tower the model is a pure function. `keras.StatelessScope` hands it the copied weights and keeps
what it writes (moving statistics, seeds, metrics), so that towers do not wait for each other's writes, and
XLA can compile one by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from multigpu.keras_internals import SEED_STATE, mask_of, set_mask
from multigpu.lockstep import TowerContext
from multigpu.towers import Share, Structure, Tensor

SEED_STEP = 1_000_003  # from tower to tower, far from the seeds that people give neighbouring layers

Work: TypeAlias = Callable[[Structure, list[Tensor]], Structure]


class Ran(NamedTuple):
    """What came of a tower."""

    result: Structure
    updates: list[tuple[Any, Tensor]]  # variables and the values that it gave them
    added_losses: list[Tensor]  # what layers gave to `add_loss`, () each


@dataclass(frozen=True)
class Tower:
    """What one device works on.

    Attributes:
        device: its name.
        context: what layers find in it.
        rows: its share of the batch.
        variables: all that the model may read.
        values: of these, copied to the device.
    """

    device: str
    context: TowerContext
    rows: Structure
    variables: Sequence[Any]
    values: list[Tensor]

    @classmethod
    def on(cls, device: str, context: TowerContext, batch: Structure, variables: Sequence[Any]) -> Tower:
        """With its rows and its copy of the variables."""
        with tf.device(device):
            values = [_copy(variable, context.index) for variable in variables]
            return cls(device, context, context.share.rows(batch), variables, values)

    @property
    def share(self) -> Share:
        """Which rows these are."""
        return self.context.share

    def with_tensors(self, rows: Structure, values: list[Tensor]) -> Tower:
        """Itself, with others in place of its rows and values."""
        return dataclasses.replace(self, rows=rows, values=values)

    def run(self, work: Work, *, jit_compile: bool) -> Ran:
        """Run `work(rows, values)` on the device, as a pure function."""
        changed: list[Any] = []

        def pure(rows: Structure, values: list[Tensor]) -> tuple[Structure, list[Tensor], list[Tensor]]:
            with _Recording(zip(self.variables, values, strict=True)) as scope:
                result = work(rows, values)
            changed[:] = scope.changed.values()
            return result, [scope.get_current_value(variable) for variable in changed], scope.losses

        if jit_compile and not tf.executing_eagerly():
            pure = tf.function(pure, jit_compile=True, autograph=False)
        with tf.device(self.device), self.context:
            result, written, added_losses = pure(self.rows, self.values)
        return Ran(result, list(zip(changed, written, strict=True)), added_losses)


def call_as_outermost(function: Callable[[], Any]) -> Any:
    """Call a function such that Keras takes no model in it for the outermost layer.

    Keras forgets the losses of all layers within the outermost one when it is called. Were that the model,
    each of several towers in lockstep would lose what was added before it met the others.
    """
    return _Outermost(name="tower", dtype="float32", autocast=False)(function=function)


class _Outermost(keras.layers.Layer):
    """Has no layers within."""

    def call(self, function: Callable[[], Any]) -> Any:
        return function()


class _Recording(keras.StatelessScope):
    """Also keeps which variables are written to."""

    def __init__(self, mapping: Iterable[tuple[Any, Tensor]]) -> None:
        super().__init__(mapping, collect_losses=True, initialize_variables=False)
        self.changed: dict[int, Any] = {}

    def add_update(self, update: tuple[Any, Tensor]) -> None:
        variable, value = update
        if variable.name == SEED_STATE and id(variable) not in self.state_mapping:
            raise ValueError(
                "random numbers without a seed generator would be the same in every tower: let the layer "
                "make a keras.random.SeedGenerator, and draw with seed=self.seed_generator"
            )
        if variable.trainable and id(variable) in self.state_mapping:
            # as with a variable, gradients are with respect to the weight, not to what was assigned to it
            old = self.state_mapping[id(variable)]
            value = old + tf.stop_gradient(value - old)
        super().add_update((variable, value))
        self.changed[id(variable)] = variable

    def add_loss(self, loss: Tensor) -> None:
        if loss.shape.rank != 0:
            raise ValueError(
                f"add_loss: expected a scalar, the mean over the rows, received shape {loss.shape}; "
                "use keras.ops.mean"
            )
        super().add_loss(loss)


def masks_of(outputs: Structure) -> list[Tensor | None]:
    """The masks that Keras hangs on tensors, which go where it does not carry them."""
    return [mask_of(output) for output in tf.nest.flatten(outputs)]


def with_masks(outputs: Structure, masks: Sequence[Tensor | None]) -> Structure:
    """Outputs with masks hung on them."""
    for output, mask in zip(tf.nest.flatten(outputs), masks, strict=True):
        if mask is not None:
            set_mask(output, mask)
    return outputs


def _copy(variable: Any, tower_index: int) -> Tensor:
    value = tf.identity(variable.value)
    if variable.name == SEED_STATE and tower_index:
        value += tf.constant([tower_index * SEED_STEP, 0], value.dtype)
    return value
