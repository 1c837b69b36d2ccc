"""Compare two models item by item: ``python -m eval.compare_items FIRST SECOND``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.files import write_text
from base.sections import Section
from eval.report.two_models.compare import Cluster, ItemDifference, TwoModels, compare_models
from eval.report.two_models.items import read_model_items
from eval.report.two_models.page import FIGURE, answer, command_of, draw_parts, page

PAGE_NAME = "items.md"


class CompareItemsArgs(Section):
    """Two models, one training each: on which items do they differ, and is that more than chance among items?

    For two runs: python -m eval.compare_items runs/study/gpt_neo/gelu/seed1-* runs/study/gpt_neo/kan/seed1-*

    For two models that lm-eval logged: python -m eval.compare_items out/first out/second

    Writes items.md (start there), items.json with every number, and parts.svg. It says nothing of another
    training of either model; ffn-ablations report does, from several seeds of each.
    """

    first: Positional[Path]
    """A run that was scored, or the folder of one model that lm-eval --log_samples wrote."""
    second: Positional[Path]
    """The other one; differences are SECOND minus FIRST."""
    cluster: Cluster | None = None
    """What counts as independent: tasks, groups of tasks (phenomena), or single items (default: tasks where a
    benchmark has five or more of them, else items)."""
    out: Path = Path("items")
    """Folder to write into."""


def main(args: Sequence[str] | None = None) -> int:
    """Compare, write the page and its files, and print the answer."""
    asked = parse_flags(CompareItemsArgs, args, prog="python -m eval.compare_items")
    if asked.out.exists() and not asked.out.is_dir():
        raise UsageError(f"{asked.out} is a file; --out names a folder")
    for path in (asked.first, asked.second):
        if not path.exists():
            raise UsageError(f"{path} does not exist; give a run's folder, or one that lm-eval wrote")
    found = compare_models(read_model_items(asked.first), read_model_items(asked.second), asked.cluster)
    drawn = draw_parts(found)
    words = [str(asked.first), str(asked.second), *(["--cluster", asked.cluster] if asked.cluster else [])]
    if drawn:
        from eval.report.figures.style import to_svg

        write_text(asked.out / f"{FIGURE}.svg", to_svg(drawn[0]))
    write_text(asked.out / "items.json", json.dumps(as_json(found), indent=1))
    out = [*words, "--out", str(asked.out)]
    write_text(asked.out / PAGE_NAME, page(found, drawn[1] if drawn else None, command_of(out)))
    print(f"{answer(found)}\n\n{asked.out / PAGE_NAME}")
    return 0


def as_json(found: TwoModels) -> dict[str, Any]:
    """Return every number of the page; what is not estimable is null."""
    return {
        "first": {"name": found.first.name, "path": str(found.first.path)},
        "second": {"name": found.second.name, "path": str(found.second.path)},
        "wholes": [_entry(x) for x in found.wholes],
        "parts": [_entry(x) for x in found.parts],
        "notes": list(found.notes),
    }


def _entry(x: ItemDifference) -> dict[str, Any]:
    numbers = {
        "outcome": str(x.outcome.name),
        "unit": x.outcome.unit,
        "better": x.outcome.better,
        "part": x.part,
        "first": x.means[0],
        "second": x.means[1],
        "num_items": x.num_items,
        "cluster": x.cluster,
        "num_clusters": x.num_clusters,
        **x.paired._asdict(),
        "p_corrected": x.p_corrected,
        "mcnemar": x.right._asdict() if x.right else None,
    }
    return {name: _finite(value) for name, value in numbers.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
