"""A hub on loopback, commands that ask it, and a cache of their own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.hub.stand_in import StandIn
from tests.processes import words_of


@pytest.fixture
def hub() -> Iterator[StandIn]:
    """A hub with nothing published."""
    with StandIn() as server:
        yield server


@pytest.fixture
def variables(hub: StandIn, tmp_path: Path) -> dict[str, str]:
    """Of the environment of a process that asks this hub, with nothing in its cache."""
    return {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(tmp_path / "hf-home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }


def run_in(variables: dict[str, str], module: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment of its own, as the client reads it when it is imported."""
    place = [module] if module.startswith("tests.") else ["ffn_ablations", *words_of(module)]
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    return subprocess.run(
        [sys.executable, "-m", *place, *map(str, args)],
        cwd=Path(__file__).parents[2],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=500,
    )


@pytest.fixture
def run(variables: dict[str, str]) -> Callable:
    """Run a command that asks the hub."""
    return partial(run_in, variables)


@pytest.fixture
def run_offline(variables: dict[str, str]) -> Callable:
    """Run a command that is told not to (``HF_HUB_OFFLINE=1``)."""
    return partial(run_in, {**variables, "HF_HUB_OFFLINE": "1"})
