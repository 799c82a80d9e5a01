import threading
import time

import pytest

from data_pipeline.work import in_threads, one_ahead


def test_results_come_in_order_whatever_takes_longest():
    def slow_first(number):
        time.sleep(0.02 if number % 7 == 0 else 0)
        return number * number

    assert list(in_threads(slow_first, range(100), "squares", at_once=3)) == [n * n for n in range(100)]


def test_few_things_are_worked_on_ahead():
    started = []
    results = in_threads(started.append, range(10_000), "things", at_once=10)
    next(results)
    time.sleep(0.05)
    assert len(started) < 1000
    results.close()


def test_an_error_ends_the_work_and_is_told():
    def fail(number):
        if number == 5:
            raise ValueError("five")
        return number

    with pytest.raises(ValueError, match="five"):
        list(in_threads(fail, range(1000), "things", at_once=1))


def test_the_next_item_is_fetched_while_this_one_is_worked_on():
    fetched = []

    def items():
        for number in range(3):
            fetched.append(number)
            yield number

    ahead = one_ahead(items())
    assert next(ahead) == 0
    for _ in range(100):
        if fetched == [0, 1]:
            break
        time.sleep(0.01)
    assert fetched == [0, 1]  # and no more than one
    assert list(ahead) == [1, 2]


def test_an_error_in_fetching_is_told_where_the_item_is_asked_for():
    def items():
        yield 1
        raise ValueError("broken")

    ahead = one_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_no_thread_is_left_behind():
    before = threading.active_count()
    ahead = one_ahead(range(10))
    next(ahead)
    ahead.close()
    results = in_threads(abs, range(10_000), "things", at_once=10)
    next(results)
    results.close()
    for _ in range(100):
        if threading.active_count() == before:
            break
        time.sleep(0.01)
    assert threading.active_count() == before
