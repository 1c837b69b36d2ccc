"""Throw-away SLURM clusters for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cluster import Cluster
from cluster_config import INSTALL, missing_programs

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them where SLURM is absent."""
    absent = missing_programs()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)
            if absent:
                item.add_marker(pytest.mark.skip(reason=INSTALL))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One node that the tests of a worker share; none of them breaks it."""
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture
def new_cluster() -> Iterator[Callable[..., Cluster]]:
    """Starts clusters for one test, which may break them."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(Cluster(*args, **options))
