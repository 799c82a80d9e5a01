"""Tests of splitting a batch into shares and merging their results."""

import numpy as np
import pytest
import tensorflow as tf

from multigpu.replication.towers import cut_rows, data_parallelism, merge, share_out

DEVICES = ["/CPU:0", "/CPU:1", "/CPU:2"]


def sizes(num_rows, num_towers=3):
    return [(int(share.start), int(share.size)) for share in cut_rows(num_rows, num_towers)]


@pytest.mark.parametrize("as_given", [int, tf.constant])
def test_shares_cover_the_batch_and_differ_by_one_row_at_most(as_given):
    assert sizes(as_given(9)) == [(0, 3), (3, 3), (6, 3)]
    assert sizes(as_given(8)) == [(0, 3), (3, 3), (6, 2)]
    assert sizes(as_given(7)) == [(0, 3), (3, 2), (5, 2)]
    assert sizes(as_given(5), 1) == [(0, 5)]


@pytest.mark.parametrize("as_given", [int, tf.constant])
def test_tower_without_rows_gets_a_row_of_weight_0(as_given):
    assert [size for _, size in sizes(as_given(1))] == [1, 0, 0]
    shares = cut_rows(as_given(2), 3)
    assert [float(share.weight) for share in shares] == [0.5, 0.5, 0.0]
    assert [float(share.in_use) for share in shares] == [1.0, 1.0, 0.0]
    rows = [share.rows(tf.constant([[1.0], [2.0]])).numpy().tolist() for share in shares]
    assert rows == [[[1.0]], [[2.0]], [[2.0]]]


@pytest.mark.parametrize("num_rows", [None, 7])
def test_shares_of_static_and_dynamic_batches_are_equal(num_rows):
    @tf.function(input_signature=[tf.TensorSpec((num_rows, 2))])
    def cut(batch):
        return [(share.weight, share.rows(batch)) for share in share_out(batch, 3)]

    batch = np.arange(14, dtype="float32").reshape(7, 2)
    weights, rows = zip(*cut(batch), strict=True)
    assert np.allclose(weights, [3 / 7, 2 / 7, 2 / 7])
    assert [len(own) for own in rows] == [3, 2, 2]
    assert np.array_equal(np.concatenate(rows), batch)


def test_batch_is_sliced_on_the_host():
    @tf.function(input_signature=[tf.TensorSpec((None, 2))])
    def cut(batch):
        with tf.device("/CPU:2"):
            return share_out(batch, 3)[1].rows(batch)

    ops = cut.get_concrete_function().graph.get_operations()
    assert {op.device for op in ops if op.type == "StridedSlice" and "strided_slice" in op.name} <= {
        "/device:CPU:0",
        "/device:CPU:2",
    }
    (cutting,) = [op for op in ops if op.type == "StridedSlice" and op.inputs[0].op.type == "Placeholder"]
    assert cutting.device == "/device:CPU:0"


def test_values_without_rows_are_passed_to_every_tower():
    batch = {"x": tf.reshape(tf.range(8.0), (4, 2)), "rate": tf.constant(0.5), "n": None, "name": "a"}
    own = [share.rows(batch) for share in share_out(batch, 3)]
    assert [len(part["x"]) for part in own] == [2, 1, 1]
    assert all((float(part["rate"]), part["n"], part["name"]) == (0.5, None, "a") for part in own)


def test_ragged_rows_are_split_and_merged():
    ragged = tf.ragged.constant([[1], [2, 3], [], [4, 5, 6]])
    doubled = data_parallelism(DEVICES, lambda rows: rows * 2, ragged)
    assert doubled.to_list() == [[2], [4, 6], [], [8, 10, 12]]


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        ((tf.zeros(()), None), "received none"),
        (tf.zeros((0, 3)), "received none"),
        ((tf.zeros((7, 1)), tf.zeros(6)), r"same number of rows .* received \[6, 7\]"),
        (tf.sparse.eye(3), "use tf.sparse.to_dense"),
    ],
)
def test_batch_that_cannot_be_split_is_an_error(batch, complaint):
    with pytest.raises(ValueError, match=complaint):
        share_out(batch, 2)


def test_merge_concatenates_rows_and_averages_outputs_without_rows():
    shares = cut_rows(4, 3)
    outputs = [
        {
            "rows": tf.fill((max(int(share.size), 1), 2), float(index)),
            "loss": tf.constant(float(index)),
            "kernel": tf.fill((5,), float(index)),
            "frames": tf.fill((max(int(share.size), 1) * 3, 2), float(index)),
            "count": tf.constant(index),
            "name": "a",
        }
        for index, share in enumerate(shares)
    ]
    merged = merge(outputs, shares)
    assert merged["rows"].numpy()[:, 0].tolist() == [0, 0, 1, 2]
    assert float(merged["loss"]) == pytest.approx((2 * 0 + 1 + 2) / 4)
    assert np.allclose(merged["kernel"], [3 / 4] * 5)
    assert merged["frames"].numpy()[:, 0].tolist() == [0] * 6 + [1] * 3 + [2] * 3
    assert (int(merged["count"]), merged["name"]) == (0, "a")


@pytest.mark.parametrize("num_rows", [None, 2])
def test_outputs_of_a_tower_without_rows_are_dropped(num_rows):
    @tf.function(input_signature=[tf.TensorSpec((num_rows, 2))])
    def work(batch):
        return data_parallelism(DEVICES, lambda x: {"rows": x, "frames": tf.repeat(x, 3, axis=0)}, batch)

    batch = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    outputs = work(batch)
    assert np.array_equal(outputs["rows"], batch)
    assert np.array_equal(outputs["frames"], np.repeat(batch, 3, axis=0))
    assert work.get_concrete_function().structured_outputs["rows"].shape[0] == num_rows


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("num_rows", [7, 1])
def test_function_is_called_on_each_device_with_its_rows(compiled, num_rows):
    devices = []

    def function(features, num_frames, *, scale, names):
        own = tf.reduce_sum(features, axis=1) + tf.cast(num_frames, tf.float32)
        devices.append(own.device)
        return {"sum": own * scale, "mean": tf.reduce_mean(own), names: num_frames}

    def work(features, num_frames, scale):
        return data_parallelism(DEVICES, function, features, num_frames, scale=scale, names="n")

    if compiled:
        signature = [tf.TensorSpec((None, 2)), tf.TensorSpec((None,), tf.int32), tf.TensorSpec(())]
        work = tf.function(work, input_signature=signature)
    features = np.random.default_rng(0).normal(size=(num_rows, 2)).astype("float32")
    num_frames = np.arange(num_rows, dtype="int32")
    outputs = work(features, num_frames, tf.constant(3.0))
    expected = features.sum(axis=1) + num_frames
    assert np.allclose(outputs["sum"], 3 * expected, rtol=1e-6)
    assert np.allclose(outputs["mean"], expected.mean(), rtol=1e-6)
    assert np.array_equal(outputs["n"], num_frames)
    assert [device.rpartition(":")[2] for device in devices] == ["0", "1", "2"]


def test_data_parallelism_on_one_device_calls_the_function_unsplit():
    placed = []

    def function(x):
        placed.append((x * 2).device)
        return x.shape[0]

    assert data_parallelism(DEVICES[2:], function, np.zeros((7, 1))) == 7
    assert placed[0].endswith("CPU:2")


def test_arrays_returned_by_a_function_are_merged():
    outputs = data_parallelism(DEVICES, lambda x: x.numpy() + 1, np.arange(5.0))
    assert outputs.numpy().tolist() == [1, 2, 3, 4, 5]
