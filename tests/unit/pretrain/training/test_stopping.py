"""Signals to stop: remembered, answered, and handed back."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from base.system import STOP_SIGNALS
from pretrain.training.stopping import EXIT_STOPPED, Stopped, stop_requests


@pytest.fixture
def before():
    """Handlers of somebody else, and the signals that they saw."""
    seen: list[int] = []
    old = {signum: signal.signal(signum, lambda signum, _: seen.append(signum)) for signum in STOP_SIGNALS}
    yield seen
    for signum, handler in old.items():
        signal.signal(signum, handler)


def stop_after(signum: int) -> None:
    """What the loop does with a signal."""
    with stop_requests() as request:
        assert request.signum is None
        os.kill(os.getpid(), signum)
        assert request.signum == signum
        raise request.stopped("stopped after step 3")


@pytest.mark.parametrize("signum", STOP_SIGNALS)
def test_a_signal_is_remembered_and_the_handler_of_before_sees_it_once_it_is_handed_on(before, signum):
    with pytest.raises(Stopped) as stopped:
        stop_after(signum)
    assert stopped.value.code == EXIT_STOPPED == 75
    assert str(stopped.value) == "stopped after step 3"
    assert before == []
    stopped.value.hand_on()
    assert before == [signum]


def test_a_signal_that_came_too_late_is_given_back(before):
    with stop_requests():
        os.kill(os.getpid(), signal.SIGTERM)
        assert before == []
    assert before == [signal.SIGTERM]


def test_without_a_handler_there_is_nobody_to_hand_on_to(before):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which would end this process
    with pytest.raises(Stopped) as stopped:
        stop_after(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    stopped.value.hand_on()


def test_handlers_are_back_after_an_error(before):
    with pytest.raises(ValueError, match="x"), stop_requests():
        raise ValueError("x")
    os.kill(os.getpid(), signal.SIGUSR1)
    assert before == [signal.SIGUSR1]


def test_in_another_thread_nothing_is_caught(before):
    def work() -> None:
        with stop_requests() as request:
            signal.raise_signal(signal.SIGUSR2)
            assert request.signum is None

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert before == [signal.SIGUSR2]
