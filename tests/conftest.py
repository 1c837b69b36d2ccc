"""Fixtures shared by all tests; tests import nothing from one another."""

from __future__ import annotations

import os
from pathlib import Path

# Set before any Hugging Face library is imported: a test that needs the hub fails at once instead of waiting.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

REPOSITORY = Path(__file__).parents[1]


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
