"""What tests of training share: one folder of runs, so that a corpus is packed once, and small runs in it."""

import gc
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pretrain.config import ResolvedConfig
from pretrain.resolution import load_config
from pretrain.training import training_run
from tests.cases import small_run


@pytest.fixture(scope="session", autouse=True)
def _imports_are_no_garbage() -> Iterator[None]:
    """Every training collects garbage; else that walks over all that torch and transformers hold."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of runs whose cards have no samples, which are half of the work of so small a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_run, "sample_section", lambda *_: "")
        yield tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def small_config(runs_dir: Path) -> Callable[..., ResolvedConfig]:
    """Make a small run's configuration of its study, of flags and of sections."""

    def make(study: str, *flags: str, **sections: Any) -> ResolvedConfig:
        place = {"study": study} | sections.pop("output", {})
        return load_config(None, list(flags), small_run(runs_dir, output=place, **sections))

    return make


@pytest.fixture
def tiny(small_config: Callable, request: pytest.FixtureRequest) -> Callable[..., ResolvedConfig]:
    """The same in a study of the test's own."""
    return partial(small_config, re.sub(r"\W+", "-", request.node.name))
