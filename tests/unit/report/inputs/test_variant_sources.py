"""Runs of one variant that were trained through different sources: said before anything else is amiss."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from base.records import write_record
from base.run.folder_names import RunFolder
from report.compute import analyse
from report.inputs.sources import read_source
from scores.rows import write_rows
from tests.unit.report.rendering import render

A, B, C = "a" * 12, "b" * 12, "c" * 12


@pytest.fixture
def study(tmp_path):
    """Write scored runs of two variants, whose records say their source."""

    def write(sources: dict[tuple[str, str, int], dict]) -> Path:
        draw = np.random.default_rng(0)
        families = ("gpt_neo", "roberta")
        for family, variant, seed in itertools.product(families, ("gelu", "kan"), range(1, 6)):
            run = RunFolder(tmp_path / "s" / family / variant / f"seed{seed}-0")
            run.path.mkdir(parents=True)
            config = {"family": family, "seed": seed, "model": {"ffn": variant}}
            run.config_file.write_text(yaml.safe_dump(config), encoding="utf-8")
            write_record(run.provenance_file, sources.get((family, variant, seed), {}))
            rows = {
                "run_id": run.run_id, "family": family, "variant": variant, "seed": seed,
                "benchmark": "blimp", "task": "t", "group": "g", "metric": "accuracy",
                "score": draw.normal(70), "n_items": 100, "head": "", "primary": True,
            }  # fmt: skip
            write_rows(pd.DataFrame([rows]), run.rows_file)
        return tmp_path / "s"

    return write


def sources(by_seed: dict[int, dict], families=("gpt_neo", "roberta")) -> dict[tuple[str, str, int], dict]:
    return {(family, "kan", seed): record for family in families for seed, record in by_seed.items()}


def of(source: str, *earlier: str) -> dict:
    return {"variant_source": source, "variant_earlier_sources": list(earlier)}


def test_they_are_named_first_of_all_that_is_amiss(study):
    folder = study(sources({1: of(A), 2: of(A), 3: of(A), 4: of(B), 5: of(B)}))
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
@pytest.mark.ci
def test_sources_that_compute_the_same_are_one(study, records, said):
    text = " ".join(read_source(study(sources(records))).notes)
    counts = re.findall(r"(\d) runs? through (\w+)", text)
    assert {source: int(number) for number, source in counts} == (said or {})
