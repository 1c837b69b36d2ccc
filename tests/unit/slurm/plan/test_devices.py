"""The table of devices, and what is made of it for sizes that are not in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.resolution import load_config
from slurm.plan.devices import Device, Point, find_device, flops_per_s, read_devices
from slurm.plan.shapes import forward_flops


def gpt_neo(repository: Path, **model: object) -> RunConfig:
    return load_config(repository / "configs" / "gpt-neo.yaml", overrides={"model": model})


def point(hidden_size: int, tokens_per_s: float, ffn: str = "gelu") -> Point:
    return Point(
        family="gpt_neo", ffn=ffn, hidden_size=hidden_size, forward_mflops=1.0, tokens_per_s=tokens_per_s
    )


def test_points_that_ship_are_of_the_shipped_sizes(repository: Path) -> None:
    """FLOPs of a table's points are those of the configurations that were measured."""
    known = {
        name: forward_flops(load_config(repository / "configs" / file, overrides={"model": model}))["total"]
        for name, file, model in [
            ("gpt_neo gelu", "gpt-neo.yaml", {}),
            ("gpt_neo gelu 64", "tiny.yaml", {}),
            ("gpt_neo gelu 128", "small-gpt-neo.yaml", {}),
            ("gpt_neo kan", "gpt-neo.yaml", {"ffn": "kan", "ffn_options": {"grid_size": 3}}),
            ("gpt_neo kan 5", "gpt-neo.yaml", {"ffn": "kan"}),
            ("roberta gelu", "roberta.yaml", {}),
            ("roberta kan", "roberta.yaml", {"ffn": "kan", "ffn_options": {"grid_size": 3}}),
            ("roberta kan 5", "roberta.yaml", {"ffn": "kan"}),
        ]
    }
    for one in [one for device in read_devices().values() for one in device.points]:
        flops = [count for name, count in known.items() if name.startswith(f"{one.family} {one.ffn}")]
        assert min(abs(1e6 * one.forward_mflops / count - 1) for count in flops) < 1e-3


def test_no_gpu_is_called_measured() -> None:
    for device in read_devices().values():
        assert device.is_measured != device.is_gpu, device.name
        assert "2026" in device.how
        assert "python -m" in device.how or "ffn-ablations" in device.how


def test_a_shape_of_the_table_has_its_own_number(repository: Path) -> None:
    speed = find_device("h100").speed(gpt_neo(repository))
    assert speed is not None
    assert (round(466e6 / speed.tokens_per_s), speed.is_measured) == (121, False)  # as benchmarks/RESULTS.md
    assert speed.source == "H100, predicted, never measured"
    measured = find_device("xeon-2-cores").speed(gpt_neo(repository))
    assert measured is not None
    assert (measured.tokens_per_s, measured.is_measured) == (4876, True)


def test_operations_a_second_lie_between_those_of_the_sizes_around() -> None:
    points = [point(64, 1000), point(256, 16_000), point(256, 4000)]
    assert flops_per_s(points, 64) == pytest.approx(3 * 1e6 * 1000)
    assert flops_per_s(points, 256) == pytest.approx(3 * 1e6 * 8000)  # geometric mean
    assert flops_per_s(points, 128) == pytest.approx(3 * 1e6 * np.sqrt(1000 * 8000))
    assert flops_per_s(points, 32) == pytest.approx(3 * 1e6 * 1000)


def test_the_model_is_not_asked_beyond_its_reach(repository: Path) -> None:
    device = Device(
        name="X",
        is_gpu=False,
        is_measured=True,
        text="",
        how="",
        points=(point(256, 1000), point(300, 9, "kan")),
    )
    speed = device.speed(gpt_neo(repository, hidden_size=128))
    assert speed is not None
    forward = forward_flops(gpt_neo(repository, hidden_size=128))["total"]
    assert speed.tokens_per_s == pytest.approx(1e6 * 1000 / forward)
    assert not speed.is_measured
    assert speed.source == "X, estimate by FLOP/s of 1 points that are measured"
    of_other = device.speed(gpt_neo(repository, hidden_size=140, ffn="kan"))  # 140 is too far from kan's 300
    assert of_other is not None
    assert of_other.source == "X, estimate by FLOP/s of 2 points that are measured"
    assert device.speed(gpt_neo(repository, hidden_size=64)) is None
    assert device.speed(gpt_neo(repository, hidden_size=1024)) is None


def test_an_unknown_device_is_named_with_the_closest() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'H100'\?"):
        find_device("H10")
