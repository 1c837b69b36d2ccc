"""How many of a benchmark's texts stood in a run's training text, kept beside its scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from base.files import read_json, write_text
from pretrain.run.folders import RunFolder


@dataclass(frozen=True)
class Contamination:
    """Of ``num_texts`` texts of a benchmark, ``num_found`` stand in the training text."""

    num_texts: int
    num_found: int

    @property
    def percent(self) -> float:
        """Share of the texts that were found, in percent."""
        return 100 * self.num_found / self.num_texts if self.num_texts else 0.0


def write_contamination(run_dir: Path, found: Mapping[str, Contamination]) -> None:
    """Write what was found of each benchmark; what the run's file says of others stays."""
    known = {name: asdict(counts) for name, counts in (read_contamination(run_dir) | dict(found)).items()}
    write_text(RunFolder(run_dir).contamination_file, json.dumps(known, indent=1, sort_keys=True) + "\n")


def read_contamination(run_dir: Path) -> dict[str, Contamination]:
    """Read what was found of each benchmark in a run's training text; empty where nobody looked."""
    content = read_json(RunFolder(run_dir).contamination_file)
    return {name: Contamination(**counts) for name, counts in content.items()}
