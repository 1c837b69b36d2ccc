"""A table of devices and how fast they train, which ships, with a model for sizes that are not in it.

The model: a device's floating-point operations a second are a function of hidden_size alone, straight between
points of the table in logarithms of both, and flat beyond them. It is not asked further than ``REACH`` times
beyond the smallest and the largest hidden_size, where launches or memory may decide instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from base.config_input import read_yaml
from base.errors import unknown_name
from base.mistakes import check
from base.sections import Section
from pretrain.config import RunConfig
from pretrain.resolution import resolve
from slurm.plan.shapes import TRAINING_OVER_FORWARD, forward_flops
from slurm.plan.speeds import Speed

TABLE = Path(__file__).with_name("devices.yaml")
REACH = 2.0
SAME = 0.02
"""Models of one family, FFN and hidden_size are of one shape if their FLOPs differ by less than this part."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Point(Section):
    """A model that was trained on a device."""

    family: str
    ffn: str
    hidden_size: Annotated[int, Field(gt=0)]
    forward_mflops: Positive
    """Of a forward pass, for one token."""
    tokens_per_s: Positive

    @property
    def flops_per_s(self) -> float:
        """Floating-point operations a second of its training."""
        return TRAINING_OVER_FORWARD * 1e6 * self.forward_mflops * self.tokens_per_s


class Device(Section):
    """A device, and what is known of it."""

    name: str
    is_gpu: bool
    is_measured: bool
    text: str
    how: str
    """The command, the date and the versions of the numbers."""
    points: Annotated[tuple[Point, ...], Field(min_length=1)]

    def speed(self, config: RunConfig) -> Speed | None:
        """Return how fast a run trains: a point's number, or the model's; None beyond its reach."""
        hidden_size = resolve(config).model.hidden_size
        flops = float(forward_flops(config)["total"])
        known = "measured" if self.is_measured else "predicted, never measured"
        for point in self.points:
            is_same = (point.family, point.ffn) == (config.family, config.model.ffn)
            is_same = is_same and point.hidden_size == hidden_size
            if is_same and abs(flops / (1e6 * point.forward_mflops) - 1) < SAME:
                return Speed(point.tokens_per_s, f"{self.name}, {known}", self.is_measured)
        points = next((some for some in _nearest(self.points, config) if _reach(some, hidden_size)), None)
        if points is None:
            return None
        tokens_per_s = flops_per_s(points, hidden_size) / (TRAINING_OVER_FORWARD * flops)
        source = f"{self.name}, estimate by FLOP/s of {len(points)} points that are {known}"
        return Speed(tokens_per_s, source, False)


class DeviceTable(Section):
    """What stands in the file."""

    devices: tuple[Device, ...]


def flops_per_s(points: Sequence[Point], hidden_size: int) -> float:
    """Floating-point operations a second at a hidden_size: the geometric mean of points there, or between."""
    sizes = sorted({point.hidden_size for point in points})
    means = [
        np.mean([np.log(point.flops_per_s) for point in points if point.hidden_size == size])
        for size in sizes
    ]
    return float(np.exp(np.interp(np.log(hidden_size), np.log(sizes), means)))


@cache
def read_devices() -> dict[str, Device]:
    """Read the table that ships, by name."""
    table = check(DeviceTable, read_yaml(TABLE), source=str(TABLE))
    return {device.name: device for device in table.devices}


def find_device(name: str) -> Device:
    """Return a device of the table, in small letters or capital ones.

    Raises:
        UsageError: For an unknown name; gives the closest match and all.
    """
    devices = read_devices()
    for known, device in devices.items():
        if known.lower() == name.lower():
            return device
    raise unknown_name("device", name, devices)


def _nearest(points: Sequence[Point], config: RunConfig) -> tuple[Sequence[Point], ...]:
    """Points of the same FFN and family, those of the FFN, and all."""
    of_ffn = [point for point in points if point.ffn == config.model.ffn]
    return [point for point in of_ffn if point.family == config.family], of_ffn, points


def _reach(points: Sequence[Point], hidden_size: int) -> bool:
    """Whether the model may be asked with these points."""
    sizes = [point.hidden_size for point in points]
    return bool(sizes) and min(sizes) / REACH <= hidden_size <= max(sizes) * REACH
