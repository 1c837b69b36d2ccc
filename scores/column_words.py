"""Words by which the names of metrics and columns tell what they are: ``column_words.yaml`` has them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from base.config_input import read_yaml


@cache
def column_words(part: str) -> re.Pattern[str]:
    """Return a part of that file, which finds any of its words."""
    words = read_yaml(Path(__file__).with_suffix(".yaml"))[part]
    return re.compile(rf"(?<![a-z])(?:{'|'.join(words)})(?![a-z])")
