"""Seeds that are added to what is undecided: studies whose cells write scores instead of training."""

import json
from collections import Counter
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from scipy import stats

from base.errors import UsageError
from base.run.folder_names import RunFolder
from report.compute import analyse
from report.inputs.sources import read_source
from report.inputs.study_design import decided_remark
from report.significance.comparison import DIFFERENT
from report.write import write_report
from scores.rows import write_rows
from scores.stages import Decision, Decisions, Look, read_decisions, write_decisions
from slurm import next_stage as stages
from slurm import todo
from slurm.commands import study_status as show_status
from slurm.next_stage import take_look
from slurm.study.cells import Cell
from slurm.study.study import load_study
from tests.cases import first_is_fast, listed
from tests.unit.slurm.next_stage.conftest import Runner

SCORES = {
    "gelu": (75.0, 0.2),
    "silu": (20.0, 0.2),  # far off: different at the first look
    "prelu": (75.0, 0.1),  # equivalent at the first look
    "relu": (56.1, 10.0),  # different at the second
    "swish": (75.0, 24.0),  # undecided to the end
}
"""Mean of every variant, and how far its runs are off: at even seeds above it, at odd seeds below."""
OF_LEVELS = {"kan": (20.0, 0.2), "kan grid_size=3": (75.0, 24.0)}
"""The same of two levels of one variant: different at the first look, and undecided to the end."""
ENDS = {"gelu": 12, "silu": 4, "prelu": 4, "relu": 8, "swish": 12}
"""Seeds of every variant at the end."""


def score(variant: str, seed: int) -> float:
    """The same mean and spread at every look."""
    mean, spread = (SCORES | OF_LEVELS)[variant]
    return mean + spread * (-1) ** seed


def leave(cell: Cell) -> None:
    """Write a cell's scores."""
    config = cell.config
    row = {"run_id": cell.run_id, "family": config.family, "variant": config.model.ffn}
    row |= {"seed": config.seed, "benchmark": "embedded-pairs", "task": "all", "group": "", "head": ""}
    row |= {"metric": "accuracy", "score": score(cell.variant, config.seed), "n_items": 100}
    write_rows(pd.DataFrame([row | {"primary": True}]), RunFolder(cell.run_dir).rows_file)


STUDY: dict[str, Any] = {
    "name": "looks",
    "variants": list(SCORES),
    "seeds": {"first": 4, "most": 12, "until": "decided"},
    "evaluation": {"suites": ["embedded-pairs"]},
    "report": {"margin": 12.0},
}


@pytest.fixture
def run(submit, monkeypatch) -> Callable[..., int]:
    """Run the test's study."""
    monkeypatch.setattr(todo, "is_done", lambda cell: RunFolder(cell.run_dir).is_scored)
    # Figures take the time.
    monkeypatch.setattr(stages, "write_report", lambda folder, _: analyse(read_source(folder)))

    def call(*flags: str, runner: Runner | None = None, **changes: Any) -> int:
        return submit(*flags, runner=runner or Runner(leave), **STUDY | changes)

    return call


def seeds_of(tmp_path: Path) -> dict[str, int]:
    """By variant how many runs there are."""
    return {name: len(list((tmp_path / "runs" / "looks").glob(f"*/{name}/seed*"))) for name in SCORES}


def looks_of(tmp_path: Path) -> list[dict[str, Any]]:
    """What was recorded, without the days."""
    looks = json.loads((tmp_path / "runs" / "looks" / "decisions.json").read_text())["looks"]
    return [{name: value for name, value in look.items() if name != "made"} for look in looks]


@pytest.mark.ci
def test_only_what_is_undecided_gets_more_seeds(run, tmp_path, capsys):
    assert run() == 0
    assert seeds_of(tmp_path) == ENDS
    said = capsys.readouterr().out
    assert "look 1 of 3, at 4 seeds: 2 of 4 comparisons decided; gelu, relu, swish go on to 8 seeds" in said
    assert "look 2 of 3, at 8 seeds: 3 of 4 comparisons decided; gelu, swish go on to 12 seeds" in said
    assert "look 3 of 3, at 12 seeds: 3 of 4 comparisons decided; no seeds are added" in said
    assert "no seeds are added: 40 runs of the 60 of a plan with 12 seeds for every variant were used" in said
    verdicts = [{c["comparison"]: c["verdict"] for c in look["claims"]} for look in looks_of(tmp_path)]
    assert verdicts[0]["silu - gelu"] == verdicts[2]["silu - gelu"] in DIFFERENT
    assert verdicts[0]["prelu - gelu"] == verdicts[2]["prelu - gelu"] == "equivalent"
    assert [found["relu - gelu"] in DIFFERENT for found in verdicts] == [False, True, True]
    written = yaml.safe_load((tmp_path / "runs" / "looks" / "study.yaml").read_text())
    assert (written["seeds"], written["until"]) == (list(range(1, 13)), "decided")
    assert len(written["cells"]) == sum(ENDS.values())

    runner = Runner(leave)
    assert run(runner=runner) == 0
    assert runner.ran == []
    assert len(looks_of(tmp_path)) == 3
    show_status([str(tmp_path / "runs" / "looks")])
    said = capsys.readouterr().out
    *_, look, report, count = said.splitlines()
    assert (look, count) == ("look 3 of 3, at 12 seeds: 3 of 4 comparisons decided", "40 cells: 40 done")
    assert report.startswith(("report: ", "no report of these yet: "))

    # What was decided stays as it was, with the runs that it had then.
    found = analyse(read_source(tmp_path / "runs" / "looks"))
    for comparison in found.comparisons:
        variant = comparison.contrast.compared
        num = ENDS[variant]
        arms = [[score(name, seed) for seed in range(1, num + 1)] for name in (variant, "gelu")]
        assert (comparison.num_runs_plus, comparison.num_runs_minus) == (num, num)
        assert comparison.p == pytest.approx(stats.ttest_ind(*arms, equal_var=False).pvalue, rel=1e-9)
    assert found.missing.empty
    assert not [note for note in found.warnings if "differ in number" in note]
    (remark,) = [text for text in found.source.remarks if "Seeds were added" in text]
    for words in ("looks of 4, 8, 12 seeds", "silu - gelu with 4 seeds", "relu - gelu with 8 seeds"):
        assert words in remark
    assert "swish" not in remark


@pytest.mark.parametrize("factor", ["ffn", pytest.param("size", marks=pytest.mark.slow)])
@pytest.mark.ci
def test_levels_get_seeds_of_their_own_at_every_size(factor, run, tmp_path, capsys):
    sizes = {"small": {"optim": {"max_steps": 3}}, "large": {"optim": {"max_steps": 4}}}
    report = {"margin": 12.0} | ({} if factor == "ffn" else {"factor": "size", "baseline": "small"})
    variants = ["gelu", *OF_LEVELS]
    seeds = {"first": 4, "most": 8}
    assert run(variants=variants, sizes=sizes, report=report, seeds=seeds) == 0
    study = load_study(tmp_path / "study.yaml")
    ends = Counter((cell.variant, dict(cell.places)["size"]) for cell in study.cells)
    # The difference between sizes is averaged over all variants, so all go on together.
    wanted = {"gelu": 8, "kan": 4 if factor == "ffn" else 8, "kan grid_size=3": 8}
    assert ends == {(name, size): num for name, num in wanted.items() for size in sizes}
    scored = [cell for cell in study.planned if RunFolder(cell.run_dir).is_scored]
    assert [cell.run_id for cell in scored] == [cell.run_id for cell in study.cells]
    used = f"{2 * sum(wanted.values())} runs of the 48 of a plan with 8 seeds for every variant"
    assert f"no seeds are added: {used} were used" in capsys.readouterr().out
    remark = decided_remark(read_source(study.folder).design)
    assert factor == "size" or (remark is not None and remark.endswith(f"It took {used}."))


@pytest.mark.ci
def test_every_look_is_a_report(run, tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "write_report", write_report)
    assert run(variants=["gelu", "silu", "swish"], seeds={"first": 4, "most": 8}) == 0
    folder = tmp_path / "runs" / "looks"
    written = (folder / "report" / "report.md").read_text()
    assert "silu - gelu with 4 seeds (embedded-pairs)" in written
    found = json.loads((folder / "report" / "report.json").read_text())
    assert sorted(found["comparisons"][i]["num_runs_minus"] for i in (0, 1)) == [4, 8]


@pytest.mark.parametrize("cell", first_is_fast([1, 20, 21, 40]))
@pytest.mark.ci
def test_killed_anywhere_the_same_command_arrives_at_the_same_end(cell, run, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(runner=Runner(leave, stops_at=cell))
    assert run() == 0
    assert seeds_of(tmp_path) == ENDS
    assert [look["seeds"] for look in looks_of(tmp_path)] == [4, 8, 12]


@pytest.mark.ci
def test_cells_that_fail_do_not_keep_a_look_from_being_made(run, tmp_path):
    assert run(runner=Runner(leave, fails=["gpt_neo/relu/seed3-"])) == 1
    assert [look["seeds"] for look in looks_of(tmp_path)] == [4, 8, 12]


def test_a_dry_run_is_of_the_first_look(run, tmp_path, capsys):
    assert run("--dry-run") == 0
    said = capsys.readouterr().out
    assert "1, 2, 3, 4; more for what is undecided at looks of 4, 8, 12 seeds (no look yet, of 3)" in said
    assert "20 cells, " in said
    assert ["in", "all", "20"] in [line.split()[:3] for line in said.splitlines()]
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_what_looks_rest_on_cannot_be_changed_after_the_first(run, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(runner=Runner(leave, stops_at=25))
    runs = {"output": {"runs_dir": str(tmp_path / "runs")}}
    for changes, said in [
        ({"report": {"margin": 1.0}}, "report.margin changed"),
        ({"seeds": {"first": 4, "most": 16}}, "looks changed"),
        ({"seeds": "1-12"}, "looks changed"),
        ({"config": runs | {"optim": {"max_steps": 7}}}, "its families or training changed"),
        ({"variants": ["gelu", "silu"]}, "variants changed"),
    ]:
        with pytest.raises(UsageError, match=said):
            run(**changes)
    assert run() == 0


def test_without_a_report_no_look_is_made(run, tmp_path):
    assert run("--no-report") == 0
    assert not (tmp_path / "runs" / "looks" / "decisions.json").exists()


@pytest.mark.parametrize(("looks", "numbers"), listed(__file__, "looks"))
def test_looks_may_be_named(looks, numbers, load):
    study = load(**STUDY | {"seeds": {"first": 3, "most": numbers[-1]}, "report": {"looks": looks}})
    assert study.config.looks == study.config.report.looks == numbers
    assert {cell.config.seed for cell in study.cells} == {1, 2, 3}
    assert {cell.config.seed for cell in study.planned} == set(range(1, numbers[-1] + 1))


def test_looks_that_do_not_fit_the_seeds_are_told(load):
    changes = {"seeds": {"first": 3, "most": 12}, "report": {"looks": [3, 6, 10]}}
    with pytest.raises(UsageError, match=r"the first at 3 and the last at 12, not 3 from 3 to 10"):
        load(**STUDY | changes)


def test_without_a_claim_no_look_is_made(tmp_path, capsys):
    """As where every evaluation of the primary outcome failed."""
    plan = {"looks": [4, 8], "variants": ["gelu", "relu"]}
    study = SimpleNamespace(folder=tmp_path, decisions=Decisions(plan=plan))
    study.now = lambda: study
    take_look(study, SimpleNamespace(comparisons=()))
    assert "no look is made, as no primary outcome has scores" in capsys.readouterr().out
    assert read_decisions(tmp_path) is None


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """What a look has decided, as it is written down."""
    claim = Decision(comparison="relu - gelu", outcome="blimp", verdict="better", is_decided=True)
    look = Look(seeds=4, made="2026-01-01", claims=(claim,), go_on=("gelu", "swish"))
    plan = {"looks": [4, 8, 12], "variants": ["gelu", "relu", "swish"]}
    decisions = Decisions(plan=plan, looks=(look,))
    write_decisions(tmp_path, decisions)
    assert read_decisions(tmp_path) == decisions
    return tmp_path / "decisions.json"


@pytest.mark.parametrize(("place", "value"), listed(__file__, "damaged records"))
def test_a_record_that_says_what_cannot_be_is_damaged(record: Path, place: tuple, value: Any):
    changed = json.loads(record.read_text())
    reduce(getitem, place[:-1], changed)[place[-1]] = value
    assert_refused(record, json.dumps(changed))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"plan": {}, "looks": [', "\0" * 100, "[" * 100_000])
def test_a_record_that_is_none_is_damaged(record: Path, text: str):
    assert_refused(record, text)


def assert_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=r"decisions\.json is damaged; restore it, or remove it"):
        read_decisions(file.parent)
