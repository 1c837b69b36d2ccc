"""Runs of one variant that were trained through different sources: said before anything else is amiss."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import pytest

from report.compute import analyse
from report.inputs.sources import read_source
from tests.unit.report.rendering import render
from tests.unit.report.run_folders import write_run

A, B, C = "a" * 12, "b" * 12, "c" * 12
FAMILIES = ("gpt_neo", "roberta")


@pytest.fixture
def study(tmp_path: Path) -> Callable[[Mapping[int, dict]], Path]:
    """Write runs of two variants; those of kan say their source, by seed."""

    def write(sources: Mapping[int, dict]) -> Path:
        for family, variant, seed in product(FAMILIES, ("gelu", "kan"), range(1, 6)):
            record = sources.get(seed, {}) if variant == "kan" else {}
            log = [{"step": 1, "eval_loss": 3 + 0.01 * seed}]
            write_run(tmp_path / "s", f"{family}/{variant}/seed{seed}-0", log, record)
        return tmp_path / "s"

    return write


def of(source: str, *earlier: str) -> dict:
    return {"variant_source": source, "variant_earlier_sources": list(earlier)}


def test_they_are_named_first_of_all_that_is_amiss(study):
    folder = study({1: of(A), 2: of(A), 3: of(A), 4: of(B), 5: of(B)})
    source = read_source(folder)
    assert source.notes[:1] == (
        f"kan: 6 runs through {A} (gpt_neo/kan/seed1-0, gpt_neo/kan/seed2-0 and 4 more), 4 runs through "
        f"{B} (gpt_neo/kan/seed4-0, gpt_neo/kan/seed5-0 and 2 more): they are 2 variants under one name; "
        "train those of the earlier source anew, or, if all compute the same, add it to earlier_sources "
        "of the spec",
    )
    text = render(analyse(source))
    warning = text.split("> [!WARNING]\n")[1].splitlines()[0]
    assert warning.startswith(f"> - kan: 6 runs through {A}")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({1: of(A), 2: of(A), 3: of(A)}, None),  # those of 4 and 5 are not known
        ({1: of(A), 2: of(B, A), 3: of(B, A), 4: of(A), 5: of(B, A)}, None),
        ({1: of(A), 2: of(C, B), 3: of(B, A), 4: of(A), 5: of(C)}, None),
        ({1: of(A), 3: of(B), 4: of(B), 5: of(C, B)}, {A: 2, B: 6}),
        ({1: of(A), 2: of(B), 3: of(C)}, {A: 2, B: 2, C: 2}),
    ],
)
def test_sources_that_compute_the_same_are_one(study, records, said):
    text = " ".join(read_source(study(records)).notes)
    counts = re.findall(r"(\d) runs? through (\w+)", text)
    assert {source: int(number) for number, source in counts} == (said or {})
