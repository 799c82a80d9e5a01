import dataclasses

import keras
import pytest
import tensorflow as tf

from multigpu.checking.placement import backward_is_placed, measure_work, misplaced_backward
from multigpu.devices import available_devices
from multigpu.errors import DeviceError

NUM_ROWS = 5  # a different number for each tower
# of a tower, for the model below: a convolution or dense layer has a gradient for its weights and one for its
# input, except that the gradient of the first layer's input is not needed
FORWARD_OPS, BACKWARD_OPS = 3, 5


@pytest.fixture(scope="module")
def devices():
    available = available_devices()
    if len(available) < 3:
        pytest.skip("needs three devices; tests/conftest.py simulates them")
    return available[:3]


@pytest.fixture(scope="module")
def model():
    return keras.Sequential(
        [
            keras.layers.Input((6, 4)),
            keras.layers.Conv1D(4, 3, activation="relu"),
            keras.layers.Conv1D(4, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )


@pytest.fixture(scope="module")
def features():
    return tf.random.stateless_normal((NUM_ROWS, 6, 4), seed=(1, 2))


def loss_of(outputs):
    return tf.reduce_mean(outputs**2)


def add_up(gradients_of_towers):
    return [tf.add_n(gradients) for gradients in zip(*gradients_of_towers, strict=True)]


def cut(features, num_towers):
    return tf.split(features, [2] * (num_towers - 1) + [NUM_ROWS - 2 * (num_towers - 1)])


def tower_step(model, features, devices, gradient_devices=None):
    """Return a step whose towers run on their devices, backward passes on `gradient_devices` if given."""

    @tf.function
    def step():
        gradients = []
        for rows, device, gradient_device in zip(
            cut(features, len(devices)), devices, gradient_devices or devices, strict=True
        ):
            with tf.device(device), tf.GradientTape() as tape:
                loss = loss_of(model(rows, training=True))
            with tf.device(gradient_device):
                gradients.append(tape.gradient(loss, model.trainable_variables))
        return add_up(gradients)

    return step


def naive_step(call, variables, features, devices):
    """Return a step that splits only the forward pass, as a literal port of Matterport's model does."""

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            outputs = []
            for rows, device in zip(cut(features, len(devices)), devices, strict=True):
                with tf.device(device):
                    outputs.append(call(rows))
            loss = loss_of(tf.concat(outputs, axis=0))
        return tape.gradient(loss, variables)

    return step


def counts(work):
    return [(device.device, device.forward_ops, device.backward_ops) for device in work]


def test_placement_of_towers_shows_backward_ops_on_each_device(model, features, devices):
    work = measure_work(tower_step(model, features, devices), devices)
    assert counts(work) == [(device, FORWARD_OPS, BACKWARD_OPS) for device in devices]
    assert backward_is_placed(work)
    assert misplaced_backward(work) == []
    assert [device.unpaired_ops for device in work] == [0, 0, 0]
    if "CPU" in devices[0]:  # on a GPU this needs CUPTI
        assert all(device.compute_s > 0 for device in work)


def test_placement_of_the_naive_port_shows_misplaced_ops(model, features, devices):
    step = naive_step(lambda rows: model(rows, training=True), model.trainable_variables, features, devices)
    work = measure_work(step, devices)
    assert counts(work) == [
        (devices[0], FORWARD_OPS, 3 * BACKWARD_OPS),
        (devices[1], FORWARD_OPS, 0),
        (devices[2], FORWARD_OPS, 0),
    ]
    assert not backward_is_placed(work)
    assert len(misplaced_backward(work)) == 2 * BACKWARD_OPS
    assert all("gradient_tape" in name for name in misplaced_backward(work))
    unpaired = [dataclasses.replace(device, misplaced=()) for device in work]
    assert not backward_is_placed(unpaired)


def test_swapped_backward_passes_are_found_despite_equal_counts(model, features, devices):
    swapped = [devices[1], devices[0], devices[2]]
    work = measure_work(tower_step(model, features, devices, gradient_devices=swapped), devices)
    assert counts(work) == [(device, FORWARD_OPS, BACKWARD_OPS) for device in devices]
    assert [len(device.misplaced) for device in work] == [BACKWARD_OPS, BACKWARD_OPS, 0]
    assert not backward_is_placed(work)


def test_idle_device_shows_no_work(model, features, devices):
    work = measure_work(tower_step(model, features, devices[1:]), devices)
    assert counts(work)[0] == (devices[0], 0, 0)
    assert work[0].misplaced == ()
    assert counts(work)[1:] == [(device, FORWARD_OPS, BACKWARD_OPS) for device in devices[1:]]
    assert backward_is_placed(work)


def test_forward_pass_without_backward_is_placed_correctly(model, features, devices):
    @tf.function
    def step():
        with tf.device(devices[1]):
            return model(features)

    work = measure_work(step, devices)
    assert counts(work)[1] == (devices[1], FORWARD_OPS, 0)
    assert backward_is_placed(work)


def test_work_on_an_unrequested_device_is_listed(model, features, devices):
    work = measure_work(tower_step(model, features, devices), [devices[2]])
    assert [device.device for device in work] == [devices[2], devices[0], devices[1]]


def test_ops_of_already_executed_functions_are_counted(model, features, devices):
    step = tower_step(model, features, devices)
    for _ in range(3):
        step()
    work = measure_work(step, devices)
    assert work[0].backward_ops == measure_work(step, devices)[0].backward_ops == BACKWARD_OPS


@pytest.mark.parametrize(
    ("layer", "shape", "forward_ops", "backward_ops"),
    [
        (keras.layers.Conv2D(2, 3, activation="relu"), (5, 5, 2), 1, 1),
        (keras.layers.Conv2DTranspose(2, 3), (5, 5, 2), 1, 1),
        (keras.layers.SeparableConv1D(2, 3), (5, 2), 2, 3),
        (keras.layers.Dense(2, activation="gelu"), (3,), 1, 1),
        (keras.layers.EinsumDense("abc,cd->abd", output_shape=(None, 2)), (3, 4), 1, 1),
        (keras.layers.GRU(2), (7, 2), 2, 3),
    ],
    ids=lambda value: value.name if isinstance(value, keras.Layer) else None,
)
def test_forward_and_backward_ops_of_each_layer_kind_are_counted(
    layer, shape, forward_ops, backward_ops, devices
):
    if isinstance(layer, keras.layers.GRU) and "GPU" in devices[0]:
        pytest.skip("on a GPU it is one op of cuDNN")
    model = keras.Sequential([keras.layers.Input(shape), layer])
    features = tf.random.stateless_normal((NUM_ROWS, *shape), seed=(3, 4))
    work = measure_work(tower_step(model, features, devices[:2]), devices[:2])
    assert counts(work) == [(device, forward_ops, backward_ops) for device in devices[:2]]
    assert backward_is_placed(work)
    assert [device.unpaired_ops for device in work] == [0, 0]


@tf.function
def repeated_product(weights, rows):
    for _ in tf.range(200):
        rows = rows @ weights
    return rows


def test_loop_ops_count_once_and_their_gradients_are_paired(devices):
    weights, features = tf.Variable(tf.eye(3)), tf.ones((NUM_ROWS, 3))
    step = naive_step(lambda rows: repeated_product(weights, rows), [weights], features, devices[:2])
    first, second = measure_work(step, devices[:2])
    assert (first.forward_ops, second.forward_ops) == (1, 1)
    assert (first.backward_ops, second.backward_ops) == (4, 0)  # for the weights and the rows of each device
    assert first.unpaired_ops == 0
    assert len(first.misplaced) == 2


def test_ops_of_towers_compiled_by_xla_are_counted(devices):
    weights, features = tf.Variable(tf.eye(3)), tf.ones((NUM_ROWS, 3))

    @tf.function(jit_compile=True)
    def forward(rows, weights):
        return tf.nn.relu(rows @ weights) @ weights

    # XLA cannot read a variable of another device
    step = naive_step(lambda rows: forward(rows, tf.identity(weights)), [weights], features, devices[:2])
    first, second = measure_work(step, devices[:2])
    # as traced: with the gradients of the inputs, which are not used
    assert (first.forward_ops, first.backward_ops, first.compiled_clusters) == (2, 8, 3)
    assert (second.forward_ops, second.backward_ops, second.compiled_clusters) == (2, 0, 1)
    assert len(first.misplaced) == 4
    assert not backward_is_placed([first, second])


def test_noinline_calls_are_counted_as_unseen(devices):
    weights = tf.Variable(tf.eye(3))

    @tf.function(experimental_attributes={"_noinline": True})
    def noinline(rows):
        return rows @ weights

    @tf.function
    def step():
        with tf.device(devices[1]):
            return noinline(tf.transpose(weights) @ weights)

    work = measure_work(step, devices)
    assert [device.unseen_calls for device in work] == [0, 1, 0]
    assert (work[1].forward_ops, work[1].compute_s) == (1, None)


def test_step_without_placed_ops_is_an_error(model, features, devices):
    with pytest.raises(ValueError, match=r"expected a step that calls a tf\.function"):
        measure_work(lambda: model(features), devices)
    whole = tf.function(lambda: model(features), jit_compile=True)
    with pytest.raises(ValueError, match="jit_compile=True"):
        measure_work(whole, devices)


def test_ops_outside_of_functions_do_not_count(model, features, devices):
    step = tower_step(model, features, devices)

    def step_and_more():
        step()
        with tf.device(devices[1]):
            return features[0] @ tf.transpose(features[0])

    work = measure_work(step_and_more, devices)
    assert counts(work) == [(device, FORWARD_OPS, BACKWARD_OPS) for device in devices]


def test_failed_step_does_not_change_later_measurements(model, features, devices):
    num_calls = 0

    @tf.function
    def product(limit):
        with tf.device(devices[1]):
            squares = tf.transpose(features[0]) @ features[0]
        tf.debugging.assert_less(squares, limit)
        return squares

    def step():
        nonlocal num_calls
        num_calls += 1
        return product(tf.constant(1e9 if num_calls == 1 else -1e9))

    with pytest.raises(tf.errors.InvalidArgumentError):
        measure_work(step, devices)
    assert num_calls == 2  # the second call is that which collects the graph
    work = measure_work(tower_step(model, features, devices[:1]), devices)
    assert counts(work)[1] == (devices[1], 0, 0)


def test_measuring_missing_devices_is_an_error(devices):
    with pytest.raises(DeviceError, match=r"received \['/CPU:77'\]"):
        measure_work(lambda: None, [devices[0], "/CPU:77"])
