"""A training that ends before a step as Ctrl-C ends it; not in ``tests.cases``, which needs no training."""

import pytest

from pretrain.config import ResolvedConfig
from pretrain.training.loop import Loop
from pretrain.training.training_run import train


def train_until(last: int, config: ResolvedConfig) -> None:
    """Train, or go on, and interrupt before the step behind ``last``."""

    def stop(loop: Loop, step, update=Loop._update):
        if loop.state.step == last:
            raise KeyboardInterrupt
        return update(loop, step)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Loop, "_update", stop)
        with pytest.raises(KeyboardInterrupt):
            train(config)
