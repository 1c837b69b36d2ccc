"""A run that is stopped by a signal or because it diverges."""

import json
import math
import os
import signal
import threading

import pytest
import torch

from base.errors import UsageError
from base.system import STOP_SIGNALS
from pretrain.run.run_folder import run_dir
from pretrain.training.loop import Loop
from pretrain.training.stopping import EXIT_STOPPED, Stopped, describe_failure, find_problem, stop_requests
from pretrain.training.training_run import train


# Signals to stop: remembered, answered, and handed back.
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


# Noticing a run that diverges.
@pytest.mark.parametrize(
    ("losses", "norms", "expected"),
    [
        ([2.0, 3.0], [1.0, 9.0], None),
        ([], [], None),
        ([2.0, math.nan], [1.0, 1.5], "the loss is nan and the norm of the gradient 1.5 at step 8"),
        ([2.0, 3.0], [math.inf, 1.0], "the loss is 2 and the norm of the gradient inf at step 7"),
        ([2.0, 50.0], [7.0, 1.0], "26 and had to stay below 20, with gradients of a norm up to 7, at step 8"),
        ([2.0, 30.0], [1.0, 1.0], None),  # one bad batch is none yet
    ],
)
def test_find_problem(losses, norms, expected):
    problem = find_problem(losses, norms, step=8, limit=20.0)
    assert problem is None if expected is None else str(problem).endswith(expected)


def test_step_norm_and_checkpoint_are_named_and_kept(tiny, monkeypatch):
    """Step 5 spoilt, noticed at step 6, where a line is logged."""

    def spoil(loop, step, update=Loop._update):
        return update(loop, step) * torch.tensor([math.nan if loop.state.step == 4 else 1.0, 0.0])

    monkeypatch.setattr(Loop, "_update", spoil)
    problem = "the loss is nan and the norm of the gradient 0"
    for save_steps, newest in ((3, "step_0000003"), (100, None)):
        config = tiny("--train.save-steps", f"{save_steps}", "--run-name", f"every{save_steps}")
        start = newest or "the beginning"
        with pytest.raises(UsageError, match=f"{problem} at step 5; lower .* from {start}$"):
            train(config)
        record = json.loads((run_dir(config) / "FAILED").read_text())
        assert record == {"step": 5, "problem": problem, "last_good_checkpoint": newest}
        with pytest.raises(UsageError, match=f"failed: {problem} at step 5; .* from {start}$"):
            train(config)


def test_weights_that_are_no_numbers_replace_no_checkpoint(tiny, monkeypatch):
    """The losses up to a checkpoint are finite, and the update behind the last of them is not."""

    def spoil(loop, step, update=Loop._update):
        result = update(loop, step)
        if loop.state.step == 5:
            next(loop.model.parameters()).data[0] = math.nan
        return result

    monkeypatch.setattr(Loop, "_update", spoil)
    with pytest.raises(UsageError, match=r"from step_0000003$"):
        train(tiny("--train.save-steps", "3"))


def test_a_loss_that_explodes_without_leaving_the_numbers_stops_the_run(tiny):
    """The mean over four steps, so that one bad batch is none yet."""
    flags = ["--optim.learning-rate", "20", "--optim.max-steps", "40", "--train.logging-steps", "4"]
    told = r"the loss is \S+ and had to stay below 22\.\d+, .* at step \d+; lower"
    with pytest.raises(UsageError, match=told):
        train(tiny(*flags))


def test_an_unreadable_marker_still_stops_a_repetition(tmp_path):
    assert describe_failure(tmp_path) is None
    (tmp_path / "FAILED").write_text("{")
    assert "failed: its marker cannot be read" in str(describe_failure(tmp_path))
