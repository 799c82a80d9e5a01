"""Tests of towers that wait where values are summed, forward and backward."""

import contextlib
import threading

import pytest
import tensorflow as tf

from multigpu.replication.lockstep import TowerContext, run_in_lockstep, run_without_sums, sum_over_towers
from multigpu.replication.towers import cut_rows


def reduced(value, how="SUM"):
    return tf.distribute.get_replica_context().all_reduce(how, value)


def in_lockstep(tower, num_rows=3, num_towers=3):
    """Run `tower(index)` for each tower, in the context of its share of `num_rows` rows."""

    def run(index, share):
        with TowerContext(index, num_towers, share):
            return tower(index)

    shares = cut_rows(num_rows, num_towers)
    return run_in_lockstep([lambda i=i, s=s: run(i, s) for i, s in enumerate(shares)])


@pytest.mark.parametrize("compiled", [False, True])
def test_lockstep_sums_and_gradients_cover_all_towers(compiled):
    values = tf.constant([1.0, 2.0, 4.0])

    def tower(index):
        with tf.GradientTape() as tape:
            tape.watch(values)
            total = reduced({"x": values[index], "y": [tf.constant(index)]})
            target = (index + 1.0) * total["x"] ** 2
        return total["x"], total["y"][0], tape.gradient(target, values)[index]

    def towers():
        return in_lockstep(tower)

    for total, count, gradient in (tf.function(towers) if compiled else towers)():
        assert total == 7.0
        assert count == 3
        assert gradient == (1.0 + 2.0 + 3.0) * 2 * 7.0


def test_lockstep_mean_is_weighted_by_rows():
    results = in_lockstep(lambda index: reduced(tf.constant([1.0, 2.0, 4.0])[index], "MEAN"), num_rows=7)
    assert [float(mean) for mean in results] == [pytest.approx((3 * 1 + 2 * 2 + 2 * 4) / 7)] * 3
    results = in_lockstep(lambda index: reduced(1.0 + index, tf.distribute.ReduceOp.MEAN), num_rows=4)
    assert float(results[0]) == pytest.approx((2 * 1 + 2 + 3) / 4)


def test_tower_without_rows_does_not_change_sums():
    values = tf.constant([1.0, 2.0, 4.0])

    def tower(index):
        with tf.GradientTape() as tape:
            tape.watch(values)
            total = reduced(values[index])
        return total, tape.gradient(total, values)

    results = in_lockstep(tower, num_rows=2)
    assert [float(total) for total, _ in results] == [3.0] * 3
    assert results[2][1].numpy().tolist() == [0.0] * 3


def test_towers_run_in_the_same_order_every_time():
    seen = []

    def tower(index):
        seen.append((index, "before"))
        reduced(1.0)
        seen.append((index, "after"))
        return index

    assert in_lockstep(tower) == [0, 1, 2]
    assert seen == [(index, when) for when in ("before", "after") for index in range(3)]


def test_error_of_one_tower_is_raised_and_the_others_end():
    threads = set(threading.enumerate())

    def tower(index):
        reduced(1.0)
        if index == 1:
            raise KeyError("broken")
        return reduced(2.0)

    with pytest.raises(KeyError, match="broken"):
        in_lockstep(tower)
    assert set(threading.enumerate()) <= threads


def test_tower_that_catches_errors_ends_when_another_one_fails():
    threads = set(threading.enumerate())

    def tower(index):
        reduced(1.0)
        if index == 1:
            raise KeyError("broken")
        for _ in range(2):
            caught()

    with pytest.raises(KeyError, match="broken"):
        in_lockstep(tower)
    assert set(threading.enumerate()) <= threads


def test_towers_asking_for_different_sums_are_an_error():
    threads = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="same sums"):
        in_lockstep(lambda index: reduced(1.0) if index else None)
    assert set(threading.enumerate()) <= threads


def test_synchronizing_in_a_function_or_a_loop_is_an_error():
    inside = tf.function(lambda: reduced(1.0))
    with pytest.raises(RuntimeError, match=r"within a loop, or a tf\.function"):
        in_lockstep(lambda _: inside())

    @tf.function
    def loops():
        return in_lockstep(lambda _: tf.while_loop(lambda i: i < 3, lambda i: reduced(i), [0]))

    with pytest.raises(RuntimeError, match=r"within a loop, or a tf\.function"):
        loops()


def test_synchronizing_in_a_function_is_an_error_of_a_tower_that_catches_it():
    def tower(_):
        with contextlib.suppress(RuntimeError):
            in_function()

    with pytest.raises(RuntimeError, match=r"within a loop, or a tf\.function"):
        in_lockstep(tower)


def test_sum_over_towers_outside_of_lockstep_is_an_error():
    with pytest.raises(RuntimeError, match="in lockstep"):
        sum_over_towers([tf.zeros(())])
    with TowerContext(0, 2, cut_rows(4, 2)[0]), pytest.raises(RuntimeError, match="in lockstep"):
        reduced(1.0)
    with pytest.raises(NotImplementedError, match="all_reduce"):
        in_lockstep(lambda _: tf.distribute.get_replica_context().all_gather(tf.zeros(1), axis=0))


def test_towers_without_sums_run_outside_of_lockstep_and_their_own_errors_are_raised():
    contexts = [TowerContext(0, 1, cut_rows(4, 1)[0])]
    assert run_without_sums(lambda: [7], contexts) == [7]
    with pytest.raises(ZeroDivisionError):
        run_without_sums(lambda: [1 / 0], contexts)


def caught():
    with contextlib.suppress(Exception):
        reduced(1.0)


def in_function():
    return tf.function(lambda: reduced(1.0))()


@pytest.mark.parametrize("tower", [caught, in_function])
def test_tower_that_asks_for_a_sum_is_noticed_though_its_error_is_lost(tower):
    context = TowerContext(0, 2, cut_rows(4, 2)[0])

    def run():
        with context:
            return [tower()]

    assert run_without_sums(run, [context]) is None


def test_layers_see_the_number_of_towers_and_their_index():
    def tower(_):
        context = tf.distribute.get_replica_context()
        return context.num_replicas_in_sync, context.replica_id_in_sync_group

    assert in_lockstep(tower) == [(3, 0), (3, 1), (3, 2)]
    assert tf.distribute.get_replica_context().num_replicas_in_sync == 1


def test_tower_ops_are_in_the_graph_and_name_scope_of_the_caller():
    @tf.function
    def towers():
        with tf.name_scope("step"):
            return in_lockstep(lambda _: tf.add(reduced(1.0), 1.0, name="plus"))

    names = {op.name for op in towers.get_concrete_function().graph.get_operations()}
    assert {"step/plus", "step/plus_1", "step/plus_2"} <= names
