"""Throw-away SLURM clusters for the tests of this folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import INSTALL, Cluster, missing_programs
from tests.slurm.studies import SubmittedStudy, TinyStudy, run_here

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


@pytest.fixture(scope="session")
def base_config(repository: Path) -> Path:
    """The config that the tiny studies start from."""
    return repository / "configs" / "tiny.yaml"


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, base_config: Path) -> TinyStudy:
    """The study run on this machine without SLURM: what must come out."""
    study = TinyStudy(tmp_path_factory.mktemp("undisturbed"), base_config)
    run_here(study, "--cells-per-job", 2, "--no-report")
    return study


@pytest.fixture
def on_cluster(
    cluster: Cluster, new_cluster: object, tmp_path: Path, base_config: Path
) -> Iterator[Callable[..., SubmittedStudy]]:
    """Makes a tiny study for a cluster, the shared one unless another is given; its jobs end with the test.

    It asks for ``new_cluster`` so that the clusters of a test end after its jobs.
    """
    with ExitStack() as stack:

        def make(
            where: Cluster = cluster, preset: dict[str, Any] | None = None, **study: Any
        ) -> SubmittedStudy:
            made = SubmittedStudy(TinyStudy(tmp_path, base_config, **study), where, preset)
            stack.callback(made.close)
            return made

        yield make
