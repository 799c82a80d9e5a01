"""Every private name of Keras and TensorFlow that this package depends on, each behind a name of ours.

No other module of the package uses one; `tests/multigpu/test_keras_internals.py` tests that, and that all of
them exist in the versions installed. Each docstring says what would replace the private name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.compile_utils import CompileLoss
from tensorflow.python.eager import context as tensorflow_context
from typing_extensions import override

SEED_STATE = "seed_generator_state"
"""Name of the variable of every seed generator; replaced by an attribute that marks such variables."""

NOT_INLINED: Mapping[str, bool] = {"_noinline": True}
"""Attributes of a function that runs as one operation; replaced by an argument of `tf.function`."""

COMPILED_BY_XLA = "_XlaMustCompile"
"""Attribute of the nodes that XLA compiles; replaced by TensorFlow's report of what it compiled."""

GRAPH_ENDS = ("_Arg", "_DeviceArg", "_Retval")
"""Kinds of the nodes that a function's graph begins and ends with; part of TensorFlow's graph format."""

_MASK = "_keras_mask"


# layers and variables


def layers_of(model: keras.Model) -> list[keras.Layer]:
    """Return the model and all layers within it, at any depth; replaced by a public recursive `layers`."""
    layers: list[keras.Layer] = model._flatten_layers()
    return layers


def clear_added_losses(model: keras.Model) -> None:
    """Forget what layers gave to `add_loss`; replaced by a public method that does it."""
    model._clear_losses()


def make_variable_again(variable: keras.Variable, value: Any) -> None:
    """Make a variable's TensorFlow variable again, in the device scope of the caller.

    Replaced by a public way to move a `keras.Variable` to another device.
    """
    variable._initialize(value)


def mask_of(tensor: Any) -> Any:
    """Return the mask that Keras keeps with a tensor, None without one; replaced by a public `get_mask`."""
    return getattr(tensor, _MASK, None)


def set_mask(tensor: Any, mask: Any) -> None:
    """Let Keras find a mask with a tensor; replaced by a public `set_mask`."""
    setattr(tensor, _MASK, mask)


# losses


def compiled_loss(model: keras.Model) -> Any:
    """Return what `compile` made of the losses given to it, None without one.

    Replaced by a public attribute; `model.loss` is only what the user gave.
    """
    return model._compile_loss


def compute_loss(
    model: keras.Model, x: Any, y: Any, predicted: Any, sample_weight: Any, training: bool
) -> Any:
    """Call `compute_loss`, which need not have the argument `training`.

    Replaced by `model.compute_loss` itself, once every model's takes `training`.
    """
    return model._compute_loss(x, y, predicted, sample_weight, training)


def update_loss_metric(model: keras.Model, loss: Any, num_rows: Any) -> None:
    """Count a batch's loss in the metric `loss`; replaced by a public attribute that holds this metric."""
    model._loss_tracker.update_state(loss, sample_weight=num_rows)


def build_losses(model: keras.Model, batch: Any) -> None:
    """Make the variables of losses and metrics from the shapes of a batch, without computing.

    Replaced by a public `build` of losses and metrics.
    """
    model._symbolic_build(data_batch=batch)


def wrap_losses(model: keras.Model, wrap: Callable[[keras.Loss], keras.Loss]) -> None:
    """Put `wrap(loss)` in the place of each loss that was given to `compile`.

    Replaced by a public way to go through a compiled model's losses.
    """
    if model._compile_loss is not None:
        model._compile_loss = _WrappedLosses(model._compile_loss, wrap)


class _WrappedLosses(CompileLoss):
    """The same losses, weights and names as another's; each loss wrapped as soon as it is made."""

    def __init__(self, other: CompileLoss, wrap: Callable[[keras.Loss], keras.Loss]) -> None:
        super().__init__(other._user_loss, other._user_loss_weights, output_names=other.output_names)
        self._wrap = wrap

    @override
    def build(self, y_true: Any, y_pred: Any) -> None:
        super().build(y_true, y_pred)
        self._flat_losses: list[Any] = [
            entry._replace(loss=self._wrap(entry.loss)) for entry in self._flat_losses
        ]


# TensorFlow's runtime


def slurm_tasks(resolver: tf.distribute.cluster_resolver.SlurmClusterResolver) -> dict[str, int]:
    """Return the number of tasks on each host, hosts in Slurm's order.

    Replaced by `resolver.cluster_spec()`, once it no longer sorts hosts as text.
    """
    tasks: dict[str, int] = resolver._task_configuration
    return tasks


@contextmanager
def collected_graphs() -> Iterator[list[Any]]:
    """Collect the graphs that are executed within, placed and optimised.

    Replaced by a public form of TensorFlow 1's `RunOptions(output_partition_graphs=True)`.
    """
    # graphs are reported only while they are made ready to run, so those that are ready must go
    tensorflow_context.context().clear_kernel_cache()
    with tensorflow_context.collect_graphs(optimized=True) as graphs:
        # an operation that succeeds brings out what an earlier step left that failed; then it is dropped
        tf.identity(0.0)
        tensorflow_context.export_run_metadata()
        yield graphs


def parse_profile(content: bytes) -> Any:
    """Parse a file of the profiler; replaced by `jax.profiler.ProfileData`, if TensorFlow gets its like."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2.XSpace.FromString(content)
