import os
import signal
import threading

import pytest

from asr.base.interrupt import SIGNALS, Interrupted, stop_signals


@pytest.mark.parametrize("number", SIGNALS)
def test_outside_the_steps_a_signal_ends_at_once(number):
    with stop_signals() as stop, pytest.raises(Interrupted) as raised:
        os.kill(os.getpid(), number)
    assert (raised.value.signal_number, raised.value.at_once) == (number, True)
    assert stop.requested


@pytest.mark.parametrize("number", SIGNALS)
def test_within_the_first_waits_and_the_second_does_not(number):
    requests = []
    with stop_signals(lambda: requests.append(number)) as stop, stop.after_the_step():
        os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(Interrupted) as raised:
            stop.raise_if_requested()
        assert not raised.value.at_once
        with pytest.raises(Interrupted) as raised:
            os.kill(os.getpid(), number)
        assert raised.value.at_once
    assert requests == [number]


def test_after_the_steps_a_signal_ends_at_once_again():
    with stop_signals() as stop:
        with stop.after_the_step():
            pass
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_are_given_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_thread_leaves_them_as_they_are():
    told = []

    def run():
        with stop_signals() as stop:
            told.append((stop.requested, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert told == [(False, before)]
