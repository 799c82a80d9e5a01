"""Tests that private names of Keras and TensorFlow exist, mean what we expect, and stay in one module."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT, private_names

from multigpu.replication import keras_internals

MODULE = "multigpu.replication.keras_internals"
X, Y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)


@pytest.fixture
def model() -> keras.Model:
    model = keras.Sequential([keras.layers.Dense(2, activity_regularizer="l2"), keras.layers.Dropout(0.5)])
    model.compile("sgd", keras.losses.MeanSquaredError(), metrics=["mae"])
    return model


def test_only_keras_internals_uses_private_names_of_keras():
    assert private_names.uses(ROOT, "multigpu", MODULE) == []
    assert private_names.overridden(ROOT, "multigpu", MODULE) == []


@pytest.mark.parametrize(
    "line",
    [
        "from keras.src.trainers import compile_utils",
        "import tensorflow.python.eager.context",
        "model._compile_loss = None",
        "getattr(tensor, '_keras_mask', None)",
    ],
)
def test_each_kind_of_private_name_use_is_found(tmp_path, line):
    (tmp_path / "multigpu").mkdir()
    (tmp_path / "multigpu/planted.py").write_text(f"import keras\n{line}\nmodel.compile()\n")
    assert len(private_names.uses(tmp_path, "multigpu", MODULE)) == 1


def test_overridden_private_method_is_found(tmp_path, monkeypatch):
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted/layers.py").write_text(
        "import keras\nclass Mine(keras.Layer):\n    def _clear_losses(self):\n        self._own = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert private_names.overridden(tmp_path, "planted", "") == ["planted.layers.Mine: _clear_losses"]


def test_layers_of_returns_layers_at_any_depth():
    inner = keras.Sequential([keras.layers.Dense(1)])
    outer = keras.Sequential([keras.Input((3,)), inner])
    assert {outer, inner, inner.layers[0]} <= set(keras_internals.layers_of(outer))


def test_clear_added_losses_clears_losses(model):
    model(X)
    assert model.losses
    keras_internals.clear_added_losses(model)
    assert not model.losses


def test_make_variable_again_uses_the_device_of_the_caller():
    with tf.device("/CPU:1"):
        variable = keras.Variable([1.0, 2.0])
    with tf.device("/CPU:0"):
        keras_internals.make_variable_again(variable, np.float32([3.0, 4.0]))
    assert variable.value.device.endswith("CPU:0")
    assert variable.numpy().tolist() == [3.0, 4.0]


def test_mask_of_and_set_mask_use_the_mask_of_keras():
    masked = keras.layers.Masking()(np.array([[[0.0], [1.0]]], np.float32))
    assert keras_internals.mask_of(masked).numpy().tolist() == [[False, True]]
    assert keras_internals.mask_of(tf.ones(3)) is None
    other = tf.ones((1, 2, 1))
    keras_internals.set_mask(other, tf.constant([[True, False]]))
    loss = keras.losses.MeanSquaredError(reduction="sum")(tf.zeros((1, 2, 1)), other)
    assert float(loss) == 1.0  # only one frame is not masked


def test_weights_of_losses_are_0_where_a_mask_is_false():
    mask, weights = tf.constant([[True, False], [True, True]]), [[2.0], [3.0]]
    masked_weights = keras_internals.masked_weights
    assert masked_weights(None, mask).numpy().tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert masked_weights(weights, mask).numpy().tolist() == [[2.0, 0.0], [3.0, 3.0]]
    assert masked_weights(weights, None).numpy().tolist() == weights


def test_masked_statistics_are_those_of_keras_where_nothing_is_synchronized():
    layer = keras.layers.BatchNormalization(synchronized=True)
    masked = keras.layers.Masking()(np.array([[[1.0], [0.0]], [[3.0], [5.0]]], np.float32))
    expected = layer(masked, training=True)
    keras_internals.synchronize_masked_statistics(keras.Sequential([layer]))
    assert type(layer)._moments is not layer._moments
    assert np.allclose(layer(masked, training=True), expected)


def test_seed_generator_state_has_the_expected_name():
    assert keras.random.SeedGenerator(1).state.name == keras_internals.SEED_STATE
    assert keras.layers.Dropout(0.5).seed_generator.state.name == keras_internals.SEED_STATE


def test_losses_are_wrapped_built_and_counted(model):
    wrapped = []

    def wrap(loss: keras.Loss) -> keras.Loss:
        wrapped.append(loss)
        return loss

    assert keras_internals.compiled_loss(keras.Sequential()) is None
    keras_internals.wrap_losses(model, wrap)
    model(X)
    keras_internals.build_losses(model, (keras.KerasTensor((None, 3)), keras.KerasTensor((None, 2)), None))
    assert [type(loss) for loss in wrapped] == [keras.losses.MeanSquaredError]
    assert keras_internals.compiled_loss(model).built
    loss = keras_internals.compute_loss(model, X, Y, model(X), None, False)
    keras_internals.update_loss_metric(model, loss, 4)
    assert float(model.get_metrics_result()["loss"]) == pytest.approx(float(loss))


def test_functional_graph_lists_the_calls_of_layers_and_operations():
    inputs = keras.Input((3,), name="x")
    hidden = keras.layers.Dense(3, name="a")(inputs)
    model = keras.Model([inputs], [keras.layers.Dense(2, name="b")(hidden + inputs)])
    graph = keras_internals.functional_graph(model)
    assert [call.layer.name for call in graph.calls][::2] == ["a", "b"]
    assert len(graph.calls) == 3
    assert [tensor.name for tensor in graph.input] == ["x"]
    values = dict(zip(graph.inputs, graph.standardize([X]), strict=True))
    for call in graph.calls:
        values.update(call.run(values, False))
    assert np.allclose(graph.pack([values[key] for key in graph.outputs]), model([X]))
    assert keras_internals.functional_graph(keras.Sequential([keras.layers.Dense(1)])) is None


def test_weights_are_made_later_while_only_shapes_are_computed():
    assert not keras_internals.are_weights_made_later()
    found = []

    def call(x):
        found.append(keras_internals.are_weights_made_later())
        return x

    keras.Sequential([keras.Input((3,)), keras.layers.Lambda(call)])
    assert found == [True]


def test_weights_that_are_excluded_from_decay_are_copied():
    variables = [keras.Variable([1.0], name=name) for name in ("kernel", "bias", "gamma")]
    source, target = (keras.optimizers.SGD(1.0, weight_decay=0.5) for _ in range(2))
    keras_internals.copy_decay_exclusions(source, target)  # nothing is excluded
    source.exclude_from_weight_decay(var_list=variables[:1], var_names=["bias"])
    keras_internals.copy_decay_exclusions(source, target)
    target.apply([tf.constant([0.0])] * 3, variables)
    assert [float(variable.numpy()[0]) for variable in variables] == [1.0, 1.0, 0.5]


def test_weight_decay_is_wrapped():
    optimizer, decayed = keras.optimizers.AdamW(0.1, weight_decay=0.5), []
    keras_internals.wrap_weight_decay(optimizer, lambda decay: decayed.extend)
    weight = keras.Variable([1.0])
    optimizer.apply([tf.constant([0.0])], [weight])
    assert decayed == [weight]
    assert weight.numpy() == [1.0]


def test_slurm_tasks_keep_the_order_of_hosts(monkeypatch):
    for name, value in {"PROCID": "0", "STEP_NUM_TASKS": "3", "NTASKS": "3"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SLURM_STEP_NODELIST", "node[2,10]")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2,1")
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=2, gpus_per_task=1, auto_set_gpu=False
    )
    assert list(keras_internals.slurm_tasks(resolver).items()) == [("node2", 2), ("node10", 1)]


def test_collected_graphs_show_placed_nodes_noinline_and_compiled_functions():
    noinline = tf.function(lambda x: x @ x, experimental_attributes=keras_internals.NOT_INLINED)
    compiled = tf.function(lambda x: x @ x, jit_compile=True)
    step = tf.function(lambda x: noinline(x) + compiled(x))
    step(tf.eye(2))
    with keras_internals.collected_graphs() as graphs:
        step(tf.eye(2))
    nodes = [node for graph in graphs for node in graph.node]
    assert any(keras_internals.COMPILED_BY_XLA in node.attr for node in nodes)
    assert any("_noinline" in function.attr for graph in graphs for function in graph.library.function)
    assert {"_Arg", "_Retval"} <= {node.op for node in nodes}
    assert any("CPU:0" in node.device for node in nodes)


def test_profile_is_parsed_into_planes(tmp_path):
    tf.profiler.experimental.start(str(tmp_path))
    tf.eye(2) @ tf.eye(2)
    tf.profiler.experimental.stop()
    (file,) = tmp_path.rglob("*.xplane.pb")
    assert "/host:CPU" in {plane.name for plane in keras_internals.parse_profile(file.read_bytes()).planes}
