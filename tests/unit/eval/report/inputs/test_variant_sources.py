"""Runs of one variant that were trained through different sources: said before anything else is amiss."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from base.records import write_record
from eval.report.analyse import analyse
from eval.report.inputs.sources import read_source
from eval.results.rows import write_rows
from pretrain.run.folders import RunFolder
from tests.unit.eval.report.rendering import render

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
    assert source.other_sources == (
        f"kan: seeds 1-3 through {A}, seeds 4-5 through {B}: they are 2 variants under one name; train those "
        "of the earlier source anew, or, if all compute the same, add it to earlier_sources of the spec",
    )
    text = render(analyse(source))
    warning = text.split("> [!WARNING]\n")[1].splitlines()[0]
    assert warning.startswith(f"> - kan: seeds 1-3 through {A}, seeds 4-5 through {B}")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({1: of(A), 2: of(A), 3: of(A)}, None),  # those of 4 and 5 are not known
        ({1: of(A), 2: of(B, A), 3: of(B, A), 4: of(A), 5: of(B, A)}, None),
        ({1: of(A), 2: of(C, B), 3: of(B, A), 4: of(A), 5: of(C)}, None),
        ({1: of(A), 3: of(B), 4: of(B), 5: of(C, B)}, f"kan: seed 1 through {A}, seeds 3-5 through {B}"),
        ({1: of(A), 2: of(B), 3: of(C)}, f"kan: seed 1 through {A}, seed 2 through {B}, seed 3 through {C}"),
    ],
)
@pytest.mark.ci
def test_sources_that_compute_the_same_are_one(study, records, said):
    (*notes,) = read_source(study(sources(records))).other_sources
    assert [note.split(": they are")[0] for note in notes] == ([said] if said else [])


def test_families_are_named_where_they_differ(study):
    folder = study(sources({1: of(A), 2: of(A)}, ("gpt_neo",)) | sources({1: of(A), 2: of(B)}, ("roberta",)))
    (note,) = read_source(folder).other_sources
    assert note.startswith(f"kan: gpt_neo seeds 1-2 and roberta seed 1 through {A}, seed 2 through {B}: ")
