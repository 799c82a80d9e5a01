import os
import signal
import threading

import pytest

from asr.base.system.interrupt import HANG_UP, SIGNALS, Interrupted, stop_signals


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_is_not_deferred_interrupts_at_once(number):
    with stop_signals() as stop, pytest.raises(Interrupted) as raised:
        os.kill(os.getpid(), number)
    assert (raised.value.signal_number, raised.value.at_once) == (number, True)
    assert stop.requested


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_deferred_signal_waits_and_the_second_interrupts_at_once(number):
    requests = []
    with stop_signals(lambda: requests.append(number)) as stop, stop.deferred():
        os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(Interrupted) as raised:
            stop.raise_if_requested()
        assert not raised.value.at_once
        with pytest.raises(Interrupted) as raised:
            os.kill(os.getpid(), number)
        assert raised.value.at_once
    assert requests == [number]


def test_a_signal_after_the_deferred_block_interrupts_at_once():
    with stop_signals() as stop:
        with stop.deferred():
            pass
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.skipif(not HANG_UP, reason="Windows has no hang-up")
def test_hang_up_stays_ignored_under_nohup():
    before = signal.signal(HANG_UP, signal.SIG_IGN)
    try:
        with stop_signals() as stop:
            os.kill(os.getpid(), HANG_UP)
            assert not stop.requested
    finally:
        signal.signal(HANG_UP, before)


def test_signal_handlers_are_restored():
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_stop_signals_in_another_thread_keeps_the_handlers():
    seen = []

    def run():
        with stop_signals() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
