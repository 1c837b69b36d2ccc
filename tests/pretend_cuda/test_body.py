"""The count of a step whose model is compiled as a whole, against that of the same step uncompiled."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.gpu import pretend
from benchmarks.gpu.counting import Counts, count_updates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(pretend.why_not() is not None, reason=str(pretend.why_not())),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
]


def test_a_compiled_body_keeps_every_product_and_moves_fewer_bytes():
    case = {"family": "gpt_neo", "variant": "gelu", "overrides": []}
    (plain,), (compiled,) = count_updates([case]), count_updates([case], compiled=True)
    assert any(launch.name == "compiled::kernel" for launch in compiled.launches)
    assert _flops(compiled) == _flops(plain)
    assert _bytes(compiled) < _bytes(plain)
    assert len(compiled.launches) < len(plain.launches)


def _flops(counts: Counts) -> int:
    return sum(launch.flops for launch in counts.launches)


def _bytes(counts: Counts) -> int:
    return sum(launch.num_bytes for launch in counts.launches)
