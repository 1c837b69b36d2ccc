"""Fixtures shared by all tests; tests import nothing from one another."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Set before any Hugging Face library is imported: a test that needs the hub fails at once instead of waiting.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from hypothesis import settings

from base.errors import UsageError
from ffn_variants import names, registry
from ffn_variants import variant_files as files
from ffn_variants.kernels import compilation
from ffn_variants.kernels.compilation import compiled_kernels_in_use, use_compiled_kernels
from ffn_variants.variants.activations import PerChannel, thesis_swish

REPOSITORY = Path(__file__).parents[1]
BEGAN = pytest.StashKey[float]()

# Few examples in the fast set; ``make test-all`` takes --hypothesis-profile=thorough.
settings.register_profile("fast", max_examples=10, deadline=None)
settings.register_profile("thorough", max_examples=80, deadline=None)
settings.load_profile("fast")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real TinyStories, BLiMP and GLUE subsets, kept beside the checkout and never inside it."""
    path = REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("real data subsets are absent: no folder ../shared/data beside the checkout")
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what ``make test CHANGED=1`` says (tests/changed.py)."""
    parser.addoption("--seconds", type=float, help="skip tests that have not begun so long after the first")


@pytest.hookimpl(tryfirst=True)  # before fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test for which there is no time left."""
    limit = item.config.getoption("--seconds")
    if (
        limit is not None
        and time.monotonic() > item.session.stash.setdefault(BEGAN, time.monotonic()) + limit
    ):
        pytest.skip(f"not begun within {limit:g} s; make test runs all")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what reads the real texts, so that ``make test-ci`` runs it where ``make test`` had none.

    The notebook comes first: it takes longer than any other, and at the end all workers would wait for it.
    """
    items.sort(key=lambda item: "test_the_notebook" not in item.name)
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")


@pytest.fixture(scope="session")
def error() -> Callable[[Any, Any], float]:
    """How far a tensor is from its reference: the largest difference over max(1, the largest reference).

    "Within 1e-6" is said of this, for weights at their initial scale and normal inputs. Of a reference below
    1 it is the absolute error; of larger ones, such as gradients summed over many rows, float32 has no more.
    """

    def measure(actual: Any, reference: Any) -> float:
        got, wanted = (
            v.detach().double().numpy() if isinstance(v, torch.Tensor) else np.asarray(v)
            for v in (actual, reference)
        )
        assert got.shape == wanted.shape
        assert np.isfinite(got).all()
        return float(abs(got - wanted).max() / max(1.0, abs(wanted).max()))

    return measure


@pytest.fixture
def own_variants() -> Iterator[None]:
    """Whatever variants a test registers or loads from files, this process forgets after it."""
    modules = set(sys.modules)
    with patch.dict(names.LOADED, clear=True), patch.dict(registry.FFN_VARIANTS):
        yield
    for name in [name for name in sys.modules if name not in modules and name.startswith(files.MODULE)]:
        del sys.modules[name]


@pytest.fixture
def other_formula(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have ``swish`` compute something else from now on."""

    def change(**fields: Any) -> None:
        fields["build"] = lambda width, init: PerChannel(thesis_swish, width, init)
        changed = replace(registry.FFN_VARIANTS["swish"], **fields)
        monkeypatch.setitem(registry.FFN_VARIANTS, "swish", changed)

    return change


@pytest.fixture(scope="session", autouse=True)
def _mistakes_are_told_in_one_line() -> Iterator[None]:
    """Whatever a test asks of a mistake that it meets, its message has one line."""

    def made(error: UsageError, *message: object) -> None:
        ValueError.__init__(error, *message)
        assert "\n" not in str(error), f"a mistake of several lines: {error}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UsageError, "__init__", made)
        yield


@pytest.fixture(autouse=True)
def _eager_unless_chosen() -> Iterator[None]:
    """A training in this process leaves its choice of compiled kernels behind; the next test has its own."""
    yield
    use_compiled_kernels(False)


@pytest.fixture(scope="session")
def inductor_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fresh place for what is compiled, which the workers of one run of pytest share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "inductor"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        # A pool of compilers takes longer to start than these kernels to compile.
        patch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
        yield folder


@pytest.fixture
def compiled_kernels(inductor_cache: Path) -> Iterator[None]:
    """Compile kernels during a test, and see that compiling did not fail."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        pytest.skip(f"no C++ compiler: {compiler} is not on the PATH")
    before = compiled_kernels_in_use()
    use_compiled_kernels(True)
    try:
        yield
        assert compiled_kernels_in_use()
    finally:
        use_compiled_kernels(before)
        compilation._State.failure = ""
