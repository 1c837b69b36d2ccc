"""Runs of one study that were trained on different texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.records import write_record
from base.run.folder_names import RunFolder
from report.inputs.run_facts import RunFacts
from report.inputs.study_checks import text_notes

A, B = "a" * 16, "b" * 16


def notes(folder: Path, texts: dict[tuple[str, str, int], str]) -> tuple[str, ...]:
    """What is said of runs whose records have these fingerprints."""
    facts, runs = [], {}
    for (family, variant, seed), found in texts.items():
        run = RunFolder(folder / family / variant / f"seed{seed}-0")
        run.path.mkdir(parents=True)
        write_record(run.provenance_file, {"data_fingerprint": found} if found else {})
        facts.append(RunFacts(run_id=run.run_id, family=family, variant=variant, seed=seed))
        runs[run.run_id] = run
    return tuple(text_notes(facts, runs))


def test_texts_that_changed_between_runs_are_named_with_the_variants(tmp_path: Path) -> None:
    variants = ("gelu", "relu", "silu", "kan")
    texts = {("gpt_neo", variant, seed): A for variant in variants for seed in (1, 2)}
    (said,) = notes(tmp_path, texts | {("gpt_neo", "swiglu", 1): B})
    assert said.startswith(f"gpt_neo: 8 runs on texts of fingerprint {A} (gpt_neo/gelu/seed1-0, ")
    assert f"1 run on texts of fingerprint {B} (gpt_neo/swiglu/seed1-0)" in said


@pytest.mark.parametrize("other", ["", f"{A}-packed", A])
def test_nothing_is_said_of_the_same_texts_cut_otherwise_nor_of_what_is_not_known(
    tmp_path: Path, other: str
) -> None:
    assert notes(tmp_path, {("gpt_neo", "gelu", 1): f"{A}-rows", ("gpt_neo", "relu", 1): other}) == ()


def test_families_may_have_texts_of_their_own(tmp_path: Path) -> None:
    assert notes(tmp_path, {("gpt_neo", "gelu", 1): A, ("roberta", "gelu", 1): B}) == ()
