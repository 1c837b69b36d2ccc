"""A tuned study, stage by stage, killed anywhere: its cells write losses instead of training."""

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from base.errors import UsageError
from base.records import write_record
from base.run.folder_names import RunFolder
from pretrain.run.run_folder import config_hash, write_config
from scores.tuning_trials import read_tuning
from slurm import next_stage as stages
from slurm import run_study
from slurm import todo as todo_module
from slurm.commands import study_status as show_status
from slurm.study.study import load_study
from tests.cases import first_is_fast
from tests.unit.slurm.next_stage.conftest import Runner

RATE = "optim.learning_rate"
RATES = [1e-3, 3e-3, 1e-2]
BEST = {"gelu": 3e-3, "relu": 3e-3, "kan": 1e-2}
"""Of every variant; kan's is at the edge, and stays best when the grid has grown."""


def loss(variant: str, rate: float, seed: int) -> float:
    """A bowl in the logarithm of the rate; seeds differ by as much everywhere."""
    return 3.0 + math.log(rate / BEST[variant]) ** 2 + seed / 1e4


def leave(cell: Any) -> str | None:
    """Write what a cell's training leaves."""
    run, config = RunFolder(cell.run_dir), cell.config
    run.path.mkdir(parents=True, exist_ok=True)
    write_config(run.path, config)
    results = {"step": 5, "eval_loss": loss(cell.variant, config.optim.learning_rate, config.seed)}
    record = {"results": results, "config_hash": config_hash(config), "variant_source": "", "files": {}}
    write_record(run.completion_marker, record)
    return None


def diverge(cell: Any) -> str | None:
    """Train, but for gelu at one rate, which diverges."""
    if (cell.variant, cell.config.optim.learning_rate) != ("gelu", 3e-3):
        return leave(cell)
    run = RunFolder(cell.run_dir)
    run.path.mkdir(parents=True, exist_ok=True)
    write_config(run.path, cell.config)
    run.failure_marker.write_text("{}")
    return "the loss diverged"


STUDY: dict[str, Any] = {"name": "tuned", "variants": list(BEST), "tune": {RATE: RATES, "seeds": [101, 102]}}


@pytest.fixture
def run(submit, monkeypatch) -> Callable[..., int]:
    """Run the test's study."""
    monkeypatch.setattr(todo_module, "is_finished", lambda run: RunFolder(run).has_marker)
    monkeypatch.setattr(todo_module, "is_evaluated", lambda *_: True)
    monkeypatch.setattr(stages, "write_report", lambda *_: None)
    monkeypatch.setattr(stages, "summary", lambda _: "")

    def call(*flags: str, runner: Runner | None = None, **changes: Any) -> int:
        return submit(*flags, runner=runner or Runner(leave), **STUDY | changes)

    return call


def told(tmp_path: Path) -> dict[str, Any]:
    """What stands in the study's folder: its cells and the record, without the days."""
    folder = tmp_path / "runs" / "tuned"
    tuning = json.loads((folder / "tuning.json").read_text())
    rounds = [{name: value for name, value in each.items() if name != "made"} for each in tuning["rounds"]]
    written = yaml.safe_load((folder / "study.yaml").read_text())
    runs = sorted(path.parent.relative_to(folder).as_posix() for path in folder.glob("*/*/*/config.yaml"))
    listed = {name: written.get(name) for name in ("cells", "stages", "levels")}
    return {"rounds": rounds, "chosen": tuning["chosen"], "runs": runs, **listed}


def runs_of(tmp_path: Path, variant: str) -> Counter[tuple[float, str]]:
    """How many runs of a variant there are of each rate and part of the held-out text."""
    found = (tmp_path / "runs" / "tuned").glob(f"*/{variant}/*/config.yaml")
    configs = [yaml.safe_load(path.read_text()) for path in found]
    return Counter((one["optim"]["learning_rate"], one["data"]["validation_part"]) for one in configs)


def test_every_variant_is_tuned_alike_and_trains_at_its_own_best_and_at_the_shared_rate(
    run, tmp_path, capsys
):
    assert run() == 0
    even = {(rate, "even"): 2 for rate in (1e-3, 3e-3, 1e-2, 0.03333)}  # all got the fourth, for kan's sake
    assert runs_of(tmp_path, "gelu") == even | {(3e-3, "odd"): 2}
    assert runs_of(tmp_path, "relu") == even | {(3e-3, "odd"): 2}
    assert runs_of(tmp_path, "kan") == even | {(1e-2, "odd"): 2, (3e-3, "odd"): 2}
    tuning = read_tuning(tmp_path / "runs" / "tuned")
    assert {one.variant: one.point[RATE] for one in tuning.chosen} == BEST
    assert all(tuning.at_edge(one) == () for one in tuning.chosen)
    for each in tuning.rounds:
        for one in each.tried:
            assert one.losses == tuple(loss(one.variant, one.point[RATE], seed) for seed in (101, 102))

    written = told(tmp_path)
    # The runs of gelu and relu are at their own best and at the shared one.
    numbers = {stage: len(ids) for stage, ids in written["stages"].items()}
    assert numbers == {"tune": 24, "shared": 6, "main": 4}
    assert set(written["stages"]["main"]) < set(written["stages"]["shared"])
    assert len(written["cells"]) == len(set(written["cells"])) == 24 + 6 + 2
    for run_id in written["stages"]["tune"]:
        assert set(written["levels"][run_id]) == {"variant", RATE}
    said = capsys.readouterr().out
    assert "tuning: 1 round, 0 of 3 chosen" in said
    assert "chosen: gpt_neo, kan: optim.learning_rate 0.01 (held-out loss 3.0102)" in said

    runner = Runner(leave)
    assert run(runner=runner) == 0
    assert runner.ran == []
    show_status([str(tmp_path / "runs" / "tuned")])
    *_, progress, report, count = capsys.readouterr().out.splitlines()
    assert (progress, count) == ("tuning: 2 rounds, all chosen", "32 cells: 32 done")
    assert report.startswith("no report of these yet: ffn-ablations study run ")


@pytest.mark.parametrize("cell", first_is_fast([20, 1, 18, 19, 24, 25, 31, 32]))
@pytest.mark.ci
def test_killed_anywhere_the_same_command_arrives_at_the_same_end(cell, run, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    runs = {"config": {"output": {"runs_dir": str(whole / "runs")}}}
    assert run(**runs) == 0
    runner = Runner(leave, stops_at=cell)
    with pytest.raises(KeyboardInterrupt):
        run(runner=runner)
    rest = Runner(leave)
    assert run(runner=rest) == 0
    assert told(tmp_path) == told(whole)
    assert len({*runner.ran, *rest.ran}) == len(runner.ran) + len(rest.ran)  # none twice


def test_a_run_that_diverged_counts_as_infinitely_bad_and_is_not_tried_again(run, tmp_path):
    runner = Runner(diverge)
    assert run("--retry-failed", runner=runner) == 0
    tuning = read_tuning(tmp_path / "runs" / "tuned")
    assert {one.variant: one.point[RATE] for one in tuning.chosen} == BEST | {"gelu": 1e-3}
    (tried,) = [one for one in tuning.rounds[0].tried if one.variant == "gelu" and one.point[RATE] == 3e-3]
    assert tried.losses == (None, None)
    assert len(runner.ran) == len(set(runner.ran))


@pytest.mark.slow
def test_a_run_that_failed_by_itself_holds_up_the_choice_until_it_is_done(run, tmp_path, capsys):
    assert run(runner=Runner(leave, fails=["gpt_neo/kan/seed102-"])) == 1
    assert read_tuning(tmp_path / "runs" / "tuned") is None
    said = capsys.readouterr().out
    assert "tuning waits for 3 of its runs that failed by an error of their own" in said
    assert run() == 1  # they are left alone
    assert run("--retry-failed") == 0
    assert read_tuning(tmp_path / "runs" / "tuned").is_over


def test_a_dry_run_tells_the_tuning_runs_and_what_comes_after_them(run, tmp_path, capsys):
    assert run("--dry-run") == 0
    said = capsys.readouterr().out
    assert "18 cells, " in said
    assert "tuning    optim.learning_rate 0.001, 0.003, 0.01 at seeds 101, 102" in said
    rows = [line.split() for line in said.splitlines()]
    assert [row[2] for row in rows if row[:3] == ["in", "all", "24"]]  # 18 and at each one's own best 6
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_what_was_tuned_cannot_be_changed_after_the_first_round(run, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(runner=Runner(leave, stops_at=20))
    tune = {RATE: RATES, "seeds": [101, 102]}
    runs = {"output": {"runs_dir": str(tmp_path / "runs")}}
    for changes, said in [
        ({"tune": tune | {RATE: [1e-3, 3e-3]}}, "what is tuned changed after its first round of tuning"),
        ({"tune": tune | {"seeds": [101, 103]}}, "tune.seeds changed"),
        ({"tune": tune | {"widen": 0}}, "tune.widen changed"),
        ({"variants": ["gelu", "kan"]}, "relu took part in it; put it back"),
        ({"config": runs | {"optim": {"max_steps": 7}}}, "its families or training changed"),
        ({"tune": None}, "tune changed"),
    ]:
        with pytest.raises(UsageError, match=said):
            run(**changes)
    tried = read_tuning(tmp_path / "runs" / "tuned").rounds
    again = {"variants": [*BEST][::-1], "tune": tune | {"seeds": [102, 101]}, "report": {"baseline": "gelu"}}
    assert run("--dry-run", seeds=[1, 2, 3], **again) == 0  # no other tuning
    assert load_study(tmp_path / "study.yaml").tuning.rounds == tried
    assert run(seeds=[1, 2, 3], **again) == 0
    assert read_tuning(tmp_path / "runs" / "tuned").rounds[: len(tried)] == tried


def tuned_runs(runner: Runner) -> list[tuple[str, str]]:
    """Variant and stage of what was run."""
    return sorted({(cell.variant, cell.stage) for cell in runner.cells})


@pytest.mark.parametrize("by_flag", [True, False], ids=["--add", "file"])
@pytest.mark.ci
def test_a_newcomer_is_tuned_as_often_as_the_others_and_nothing_is_repeated(run, tmp_path, by_flag):
    """After the grid has grown, so that the newcomer tries in one round what took the others several."""
    study, two = tmp_path / "runs" / "tuned", {"variants": ["gelu", "kan"]}
    assert run(**two) == 0
    before = read_tuning(study)
    grown = before.rounds[-1].grid
    assert len(grown[RATE]) > len(RATES)
    ends = {path: path.stat().st_mtime_ns for path in study.glob("*/*/*/COMPLETED")}
    flags, named = (("--add", "relu"), two) if by_flag else ((), {"variants": ["relu", "gelu", "kan"]})
    runner = Runner(leave)
    assert run(*flags, runner=runner, **named) == 0
    assert tuned_runs(runner) == [("relu", "main"), ("relu", "tune")]
    assert {path: path.stat().st_mtime_ns for path in ends} == ends
    now = read_tuning(study)
    assert now.is_over
    assert now.plan.later == (("relu",),)
    assert now.rounds[: len(before.rounds)] == before.rounds
    assert now.chosen[: len(before.chosen)] == before.chosen
    assert now.choice("gpt_neo", (), "relu").point == {RATE: BEST["relu"]}
    tried = Counter(one.variant for each in now.rounds for one in each.tried)
    assert len(set(tried.values())) == 1
    again = Runner(leave)
    assert run(*flags, runner=again, **named) == 0
    assert not again.ran
    if by_flag:
        with pytest.raises(UsageError, match=r"relu took part in it; put it back, or --add it again"):
            run(**two)


@pytest.mark.parametrize("stops_at", first_is_fast([3, 9]))
@pytest.mark.ci
def test_a_newcomer_may_enter_at_any_time_and_be_killed(run, tmp_path, stops_at):
    """Before the others are through it waits for their grid; a second one enters by itself."""
    with pytest.raises(KeyboardInterrupt):
        run(variants=["gelu", "kan"], runner=Runner(leave, stops_at=14))
    with pytest.raises(KeyboardInterrupt):
        run("--add", "relu", variants=["gelu", "kan"], runner=Runner(leave, stops_at=stops_at))
    assert run("--add", "relu", variants=["gelu", "kan"]) == 0
    tuning = read_tuning(tmp_path / "runs" / "tuned")
    assert tuning.is_over
    tried = {name: set() for name in BEST}
    for each in tuning.rounds:
        for one in each.tried:
            tried[one.variant].add(one.point[RATE])
    assert tried["relu"] == tried["gelu"] == tried["kan"]
    assert {one.variant: one.point[RATE] for one in tuning.chosen} == BEST


@pytest.mark.parametrize("by", ["all", "the rest"])
def test_a_sitting_may_have_some_of_the_variants_and_seeds(run, tmp_path, by):
    """The same command without the flags goes on with the others, and so does one that names them alone."""
    first, asked = Runner(leave), {"report": {"baseline": "gelu", "contrasts": ["relu - kan", "relu - gelu"]}}
    assert run("--variants", "gelu", "relu", "--seeds", "1", runner=first, **asked) == 0
    share = yaml.safe_load((tmp_path / "runs" / "tuned" / "study.yaml").read_text())
    assert share["report"]["contrasts"] == ["relu - gelu"]
    assert {cell.variant for cell in first.cells} == {"gelu", "relu"}
    assert {cell.seed for cell in first.cells if cell.stage != "tune"} == {1}
    rest = Runner(leave)
    flags = () if by == "all" else ("--variants", "kan")
    assert run(*flags, runner=rest, **asked) == 0
    assert not set(first.ran) & set(rest.ran)
    assert {(cell.variant, cell.seed) for cell in rest.cells if cell.stage == "main"} == {
        ("kan", 1), ("kan", 2), ("gelu", 2), ("relu", 2),
    }  # fmt: skip
    assert read_tuning(tmp_path / "runs" / "tuned").plan.later == (("kan",),)


def test_a_family_may_be_added_too(run, tmp_path, repository):
    """It is tuned by itself, and the choices of the other stay."""
    two = {"variants": ["gelu", "relu"]}
    assert run(**two) == 0
    before = read_tuning(tmp_path / "runs" / "tuned")
    files = {"gpt_neo": "tiny", "roberta": "tiny-roberta"}
    families = {family: f"{repository}/configs/{name}.yaml" for family, name in files.items()}
    runner = Runner(leave)
    assert run(families=families, runner=runner, **two) == 0
    now = read_tuning(tmp_path / "runs" / "tuned")
    assert {cell.config.family for cell in runner.cells} == {"roberta"}
    assert now.is_over
    assert now.chosen[:2] == before.chosen
    assert {(one.family, one.variant) for one in now.chosen[2:]} == {("roberta", "gelu"), ("roberta", "relu")}


def test_settings_of_a_study_are_tuned_apart(tmp_path, repository, run):
    """Each size chooses for itself, and its runs are told apart by their places."""
    sizes = {"1L": {"model": {"num_hidden_layers": 1}}, "2L": {"model": {"num_hidden_layers": 2}}}
    assert run(sizes=sizes, variants=["gelu", "kan"], tune={RATE: RATES, "seeds": [101], "widen": 0}) == 0
    tuning = read_tuning(tmp_path / "runs" / "tuned")
    assert [(one.places, one.variant, one.point[RATE]) for one in tuning.chosen] == [
        ((("size", "1L"),), "gelu", 3e-3),
        ((("size", "1L"),), "kan", 1e-2),
        ((("size", "2L"),), "gelu", 3e-3),
        ((("size", "2L"),), "kan", 1e-2),
    ]
    assert all(tuning.at_edge(one) == ((RATE,) if one.variant == "kan" else ()) for one in tuning.chosen)
    levels = told(tmp_path)["levels"].values()
    assert {tuple(sorted(level)) for level in levels} == {(RATE, "size", "variant"), ("size", "variant")}


def test_the_text_that_is_compared_on_is_prepared_before_any_tuning(load, monkeypatch):
    seen: list[str] = []
    monkeypatch.setattr(run_study, "prepare_data", lambda config: seen.append(config.data.validation_part))
    study = load(**STUDY)
    assert {cell.config.data.validation_part for cell in study.cells} == {"even"}
    run_study._prepare(study, study.cells)
    assert seen == ["even", "odd"]
