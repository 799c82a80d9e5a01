"""Wraps every private name of Keras and TensorFlow that this package depends on in a function or constant.

No other module of the package uses one; tests/multigpu/replication/test_keras_internals.py tests that, and
that all of them exist in the versions installed. Each docstring says what would replace the private name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.losses.loss import apply_mask
from keras.src.models.functional import Functional, operation_fn
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
    """Clear the values that layers passed to `add_loss`; replaced by a public method that does it."""
    model._clear_losses()


def are_weights_made_later() -> bool:
    """Return whether layers are called only for the shapes of their outputs, their weights made afterwards.

    Replaced by a public function that returns whether a `keras.StatelessScope` is active.
    """
    return bool(in_stateless_scope())


def make_variable_again(variable: keras.Variable, value: Any) -> None:
    """Create a variable's TensorFlow variable again, in the device scope of the caller.

    Replaced by a public way to move a `keras.Variable` to another device.
    """
    variable._initialize(value)


def synchronize_masked_statistics(model: keras.Model) -> None:
    """Make batch normalisation with `synchronized=True` use the whole batch's statistics with a mask, too.

    Keras synchronizes replicas only where no mask is given. Replaced by a release of Keras that does it with
    one.
    """
    keras_moments = keras.layers.BatchNormalization._moments
    for layer in layers_of(model):
        if getattr(type(layer), "_moments", None) is keras_moments and layer.synchronized:
            layer._moments = functools.partial(_synchronized_moments, layer)


def _synchronized_moments(layer: Any, inputs: Any, mask: Any) -> tuple[Any, Any]:
    """Return what `BatchNormalization._moments` does, of the rows of all replicas."""
    context = tf.distribute.get_replica_context()
    if mask is None or context is None or context.num_replicas_in_sync == 1:
        return type(layer)._moments(layer, inputs, mask)  # type: ignore[no-any-return]
    ops, axes, epsilon = keras.ops, layer._reduction_axes, keras.config.epsilon()
    masked = ops.broadcast_to(ops.cast(ops.expand_dims(mask, axis=-1), "bool"), ops.shape(inputs))

    def over_all(values: Any) -> list[Any]:
        total: list[Any] = context.all_reduce("SUM", [ops.sum(v, axes, keepdims=True) for v in values])
        return total

    total, count = over_all([ops.where(masked, inputs, 0), ops.cast(masked, inputs.dtype)])
    mean = total / (count + epsilon)
    (squares,) = over_all([ops.square(ops.where(masked, inputs - mean, 0))])
    return ops.squeeze(mean), ops.squeeze(squares / (count + epsilon))


def mask_of(tensor: Any) -> Any:
    """Return the mask that Keras attached to a tensor, None without one; replaced by a public `get_mask`."""
    return getattr(tensor, _MASK, None)


def set_mask(tensor: Any, mask: Any) -> None:
    """Attach a mask to a tensor as Keras does; replaced by a public `set_mask`."""
    setattr(tensor, _MASK, mask)


# graphs of layers


class LayerCall(NamedTuple):
    """One call of a layer within a functional model."""

    layer: Any  # a layer, or an operation such as `x + y`, which has no weights
    inputs: tuple[int, ...]  # keys of tensors
    outputs: tuple[int, ...]
    run: Callable[[Mapping[int, Any], bool], Mapping[int, Any]]  # (values by key, training) -> the outputs


class LayerGraph(NamedTuple):
    """The calls that a functional model consists of, in an order in which they can run."""

    calls: tuple[LayerCall, ...]
    inputs: tuple[int, ...]  # keys of the model's inputs, as `standardize` returns them
    input: Any  # symbolic tensors that the model is called with, None where they are not known
    outputs: tuple[int, ...]
    standardize: Callable[[Any], list[Any]]  # what a model is called with -> its inputs
    pack: Callable[[list[Any]], Any]  # values of the outputs -> what the model returns


def functional_graph(model: keras.Model) -> LayerGraph | None:
    """Return the calls of layers in a functional or a built Sequential model, None for any other model.

    Replaced by public attributes of the nodes of a `keras.Function`.
    """
    if type(model).call is keras.Sequential.call:
        model = model._functional
    if not isinstance(model, Functional) or type(model).call is not Functional.call:
        return None
    nodes = [node for _, nodes in sorted(model._nodes_by_depth.items(), reverse=True) for node in nodes]
    return LayerGraph(
        calls=tuple(_call_of(node) for node in nodes if node.operation and not node.is_input),
        inputs=tuple(map(id, model.inputs)),
        input=model.input,
        outputs=tuple(map(id, model.outputs)),
        standardize=model._standardize_inputs,
        pack=lambda values: _unpack_single(keras.tree.pack_sequence_as(model.output, values)),
    )


def _call_of(node: Any) -> LayerCall:
    outputs = tuple(map(id, node.outputs))

    def run(values: Mapping[int, Any], training: bool) -> Mapping[int, Any]:
        args, kwargs = node.arguments.fill_in(values)
        result = operation_fn(node.operation, training=training)(*args, **kwargs)
        return dict(zip(outputs, keras.tree.flatten(result), strict=True))

    return LayerCall(node.operation, tuple(map(id, node.input_tensors)), outputs, run)


def _unpack_single(structure: Any) -> Any:
    """Return the only output of a model that was made with a list of one."""
    single = isinstance(structure, list | tuple) and len(structure) == 1
    return structure[0] if single else structure


# losses


def masked_weights(sample_weight: Any, mask: Any) -> Any:
    """Return sample weights, in float64, that are 0 where a mask is false; either may be None.

    They are broadcast as losses do.

    Replaced by a public function that returns what a loss is a mean over.
    """
    given = None if sample_weight is None else keras.ops.convert_to_tensor(sample_weight, "float64")
    return apply_mask(given, mask, dtype="float64", reduction="sum")


def compiled_loss(model: keras.Model) -> Any:
    """Return the loss object that `compile` made of the losses given to it, None without a loss.

    Replaced by a public attribute; `model.loss` is only the user's argument.
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
    """Create the variables of losses and metrics from the shapes of a batch, without computing them.

    Replaced by a public `build` of losses and metrics.
    """
    model._symbolic_build(data_batch=batch)


def wrap_losses(model: keras.Model, wrap: Callable[[keras.Loss], keras.Loss]) -> None:
    """Replace each loss that was given to `compile` by `wrap(loss)`.

    Replaced by a public way to iterate over a compiled model's losses.
    """
    if model._compile_loss is not None:
        model._compile_loss = _WrappedLosses(model._compile_loss, wrap)


class _WrappedLosses(CompileLoss):
    """The losses, weights and names of another `CompileLoss`, each loss wrapped when it is created."""

    def __init__(self, other: CompileLoss, wrap: Callable[[keras.Loss], keras.Loss]) -> None:
        super().__init__(other._user_loss, other._user_loss_weights, output_names=other.output_names)
        self._wrap = wrap

    @override
    def build(self, y_true: Any, y_pred: Any) -> None:
        super().build(y_true, y_pred)
        self._flat_losses: list[Any] = [
            entry._replace(loss=self._wrap(entry.loss)) for entry in self._flat_losses
        ]


# optimisers


def wrap_weight_decay(optimizer: Any, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace an optimiser's function that decays a list of weights by `wrap(function)`.

    Replaced by a public method that decays weights, as `update_step` updates them.
    """
    optimizer._apply_weight_decay = wrap(optimizer._apply_weight_decay)


def copy_decay_exclusions(source: Any, target: Any) -> None:
    """Make an optimiser exclude the weights from decay that another one does.

    Replaced by a `get_config` that has what `exclude_from_weight_decay` was called with.
    """
    for name in ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern"):
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))


# TensorFlow's runtime


def slurm_tasks(resolver: tf.distribute.cluster_resolver.SlurmClusterResolver) -> dict[str, int]:
    """Return the number of tasks on each host, hosts in Slurm's order.

    Replaced by `resolver.cluster_spec()`, once it no longer sorts hosts as text.
    """
    tasks: dict[str, int] = resolver._task_configuration
    return tasks


@contextmanager
def collected_graphs() -> Iterator[list[Any]]:
    """Collect the graphs, placed and optimised, that are executed within the context.

    Replaced by a public form of TensorFlow 1's `RunOptions(output_partition_graphs=True)`.
    """
    # graphs are reported only while they are prepared to run, so those that are already prepared are cleared
    tensorflow_context.context().clear_kernel_cache()
    with tensorflow_context.collect_graphs(optimized=True) as graphs:
        # an operation that succeeds flushes the graphs that a failed step left; then they are dropped
        tf.identity(0.0)
        tensorflow_context.export_run_metadata()
        yield graphs


def parse_profile(content: bytes) -> Any:
    """Parse a profiler file; replaced by an equivalent of `jax.profiler.ProfileData`, once there is one."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2.XSpace.FromString(content)
