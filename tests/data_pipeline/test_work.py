import threading
import time

import pytest

from data_pipeline.work import WAITING_AT_ONCE, Threads, available_cores, in_parallel, one_ahead


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_results_of_threads_come_in_order():
    def slow_first(number):
        time.sleep(0.02 if number % 7 == 0 else 0)
        return number * number

    assert list(in_parallel(slow_first, range(100), "squares", at_once=3)) == [n * n for n in range(100)]


def test_in_parallel_processes_only_a_few_items_ahead():
    started = []
    results = in_parallel(started.append, range(10_000), "items", at_once=10)
    next(results)
    time.sleep(0.05)
    assert len(started) < 1000
    results.close()


def test_error_in_a_thread_is_raised_to_the_caller():
    def fail(number):
        if number == 5:
            raise ValueError("five")
        return number

    with pytest.raises(ValueError, match="five"):
        list(in_parallel(fail, range(1000), "items", at_once=1))


def test_one_ahead_fetches_exactly_the_next_item():
    fetched = []

    def items():
        for number in range(3):
            fetched.append(number)
            yield number

    ahead = one_ahead(items())
    assert next(ahead) == 0
    until(lambda: len(fetched) > 1)
    assert fetched == [0, 1]  # and no more than one
    assert list(ahead) == [1, 2]


def test_error_in_fetching_is_raised_when_the_item_is_requested():
    def items():
        yield 1
        raise ValueError("broken")

    ahead = one_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_closed_iterators_leave_no_thread():
    before = set(threading.enumerate())
    ahead = one_ahead(range(10))
    next(ahead)
    ahead.close()
    results = in_parallel(abs, range(10_000), "items", at_once=10)
    next(results)
    results.close()
    until(lambda: set(threading.enumerate()) <= before)


def test_where_threads_wait_for_a_network_there_are_more_than_cores():
    num_threads = available_cores() + 2
    together = threading.Barrier(num_threads)  # breaks unless that many wait at once
    items = range(num_threads * WAITING_AT_ONCE)
    workers = Threads(waits=True)
    results = list(in_parallel(lambda _: together.wait(timeout=60), items, "items", workers=workers))
    assert len(results) == len(items)
