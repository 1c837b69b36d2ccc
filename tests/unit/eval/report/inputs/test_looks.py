"""Reports of a study that grows: which look each is, what it costs, and what was asked before the results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.inputs.history import read_history, remember_question
from eval.report.inputs.looks import looks_note
from eval.report.inputs.sources import read_source
from eval.report.remember import remember, with_question_remembered
from eval.report.sections.context import Context
from eval.report.sections.history import questions_note
from eval.report.sections.methods import methods_section
from eval.results.outcome import Declared
from eval.results.rows import ROW_COLUMNS, write_rows
from eval.significance.statistics.looks import nominal_levels
from pretrain.run.folders import StudyFolder

VARIANTS = {"gelu": 0.0, "kan": -4.0, "relu": 0.0}


class Growing:
    """A study of one family and one benchmark."""

    def __init__(self, folder: Path, **report: Any) -> None:
        self.folder = folder
        self.ask(**report)

    def ask(self, **report: Any) -> None:
        """Write the study's file, as submitting it does."""
        report = {"baseline": "gelu", "margin": 1.0} | report
        self.folder.mkdir(exist_ok=True)
        content = {"families": ["gpt_neo"], "variants": list(VARIANTS), "seeds": [1, 2, 3], "report": report}
        (self.folder / "study.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        remember_question(self.folder, report)

    def grow(self, num_seeds: int, decimals: int = 6) -> None:
        """Score every variant with so many seeds."""
        generator = np.random.default_rng(7)
        for seed in range(1, num_seeds + 1):
            for variant, shift in VARIANTS.items():
                run_id = f"gpt_neo/{variant}/seed{seed}-0a1b2c3d"
                score = round(70 + shift + generator.normal(), decimals)
                row = (
                    run_id,
                    "gpt_neo",
                    variant,
                    seed,
                    "blimp",
                    "agreement",
                    "a",
                    "accuracy",
                    score,
                    200,
                    "",
                )
                table = pd.DataFrame([row], columns=list(ROW_COLUMNS[:-1]))
                write_rows(table, self.folder / run_id / "eval" / "rows.parquet")

    def report(self, request: Request | None = None) -> Analysis:
        """Analyse and remember, as a written report does, without drawing anything."""
        found = analyse(with_question_remembered(read_source(self.folder)), request)
        remember(found)
        return found


def kan(analysis: Analysis):
    return next(c for c in analysis.comparisons if str(c.contrast) == "kan - gelu")


@pytest.mark.ci
def test_unplanned_looks_are_counted_and_cost_what_they_cost(tmp_path: Path):
    study = Growing(tmp_path / "s")
    notes = []
    for num_seeds in (3, 5, 6):
        study.grow(num_seeds)
        found = study.report()
        notes.append(looks_note(found.looks))
        assert (notes[-1] in found.warnings) == (num_seeds > 3)
    cost = "every uncorrected look adds to the 5%"
    assert notes == [
        "1st report of this study (n = 3): no looks were planned",
        f"2nd report of this study (n = 3, 5): no looks were planned; {cost}",
        f"3rd report of this study (n = 3, 5, 6): no looks were planned; {cost}",
    ]
    assert kan(found).p_sequential == kan(found).p


@pytest.mark.slow
def test_a_report_written_again_or_with_flags_is_no_further_look(tmp_path: Path):
    study = Growing(tmp_path / "s")
    study.grow(3)
    study.report()
    again = study.report()
    assert again.looks.number == 1
    asked = study.report(Request(baseline="relu"))
    assert asked.looks is None
    study.grow(4)
    assert study.report().looks.number == 2
    assert len(read_history(study.folder).reports) == 2
    line = json.loads(StudyFolder(study.folder).history_file.read_text().splitlines()[-1])
    assert line["claims"]["blimp: kan - gelu"]["runs"] == 4
    assert set(line["claims"]) == {"blimp: kan - gelu", "blimp: relu - gelu"}


@pytest.mark.ci
def test_planned_looks_are_tested_at_their_own_levels(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6])
    for num_seeds, path in ((3, (3,)), (4, (3, 4)), (6, (3, 4, 6))):
        study.grow(num_seeds)
        found = study.report()
        one = kan(found)
        arms = [found.runs[found.runs.variant == v].score for v in ("kan", "gelu")]
        assert one.p == pytest.approx(stats.ttest_ind(*arms, equal_var=False).pvalue)
        nominal = nominal_levels(path, 6, 0.05)[-1]
        assert one.look.nominal(0.05) == pytest.approx(nominal, rel=1e-4)
        # The first of two by Holm: half of the level, spent over the looks.
        half = nominal_levels(path, 6, 0.025)[-1]
        assert one.is_different == (one.p < half)
        assert "within its planned looks at n = 3, 6" in looks_note(found.looks)
        assert not found.looks.is_costly
        assert not [w for w in found.warnings if "report of this study" in w]
    study.grow(8)
    beyond = study.report()
    assert kan(beyond).look is kan(found).look
    note = next(w for w in beyond.warnings if "report of this study" in w)
    assert note.startswith("4th report of this study (n = 3, 4, 6, 8), beyond its planned looks at n = 3, 6")
    assert note.endswith("which spent the whole 5%: this look adds to it")


@pytest.mark.slow
@pytest.mark.parametrize("looks", [[3, 6, 10], "any"])
def test_intervals_agree_with_verdicts_at_every_look(tmp_path: Path, looks: Any):
    study = Growing(tmp_path / "s", looks=looks)
    for num_seeds in (3, 6):
        study.grow(num_seeds)
        for c in study.report().comparisons:
            assert c.low_simultaneous < c.low < c.high < c.high_simultaneous or c.is_different
            assert (c.low_simultaneous >= 0 or c.high_simultaneous <= 0) == c.is_different


@pytest.mark.slow
def test_looks_of_the_command_line_go_before_the_studys(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6])
    study.grow(6)
    assert kan(study.report()).look.nominal(0.05) > 0.04
    asked = study.report(Request(looks=(6, 12)))
    assert kan(asked).look.nominal(0.05) < 0.01
    assert asked.looks is None


def test_what_was_asked_before_and_after_the_results_is_told(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6])
    study.grow(3)
    assert questions_note(study.report()) == (
        "Before the results stood in the study's file: baseline gelu, margin 1 and looks 3, 6. "
        "Nothing of it was changed since."
    )
    study.ask(looks=[3, 6], margin=2.0, contrasts=["kan - relu"])
    note = questions_note(study.report())
    day = read_history(study.folder).questions[-1].date[:10]
    assert note.endswith(
        f"Changed after the first results (1 change, {day}): contrasts kan - relu and margin 2."
    )
    request = Request(baseline="relu", primary=("blimp",), declared=Declared(margins={"blimp": 0.5}))
    assert questions_note(study.report(request)).endswith(
        "On the command line: baseline relu, primary blimp and margins blimp 0.5."
    )


def test_what_was_changed_and_changed_back_was_changed(tmp_path: Path):
    study = Growing(tmp_path / "s")
    study.grow(3)
    study.report()
    study.ask(margin=2.0)
    study.ask(contrasts=["kan - relu"])
    study.ask()
    note = questions_note(study.report())
    day = read_history(study.folder).questions[-1].date[:10]
    said = f"Changed after the first results (3 changes, {day}) and back again: contrasts and margin."
    assert note.endswith(said)
    study.ask(margin=2.0)
    note = questions_note(study.report())
    assert f"Changed after the first results (4 changes, {day}): margin 2." in note
    assert note.endswith(f"Changed after the first results (4 changes, {day}) and back again: contrasts.")


def test_a_file_edited_by_hand_is_noticed(tmp_path: Path):
    study = Growing(tmp_path / "s")
    study.grow(3)
    content = yaml.safe_load((study.folder / "study.yaml").read_text())
    content["report"]["margin"] = 5.0
    (study.folder / "study.yaml").write_text(yaml.safe_dump(content))
    assert "Changed after the first results" in questions_note(study.report())


def test_a_note_of_the_study_is_told_and_is_no_change(tmp_path: Path):
    study = Growing(tmp_path / "s")
    study.grow(3)
    before = questions_note(study.report())
    content = yaml.safe_load((study.folder / "study.yaml").read_text())
    content["report"]["note"] = "A first grid\nwas given up."
    (study.folder / "study.yaml").write_text(yaml.safe_dump(content))
    note = questions_note(study.report())
    assert note == f"{before} The study's own note: A first grid was given up."


def test_what_is_not_known_is_said(tmp_path: Path):
    study = Growing(tmp_path / "s")
    StudyFolder(study.folder).history_file.unlink()
    study.grow(3)
    assert "was not recorded" in questions_note(study.report())
    source = replace(read_source(study.folder), history=None)
    assert "not known of a file of scores" in questions_note(analyse(source))


def test_a_folder_that_cannot_be_written_to_has_a_report(tmp_path: Path):
    study = Growing(tmp_path / "s")
    study.grow(3)
    file = StudyFolder(study.folder).history_file
    file.unlink()
    file.mkdir()  # nothing can be appended, whoever runs the test
    assert study.report().looks.number == 1


def test_methods_say_how_looks_are_counted(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6])
    study.grow(3)
    context = Context(command="", versions={}, figures={})
    planned = methods_section(study.report(), context)
    assert "looked at with 3, 6 runs in every arm" in planned
    assert "anytime-valid" in methods_section(study.report(Request(looks="any")), context)
    study.ask()
    assert "looked at" not in methods_section(study.report(), context)
