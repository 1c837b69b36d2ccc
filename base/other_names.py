"""What others call flags, keywords and functions: ``other_names.yaml`` says what to write here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from base.config_input import read_yaml


@cache
def _read() -> dict[str, Any]:
    return read_yaml(Path(__file__).with_suffix(".yaml"))


class OtherNames(Mapping[str, str]):
    """A part of that file, by each name of others; it is read when somebody first asks, as a mistake does.

    Args:
        part: Its key.
    """

    def __init__(self, part: str) -> None:
        self._part = part

    @cached_property
    def _texts(self) -> dict[str, str]:
        lines = _read()[self._part].items()
        return {name: text for names, text in lines for name in names.split() or [""]}

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
