"""The private names of Keras and TensorFlow: that they exist, mean what we take them for, and stay fenced."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT, private_names

from multigpu import keras_internals

FENCE = "multigpu.keras_internals"
X, Y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)


@pytest.fixture
def model() -> keras.Model:
    model = keras.Sequential([keras.layers.Dense(2, activity_regularizer="l2"), keras.layers.Dropout(0.5)])
    model.compile("sgd", keras.losses.MeanSquaredError(), metrics=["mae"])
    return model


def test_no_other_module_uses_a_private_name():
    assert private_names.uses(ROOT, "multigpu", FENCE) == []
    assert private_names.overridden(ROOT, "multigpu", FENCE) == []


@pytest.mark.parametrize(
    "line",
    [
        "from keras.src.trainers import compile_utils",
        "import tensorflow.python.eager.context",
        "model._compile_loss = None",
        "getattr(tensor, '_keras_mask', None)",
    ],
)
def test_each_kind_of_use_is_found(tmp_path, line):
    (tmp_path / "multigpu").mkdir()
    (tmp_path / "multigpu/planted.py").write_text(f"import keras\n{line}\nmodel.compile()\n")
    assert len(private_names.uses(tmp_path, "multigpu", FENCE)) == 1


def test_a_private_method_that_a_subclass_overrides_is_found(tmp_path, monkeypatch):
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted/layers.py").write_text(
        "import keras\nclass Mine(keras.Layer):\n    def _clear_losses(self):\n        self._own = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert private_names.overridden(tmp_path, "planted", "") == ["planted.layers.Mine: _clear_losses"]


def test_layers_of_goes_to_any_depth():
    inner = keras.Sequential([keras.layers.Dense(1)])
    outer = keras.Sequential([keras.Input((3,)), inner])
    assert {outer, inner, inner.layers[0]} <= set(keras_internals.layers_of(outer))


def test_added_losses_are_cleared(model):
    model(X)
    assert model.losses
    keras_internals.clear_added_losses(model)
    assert not model.losses


def test_a_variable_is_made_again_where_the_caller_says():
    with tf.device("/CPU:1"):
        variable = keras.Variable([1.0, 2.0])
    with tf.device("/CPU:0"):
        keras_internals.make_variable_again(variable, np.float32([3.0, 4.0]))
    assert variable.value.device.endswith("CPU:0")
    assert variable.numpy().tolist() == [3.0, 4.0]


def test_a_mask_is_the_one_that_keras_keeps():
    masked = keras.layers.Masking()(np.array([[[0.0], [1.0]]], np.float32))
    assert keras_internals.mask_of(masked).numpy().tolist() == [[False, True]]
    assert keras_internals.mask_of(tf.ones(3)) is None
    other = tf.ones((1, 2, 1))
    keras_internals.set_mask(other, tf.constant([[True, False]]))
    loss = keras.losses.MeanSquaredError(reduction="sum")(tf.zeros((1, 2, 1)), other)
    assert float(loss) == 1.0  # one frame counts


def test_the_state_of_a_seed_generator_has_the_name_we_know_it_by():
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


def test_slurm_names_its_hosts_in_order(monkeypatch):
    for name, value in {"PROCID": "0", "STEP_NUM_TASKS": "3", "NTASKS": "3"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SLURM_STEP_NODELIST", "node[2,10]")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2,1")
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=2, gpus_per_task=1, auto_set_gpu=False
    )
    assert list(keras_internals.slurm_tasks(resolver).items()) == [("node2", 2), ("node10", 1)]


def test_executed_graphs_show_placed_nodes_kept_apart_functions_and_compiled_ones():
    kept_apart = tf.function(lambda x: x @ x, experimental_attributes=keras_internals.NOT_INLINED)
    compiled = tf.function(lambda x: x @ x, jit_compile=True)
    step = tf.function(lambda x: kept_apart(x) + compiled(x))
    step(tf.eye(2))
    with keras_internals.collected_graphs() as graphs:
        step(tf.eye(2))
    nodes = [node for graph in graphs for node in graph.node]
    assert any(keras_internals.COMPILED_BY_XLA in node.attr for node in nodes)
    assert any("_noinline" in function.attr for graph in graphs for function in graph.library.function)
    assert {"_Arg", "_Retval"} <= {node.op for node in nodes}
    assert any("CPU:0" in node.device for node in nodes)


def test_a_profile_is_parsed(tmp_path):
    tf.profiler.experimental.start(str(tmp_path))
    tf.eye(2) @ tf.eye(2)
    tf.profiler.experimental.stop()
    (file,) = tmp_path.rglob("*.xplane.pb")
    assert "/host:CPU" in {plane.name for plane in keras_internals.parse_profile(file.read_bytes()).planes}
