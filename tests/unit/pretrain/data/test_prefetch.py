"""Batches made one step ahead: their order, their errors, and a thread that ends with the loop."""

from __future__ import annotations

import contextlib
import threading

import pytest
import torch

from pretrain.data.step_batches import BatchSource, one_ahead
from pretrain.training.loop import Loop
from pretrain.training.training_run import train


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_each_is_made_in_a_thread_while_the_one_before_is_in_use():
    made = [threading.Event() for _ in range(4)]
    names = set()

    def make(number):
        names.add(threading.current_thread().name)
        made[number].set()
        return number * number

    with contextlib.closing(one_ahead(make, range(4))) as ahead:
        for number, square in enumerate(ahead):
            assert square == number * number
            assert number == 3 or made[number + 1].wait(60)
            assert not any(event.is_set() for event in made[number + 2 :])  # no further than one
    assert len(names) == 1
    assert threading.current_thread().name not in names
    assert not threads()


def test_few_or_no_numbers():
    assert list(one_ahead(abs, [])) == []
    assert list(one_ahead(abs, [-3])) == [3]


def test_an_error_is_raised_where_its_result_is_due():
    def make(number):
        if number == 2:
            raise OSError("the corpus is gone")
        return number

    ahead = one_ahead(make, range(5))
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(OSError, match="the corpus is gone"):
        next(ahead)
    assert not threads()


def test_the_loop_gets_every_step_once_and_its_error(tiny, monkeypatch):
    asked, given = [], []

    def step(source, split, number, step=BatchSource.step):
        asked.append(number)
        if number == 4:
            raise OSError("Input/output error")
        return step(source, split, number)

    def update(loop, step):
        given.append(step.batches[0]["input_ids"])
        return torch.ones(2)

    monkeypatch.setattr(BatchSource, "step", step)
    monkeypatch.setattr(Loop, "_update", update)
    with pytest.raises(OSError, match="Input/output error"):
        train(tiny())
    assert asked == [0, 1, 2, 3, 4]
    assert len(given) == 4
    assert not threads()
