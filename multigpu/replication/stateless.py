"""Runs one tower of a model, on its share of a batch and its copy of the weights, as a pure function.

`keras.StatelessScope` hands the model the copied weights and collects its updates (moving statistics, seeds,
metrics), so that towers do not wait for each other's writes, and XLA can compile each tower separately.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from multigpu.replication.declared import Shapes, declared_shapes
from multigpu.replication.keras_internals import SEED_STATE, mask_of, set_mask
from multigpu.replication.lockstep import Alone, TowerContext
from multigpu.replication.towers import Share, Structure, Tensor, num_in_use

SEED_STEP = 1_000_003  # between the seeds of towers, far more than between seeds that people give to layers

Work: TypeAlias = Callable[[Structure, list[Tensor]], Structure]
Update: TypeAlias = tuple[Any, Tensor]  # a variable and the value that was assigned to it


class TowerResult(NamedTuple):
    """The result of running a tower."""

    result: Structure
    updates: list[Update]
    added_losses: list[Tensor]  # values that layers passed to `add_loss`, () each


@dataclass(frozen=True)
class Tower:
    """The work of one device: its rows, and its copy of the variables.

    Attributes:
        device: name of the device.
        context: replica context that the layers see.
        rows: the tower's share of the batch.
        variables: all variables that the model may read.
        values: values of these variables, copied to the device.
    """

    device: str
    context: TowerContext
    rows: Structure
    variables: Sequence[Any]
    values: list[Tensor]

    @classmethod
    def on(cls, device: str, context: TowerContext, batch: Structure, variables: Sequence[Any]) -> Tower:
        """Make a tower on a device, with its rows and its copy of the variables."""
        values = copies_of(variables, device)
        with tf.device(device):
            rows = context.share.rows(batch)
        return cls(device, context, rows, variables, values).with_own_seeds()

    @property
    def share(self) -> Share:
        """Return which rows of the batch the tower processes."""
        return self.context.share

    def with_tensors(self, rows: Structure, values: list[Tensor]) -> Tower:
        """Return this tower with other rows and values."""
        return dataclasses.replace(self, rows=rows, values=values)

    def with_own_seeds(self) -> Tower:
        """Return this tower with other random numbers than every other; the first one has the model's."""
        with tf.device(self.device):
            values = [
                _own_seed(value, self.context.index) if variable.name == SEED_STATE else value
                for variable, value in zip(self.variables, self.values, strict=True)
            ]
        return self.with_tensors(self.rows, values)

    def run(self, work: Work, *, jit_compile: bool) -> TowerResult:
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
        return TowerResult(result, list(zip(changed, written, strict=True)), added_losses)


def shapes_for_any_rows(
    work: Callable[[Structure], Structure],
    batch: Structure,
    variables: Sequence[Any],
    shares: Sequence[Share],
) -> Callable[[], Shapes | None]:
    """Return a function that returns the shapes of a model's results for any number of rows.

    Called before the towers run, since a layer remembers what it last passed to `add_loss`; where the number
    of rows is unknown, the function that is returned does the work, if it is needed at all.

    Args:
        work: rows -> results, as each tower computes them.
        batch: the rows.
        variables: all variables that the model may read.
        shares: of the towers.
    """

    def call(rows: Structure) -> Structure:
        values = [tf.convert_to_tensor(variable.value) for variable in variables]
        tower = Tower("/CPU:0", Alone(shares[0]), rows, variables, values)
        return tower.run(lambda rows, _: work(rows), jit_compile=False).result

    if not isinstance(shares[0].size, int):
        return lambda: declared_shapes(call, batch)
    shapes = declared_shapes(call, batch) if num_in_use(shares) > 1 else None
    return lambda: shapes


def call_as_outermost(
    function: Callable[[], Any], *, training: bool | None = None, name: str = "tower"
) -> Any:
    """Call a function such that Keras treats no model in it as the outermost layer.

    Layers that the function calls learn from Keras whether they train, as the layers of a model do.

    Keras clears the losses of all layers within the outermost one when that is called. If that were the
    model, each of several towers in lockstep would lose the losses added before its first synchronization.
    """
    return _Outermost(name=name, dtype="float32", autocast=False)(function=function, training=training)


class _Outermost(keras.layers.Layer):
    """A function called as an outermost layer that has no layers within."""

    def call(self, function: Callable[[], Any], training: bool | None = None) -> Any:
        return function()


class _Recording(keras.StatelessScope):
    """A scope that records which variables are written to, besides their values."""

    def __init__(self, mapping: Iterable[tuple[Any, Tensor]]) -> None:
        super().__init__(mapping, collect_losses=True, initialize_variables=False)
        self.changed: dict[int, Any] = {}

    def add_update(self, update: tuple[Any, Tensor]) -> None:
        variable, value = update
        if variable.name == SEED_STATE and id(variable) not in self.state_mapping:
            raise ValueError(
                "random numbers without a seed generator would be the same in every tower; create a "
                "keras.random.SeedGenerator in the layer, and draw with seed=self.seed_generator"
            )
        if variable.trainable and id(variable) in self.state_mapping:
            # as with a variable, gradients are with respect to the weight, not to the value assigned to it
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
    """Return the masks that Keras attaches to outputs, to be carried where Keras does not."""
    return [mask_of(output) for output in tf.nest.flatten(outputs)]


def with_masks(outputs: Structure, masks: Sequence[Tensor | None]) -> Structure:
    """Attach masks to outputs, and return the outputs."""
    for output, mask in zip(tf.nest.flatten(outputs), masks, strict=True):
        if mask is not None:
            set_mask(output, mask)
    return outputs


def copies_of(variables: Sequence[Any], device: str) -> list[Tensor]:
    """Return the values of variables, copied to a device."""
    with tf.device(device):
        return [tf.identity(variable.value) for variable in variables]


def _own_seed(state: Tensor, tower_index: int) -> Tensor:
    return state + tf.constant([tower_index * SEED_STEP, 0], state.dtype) if tower_index else state
