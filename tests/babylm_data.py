"""Made evaluation data in the layout and the fields of the BabyLM 2025 pipeline's ``evaluation_data``."""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from eval.suites.registry import SUITES

NAMES, VERBS = ("Anna", "Ben", "Mia", "Tom"), ("saw", "liked", "found", "lost")
THINGS = ("dog", "red ball", "little bird", "box", "tree", "old cat")
WORDS = ("ball", "dog", "cat", "tree", "house", "water", "sun", "bed")
STORY = (
    "Once upon a time there was a little girl . None of the birds in the tree wanted to play with her . "
    "She took the red ball and ran to the big house . Her friend saw the dog near the door and smiled at it ."
)
EYE_TRACKING = ("RTfirstfix", "RTfirstpass", "RTgopast", "RTrightbound")


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
    for task in SUITES["entity-tracking"].tasks:
        rows = [_boxes(draw, numops) for numops in (0, 1, 0) for _ in range(num_rows)]
        lines(full / "entity_tracking" / f"{task}.jsonl", rows)
    for name, ends in (("wug_adj_nominalization", ("ity", "ness")), ("wug_past_tense", ("ed", "t"))):
        stems = [f"{a}{b}" for a in ("spl", "dr", "wug") for b in ("ing", "abb", "oom")]
        rows = [
            {
                "sentences": "\t".join(
                    f"The word is {stem}{end}." for end in (ends[0], ends[1] * (n % 3 + 1))
                ),
                "ratio": draw.random(),
            }
            for n, stem in enumerate(stems)
        ]
        lines(full / name / f"{name}.jsonl", rows)
    for name in ("base", "wugs", "wugs_dist-before", "wugs_dist-in-between"):
        lines(full / "comps" / f"comps_{name}.jsonl", [_property(draw) for _ in range(num_rows)])
    write_reading(full / "reading" / "reading_data.csv")
    write_aoa(full / "aoa")
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
    for name in ("wug_adj_nominalization", "wug_past_tense", "reading"):
        shutil.copytree(full / name, fast / name)
    (fast / "entity_tracking_fast").mkdir()
    shutil.copy(full / "entity_tracking" / "regular.jsonl", fast / "entity_tracking_fast")


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
    return [
        known
        | {"Context1": contexts[a], "Context2": contexts[b], "Target1": targets[a], "Target2": targets[b]}
        for a, b in ((0, 1), (1, 0))
    ]


def _boxes(draw: random.Random, numops: int) -> dict:
    options = [f" the {thing}." for thing in draw.sample(THINGS, 5)]
    prefix = f"Box 1 contains{options[0][:-1]}, Box 2 is empty. Box 1 contains"
    return {"input_prefix": prefix, "options": options, "numops": numops}


def _property(draw: random.Random) -> dict:
    first, second = draw.sample(THINGS, 2)
    phrase = draw.choice(("is very big.", "can run.", "has a long tail."))
    return {
        "property_phrase": phrase,
        "prefix_acceptable": f"A {first}",
        "prefix_unacceptable": f"A {second}",
    }


def write_reading(path: Path, num_words: int = 10_000) -> Path:
    """Write words with what stands before them; some times and one frequency are not known."""
    draw = random.Random(1)
    rows: list[dict] = []
    for sentence in STORY.split(" . "):
        words = sentence.split()
        for place in range(1, len(words)):
            row = {
                "item": " ".join(words[:place]),
                "word": words[place],
                "prev_item": " ".join(words[: place - 1]),
                "prev_word": words[place - 1] if place > 1 else "",
                "Subtlex_log10": round(draw.uniform(2, 6), 3),
                "length": len(words[place]),
                "context_length": place,
                "prev_length": len(words[place - 1]),
                "self_paced_reading_time": round(draw.uniform(200, 500), 2),
                **{name: round(draw.uniform(100, 400), 2) for name in EYE_TRACKING},
            }
            rows.append(row)
    rows = rows[:num_words]
    rows[0]["RTgopast"] = rows[-1]["self_paced_reading_time"] = ""
    rows[-2]["Subtlex_log10"] = "NA"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_aoa(folder: Path) -> Path:
    """Write words in contexts, one of a single letter and one that no child was asked for, and the shares."""
    contexts = {word: [{"context": f"{name} saw the "} for name in NAMES[:2]] for word in WORDS}
    contexts |= {"a": [{"context": "It is "}], "zebra": [{"context": "This is a "}]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cdi_childes.json").write_text(json.dumps(contexts))
    table = ["word," + ",".join(map(str, range(16, 31)))]
    for number, word in enumerate(WORDS):
        shares = [1 / (1 + 2.7 ** (-0.6 * (age - 18 - number))) for age in range(16, 31)]
        table.append(f"{word}," + ",".join(f"{share:.4f}" for share in shares))
    table[2] = table[2].replace(",", ",,", 1).rsplit(",", 1)[0]  # one age is not known
    (folder / "cdi_human.csv").write_text("\n".join(table) + "\n")
    return folder
