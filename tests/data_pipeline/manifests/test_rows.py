import numpy as np
import pytest

from data_pipeline.manifests.rows import Rows, looked_up

LISTS = [[3, 1], [], [4, 1, 5], [9]]


@pytest.fixture
def rows():
    return Rows.of(LISTS)


def test_rows_are_read_as_lists(rows):
    assert list(rows) == LISTS
    assert [rows[index] for index in range(-4, 4)] == LISTS * 2
    assert rows.lengths.tolist() == [2, 0, 3, 1]
    with pytest.raises(IndexError):
        rows[4]


@pytest.mark.parametrize(
    "chosen", [slice(1, 3), slice(2, None), slice(None, None, -1), slice(3, 1), slice(9, 12), slice(0, 4, 2)]
)
def test_part_of_rows_equals_that_of_a_list(rows, chosen):
    part = rows[chosen]
    assert part == LISTS[chosen]
    assert part.values.tolist() == [value for row in LISTS[chosen] for value in row]


def test_rows_are_taken_in_any_order_and_from_a_part(rows):
    assert rows.take(np.array([3, 0, 1, 0])) == [[9], [3, 1], [], [3, 1]]
    assert rows[1:].take(np.array([2, 1])) == [[9], [4, 1, 5]]
    assert rows.take(np.array([], np.int64)) == []


def test_many_rows_are_taken_as_few_are():
    rng = np.random.default_rng(1)
    lists = [[number] * int(length) for number, length in enumerate(rng.integers(0, 4, 150_000))]
    order = rng.permutation(len(lists))
    assert Rows.of(lists).take(order) == [lists[index] for index in order]


def test_values_are_replaced_and_left_out_row_by_row(rows):
    part = rows[2:]
    assert part.with_values(part.values * 2) == [[8, 2, 10], [18]]
    assert part.where(part.values != 1) == [[4, 5], [9]]


def test_unequal_rows_are_not_equal(rows):
    assert rows == Rows.of(LISTS)
    assert rows != [*LISTS[:3], [8]]
    assert rows != LISTS[:3]


def test_values_of_many_indices_are_those_of_the_table():
    table, indices = np.array([7, 5, 3]), np.random.default_rng(1).integers(0, 3, 1_100_000, np.int32)
    np.testing.assert_array_equal(looked_up(table, indices), table[indices])
