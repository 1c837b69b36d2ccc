"""What several folders of these tests read."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def tokenizer(shared_data):
    """That of the source study."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(shared_data / "tokenizer-10k")
