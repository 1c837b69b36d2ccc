"""Made evaluation data in the layout and the fields of the BabyLM 2025 pipeline's ``evaluation_data``."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from scores.suites import SUITES

NAMES, VERBS = ("Anna", "Ben", "Mia", "Tom"), ("saw", "liked", "found", "lost")
THINGS = ("dog", "red ball", "little bird", "box", "tree", "old cat")


def lines(path: Path, rows: Sequence[Mapping]) -> Path:
    """Write JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_data(folder: Path, num_rows: int = 2) -> Path:
    """Write all of ``full_eval`` that is about text alone; returns the folder above it."""
    draw = random.Random(0)
    full = folder / "full_eval"
    for suite, name in (("blimp-filtered", "blimp_filtered"), ("blimp-supplement", "supplement_filtered")):
        for task in SUITES[suite].tasks:
            lines(full / name / f"{task}.jsonl", [_pair(draw, task, suite) for _ in range(num_rows)])
    for domain in SUITES["ewok"].tasks:
        rows = [row for _ in range(num_rows) for row in _ewok(draw, domain)]
        lines(full / "ewok_filtered" / f"{domain}.jsonl", rows)
    for name in ("base", "wugs", "wugs_dist-before", "wugs_dist-in-between"):
        lines(full / "comps" / f"comps_{name}.jsonl", [_property(draw) for _ in range(num_rows)])
    _write_fast(folder / "fast_eval", full)
    return folder


def _write_fast(fast: Path, full: Path) -> None:
    """Make ``fast_eval`` of the first rows of ``full_eval``."""
    for name in ("blimp", "supplement", "ewok"):
        for path in (full / f"{name}_filtered").iterdir():
            rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
            copy = fast / f"{name}_fast" / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text("".join(rows[:2]), encoding="utf-8")


def _pair(draw: random.Random, task: str, suite: str) -> dict:
    words = [draw.choice(NAMES), draw.choice(VERBS), "the", draw.choice(THINGS)]
    good, bad = " ".join(words) + ".", " ".join([*words[:2], *words[3:], "the"]) + "."
    row = {"sentence_good": good, "sentence_bad": bad}
    if suite == "blimp-supplement":
        return row
    return {**row, "UID": task, "field": "syntax", "linguistics_term": "island_effects", "pair_id": 7}


def _ewok(draw: random.Random, domain: str) -> list[dict]:
    first, second = draw.sample(THINGS, 2)
    contexts = [f"{draw.choice(NAMES)} has a {thing}." for thing in (first, second)]
    targets = [f"The {thing} is there." for thing in (first, second)]
    known = {"Domain": domain, "ContextType": "direct", "ContextDiff": "concept", "TargetDiff": "concept"}
    names = ("Context1", "Context2", "Target1", "Target2")
    swapped = [*contexts[::-1], *targets[::-1]]
    return [known | dict(zip(names, of, strict=True)) for of in ([*contexts, *targets], swapped)]


def _property(draw: random.Random) -> dict:
    first, second = draw.sample(THINGS, 2)
    phrase = draw.choice(("is very big.", "can run.", "has a long tail."))
    prefixes = {"prefix_acceptable": f"A {first}", "prefix_unacceptable": f"A {second}"}
    return {"property_phrase": phrase} | prefixes
