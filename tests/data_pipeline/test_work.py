import threading
import time

import pytest

from data_pipeline.work import WAITING_AT_ONCE, Threads, available_cores, computed_ahead, in_parallel


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


def test_results_are_computed_ahead_and_no_more_of_them():
    started = []
    results = computed_ahead(started.append, range(100), num_threads=2, num_ahead=5)
    next(results)
    until(lambda: len(started) == 5)
    assert [next(results), next(results)] == [None, None]
    until(lambda: len(started) == 7)
    results.close()
    assert sorted(started) == list(range(7))


def test_error_in_computing_is_raised_when_the_result_is_requested():
    def checked(number):
        if number == 1:
            raise ValueError("broken")
        return number

    results = computed_ahead(checked, range(3), num_threads=2, num_ahead=3)
    assert next(results) == 0
    with pytest.raises(ValueError, match="broken"):
        next(results)


def test_closed_iterators_leave_no_thread():
    before = set(threading.enumerate())
    ahead = computed_ahead(abs, range(10), num_threads=2, num_ahead=4)
    next(ahead)
    ahead.close()
    results = in_parallel(abs, range(10_000), "items", at_once=10)
    next(results)
    results.close()
    until(lambda: set(threading.enumerate()) <= before)


def test_nothing_happens_after_closed_iterators():
    begun, ended = threading.Event(), []

    def work(number):
        begun.set()
        time.sleep(0.05 * number)
        ended.append(number)

    results = in_parallel(work, range(100), "items", at_once=1)
    next(results)
    assert begun.wait(60)
    results.close()
    at_close = list(ended)
    time.sleep(0.3)
    assert ended == at_close


def test_items_may_be_none():
    assert list(computed_ahead(str, [1, None, 2], num_threads=2, num_ahead=1)) == ["1", "None", "2"]


def test_where_threads_wait_for_a_network_there_are_more_than_cores():
    num_threads = available_cores() + 2
    together = threading.Barrier(num_threads)  # breaks unless that many wait at once
    items = range(num_threads * WAITING_AT_ONCE)
    workers = Threads(waits=True)
    results = list(in_parallel(lambda _: together.wait(timeout=60), items, "items", workers=workers))
    assert len(results) == len(items)
