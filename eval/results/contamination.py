"""How many of a benchmark's texts stood in a run's training text, kept beside its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from base.files import mapping
from base.records import read_record, write_record
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
    write_record(RunFolder(run_dir).contamination_file, known)


def read_contamination(run_dir: Path) -> dict[str, Contamination]:
    """Read what was found of each benchmark in a run's training text; empty where nobody looked.

    A damaged file is set aside and says nothing.
    """
    content = read_record(RunFolder(run_dir).contamination_file, dict) or {}
    found = {}
    for name, counts in content.items():
        num_texts, num_found = (mapping(counts).get(key) for key in ("num_texts", "num_found"))
        if isinstance(num_texts, int) and isinstance(num_found, int):
            found[name] = Contamination(num_texts, num_found)
    return found
