"""What run folders tell: facts and sources of their variants, failures, and tasks scored in two ways."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from base.run.folder_names import RunFolder, StudyFolder
from report.inputs.run_facts import Evaluation, RunFacts, read_facts
from report.inputs.sources import read_source
from report.inputs.study_checks import FailedRun, failed_notes, failed_runs, precision_notes, protocol_notes
from report.inputs.study_design import report_before
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison, Inference, compare_with_baseline
from report.significance.multiple_comparisons import MultipleComparisons
from report.verdicts.failed_runs import FailureCount, count_failures, failure_notes, with_failed
from scores.metrics import Metric
from slurm.cell_state import CellState, write_state
from tests.cases import listed
from tests.unit.report.studies import analysed, change_plan, render, write_plan, write_run


@pytest.mark.parametrize(("seeds", "differ"), [([[1], [2]], False), ([[1], [1, 2]], True)])
def test_each_run_may_have_its_own_seed_of_finetuning(tmp_path: Path, seeds, differ):
    folders = {}
    for own in seeds:
        run_id = f"gpt_neo/gelu/seed{len(folders)}-x"
        folders[run_id] = RunFolder(tmp_path / run_id)
        folders[run_id].eval_dir.mkdir(parents=True)
        ledger = {"weights": "w", "tasks": {"glue/rte/linear": {"version": 3, "seeds": own}}}
        (tmp_path / run_id / "eval" / "done.json").write_text(json.dumps(ledger))
    assert bool(protocol_notes(folders)) == differ


def test_tasks_scored_differently_within_a_family_are_named(tmp_path: Path):
    folders = {}
    for family, seed, version in (("gpt_neo", 1, 2), ("gpt_neo", 2, 2), ("gpt_neo", 3, 1), ("roberta", 1, 9)):
        run_id = f"{family}/gelu/seed{seed}-x"
        folder = tmp_path / run_id / "eval"
        folder.mkdir(parents=True)
        protocol = {"version": version, "reduction": "sum"}
        (folder / "done.json").write_text(json.dumps({"weights": "w", "tasks": {"blimp/x": protocol}}))
        folders[run_id] = RunFolder(tmp_path / run_id)
    (note,) = protocol_notes(folders)
    assert note.startswith(
        "scored differently in gpt_neo, version: gpt_neo/gelu/seed3-x against the other runs"
    )


NAME = Benchmark("x")


def scores_of(cells: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    rows = [
        (f"{family}/{variant}/seed{seed}-0", family, variant, seed, NAME, score)
        for (family, variant), of_arm in cells.items()
        for seed, score in enumerate(of_arm, start=1)
        if not math.isnan(score)
    ]
    return pd.DataFrame(rows, columns=["run_id", "family", "variant", "seed", "benchmark", "score"])


def with_failures(
    cells: dict[tuple[str, str], list[float]],
) -> tuple[tuple[FailureCount, ...], tuple[Comparison, ...]]:
    """What is said of cells in which a run that diverged scores nan; the first variant is the baseline."""
    scores = scores_of(cells)
    metric = Metric(name="x", better="higher", margin=1.0)
    claims = MultipleComparisons({NAME: ArmTable.of_scores(scores, NAME, metric=metric)}, [NAME], Inference())
    variants = list(dict.fromkeys(variant for _, variant in cells))
    alone = compare_with_baseline(claims.tables[NAME], variants[0], variants[1:], claims.inference)
    failed = [
        FailedRun(f"{family}/{variant}/seed{seed}-0", family, variant, has_diverged=True)
        for (family, variant), of_arm in cells.items()
        for seed, score in enumerate(of_arm, start=1)
        if math.isnan(score)
    ]
    comparisons = with_failed(claims.correct(alone), failed, scores)
    ended = set(zip(scores.run_id, scores.family, scores.variant, strict=True))
    return count_failures(failed, ended, comparisons), comparisons


def test_shares_of_failed_runs_are_tested_over_the_variants():
    lost, nan = [50.0, 51.0], float("nan")
    cells = {
        ("f", "gelu"): [50.0, 51, 52, 50, 49, 51], ("g", "gelu"): [50.0, 51, 52, 50, 49, nan],
        ("f", "kan"): [*lost, nan, nan, nan, nan], ("g", "kan"): [*lost, nan, nan, nan, nan],
        ("f", "relu"): [50.0, 51, 52, 50, 49, nan], ("g", "relu"): [50.0, 51, 52, 50, 49, nan],
    }  # fmt: skip
    failures, comparisons = with_failures(cells)
    whole = {c.variant: c for c in failures if c.family is None}
    assert {v: (c.num_diverged, c.num_runs) for v, c in whole.items()} == {
        "gelu": (1, 12), "kan": (8, 12), "relu": (2, 12),
    }  # fmt: skip
    p = {name: stats.fisher_exact([[n, 12 - n], [1, 11]]).pvalue for name, n in (("kan", 8), ("relu", 2))}
    assert {v: whole[v].p for v in p} == pytest.approx(p)
    assert whole["kan"].p_corrected == pytest.approx(2 * p["kan"])
    assert whole["relu"].p_corrected == pytest.approx(max(2 * p["kan"], p["relu"]))
    assert whole["gelu"].p is None
    (note,) = failure_notes(failures, 0.05)
    assert note.startswith("kan failed in 8 of 12 runs, gelu in 1 of 12 (Fisher's exact test, Holm, p 0.0")
    overall = {c.contrast.compared: c.num_failed for c in comparisons if c.family is None}
    assert overall == {"kan": 9, "relu": 3}


def test_families_are_counted_whatever_was_scored_in_which():
    other = Benchmark("y")
    scores = scores_of({("f", v): [1.0, 2.0] for v in ("a", "b")})
    more = scores_of({("g", v): [1.0, 2.0] for v in ("a", "b")}).assign(benchmark=other)
    tables = {n: ArmTable.of_scores(x, n) for n, x in ((NAME, scores), (other, more))}
    claims = MultipleComparisons(tables, list(tables), Inference())
    alone = [c for t in tables.values() for c in compare_with_baseline(t, "a", ["b"], Inference())]
    failed = [FailedRun("g/b/seed3-0", "g", "b", has_diverged=True)]
    found = count_failures(failed, [], claims.correct(alone))
    assert [(c.family, c.num_diverged) for c in found if c.variant == "b"] == [(None, 1), ("f", 0), ("g", 1)]


def test_only_what_ended_without_a_result_has_failed(tmp_path: Path):
    diverged, repeated = (tmp_path / "gpt_neo" / "kan" / f"seed{seed}-a" for seed in (1, 2))
    for run in (diverged, repeated):
        run.mkdir(parents=True)
        (run / "FAILED").write_text(json.dumps({"step": 120, "problem": "the loss is nan"}))
    (repeated / "COMPLETED").write_text('{"results": {}}')
    states = ("failed", "done", "failed", "waiting", "missing", "running")
    for seed, name in enumerate(states, start=1):
        write_state(tmp_path, f"gpt_neo/kan/seed{seed}-a", CellState(name=name, error="OSError: full"))
    found = failed_runs(tmp_path, None)
    assert list(failed_notes(found)) == [
        "diverged in pretraining: gpt_neo/kan/seed1-a (the loss is nan at step 120)",
        "failed: gpt_neo/kan/seed3-a (OSError: full)",
    ]
    assert {(run.family, run.variant) for run in found} == {("gpt_neo", "kan")}
    assert [(run.run_id[-7:], run.has_diverged) for run in found] == [("seed1-a", True), ("seed3-a", False)]
    assert failed_runs(tmp_path, frozenset({"gpt_neo/kan/seed2-a"})) == ()


def write_study(folder: Path, scores: dict[str, list[float]]) -> Path:
    """A study of one family; a run whose score is nan diverged."""
    run_ids = []
    for variant, of_variant in scores.items():
        for seed, score in enumerate(of_variant, start=1):
            run_ids.append(f"gpt_neo/{variant}/seed{seed}-0a1b2c3d")
            has_diverged = math.isnan(score)
            rows = [] if has_diverged else [("blimp", "t", "g", "accuracy", score)]
            run = write_run(folder, run_ids[-1], scores=rows)
            if has_diverged:
                run.completion_marker.unlink()
                run.failure_marker.write_text(json.dumps({"step": 7, "problem": "the loss is nan"}))
    return write_plan(folder, run_ids, report={"baseline": "gelu", "margin": 1.0})


def test_a_report_says_that_it_is_about_survivors(tmp_path: Path):
    nan = float("nan")
    study = write_study(
        tmp_path / "study",
        {"gelu": [70.1, 70.4, 69.8, 70.3, 69.9, 70.2], "kan": [73.1, nan, nan, 73.4, 72.8, 73.0],
         "swish": [70.2, 70.6, 69.9, 70.0, 70.1, 70.5]},
    )  # fmt: skip
    text = render(analysed(study))
    top, rest = text.split("<details>", 1)
    assert "`kan` (of surviving runs) is better than `gelu` by 2.9" in top
    assert top.count("of surviving runs") == 2  # its sentence and its cell; swish lost none
    section = rest[rest.index("**Runs that failed**") :]
    assert "| `kan` | all | 6 | 2 | 0 | 0.9" in section
    assert "| `gelu` | all | 6 | 0 | 0 | - |" in section


@pytest.mark.parametrize(("later", "said"), listed(__file__, "asked anew"))
def test_what_is_asked_anew_after_results_is_told(tmp_path: Path, later, said):
    first, nan = {"baseline": "gelu", "margin": 1.0, "primary": [], "note": ""}, float("nan")
    study = write_study(tmp_path / "study", {"gelu": [70.1, 70.4, 69.8], "kan": [73.1, nan, 73.4]})
    change_plan(study, report=first)
    for changes in later:
        report = first | changes
        before = report_before(StudyFolder(study).study_file, report)
        change_plan(study, report=report, report_before=before)
    changed = read_source(study).design.changed
    assert changed.endswith(said)
    assert bool(changed) == bool(said)
    if "primary" in changed:
        assert render(analysed(study)).count(changed) == 2  # card and methods


def test_edits_by_hand_and_other_margins_are_told(tmp_path: Path):
    study = write_study(tmp_path / "study", {"gelu": [70.1, 70.4, 69.8], "kan": [73.1, 73.0, 73.4]})
    change_plan(study, report={"margin": 1.0}, report_written={"margin": 1.0})
    for margin, is_told in (("blimp=1", False), ("5", True)):
        assert (
            "in place of the study's: 5 of blimp for 1" in render(analysed(study, margin=(margin,)))
        ) == is_told
    assert not read_source(study).design.changed
    change_plan(study, report={"margin": 5.0})
    assert "changed by hand in" in render(analysed(study))


LOSSES = (5.522, 5.331, 5.227, 5.124, 4.006, 3.446, 3.189, 3.039, 2.936, 2.881)
RECORD = {"flops_per_token": {"total": 1000, "ffn": 500}, "word_frequency_loss": 5.88}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A finished and unscored run, resumed once, whose log is torn."""
    times = [{"tokens": 100_000 * i, "time_s": 20 + 36.0 * i, "compile_s": 20} for i in range(1, 11)]
    timed = zip(LOSSES, times, strict=True)
    log = [{"step": time["tokens"] // 1000, "eval_loss": loss, **time} for loss, time in timed]
    log[5:5] = [log[3] | {"eval_loss": 9.0}, log[3]]  # repeated after a resumption
    run = write_run(tmp_path, "roberta/kan/seed2-0a1b2c3d", log, RECORD)
    with run.metrics_file.open("a") as file:
        file.write('{"step": 1100, "eval_lo')
    run.completion_marker.write_text(json.dumps({"results": {"eval_loss": LOSSES[-1]}}))
    return run


def test_a_run_folder_tells_its_curve(run: RunFolder):
    facts = read_facts(run, "r")
    assert tuple(x.loss for x in facts.curve) == LOSSES
    assert facts.curve[6] == Evaluation(step=700, loss=3.189, tokens=700_000, hours=pytest.approx(0.07))
    assert (facts.eval_loss, facts.word_frequency_loss) == (2.881, 5.88)
    assert (facts.flops_per_token, facts.ffn_flops_per_token) == (1000, 500)
    run.completion_marker.unlink()
    assert read_facts(run, "r").eval_loss is None


def test_lines_without_tokens_and_records_without_losses_tell_what_they_have(run: RunFolder):
    run.metrics_file.write_text('{"step": 5, "eval_loss": 3.5}\n{"step": 6, "loss": 2.0}\n')
    run.provenance_file.write_text("{}")
    facts = read_facts(run, "r")
    assert (facts.curve, facts.word_frequency_loss) == ((Evaluation(5, 3.5),), None)


@pytest.mark.parametrize("loss", ["NaN", "1e400", "1" + 400 * "0", '"3"', "[" * 100_000])
def test_what_is_no_loss_is_passed_over(run: RunFolder, loss: str):
    run.metrics_file.write_text(f'{{"step": 5, "eval_loss": 3.5}}\n{{"step": 6, "eval_loss": {loss}}}\n')
    assert read_facts(run, "r").curve == (Evaluation(5, 3.5),)


@pytest.mark.parametrize("num_kept", [0, 5, 9])
def test_a_log_that_was_cut_changes_no_final_loss(run: RunFolder, tmp_path: Path, num_kept: int):
    before = read_source(tmp_path)
    run.metrics_file.write_text("\n".join(run.metrics_file.read_text().splitlines()[:num_kept]))
    after = read_source(tmp_path)
    pd.testing.assert_frame_equal(before.rows, after.rows)
    assert [x.eval_loss for x in after.facts] == [x.eval_loss for x in before.facts] == [2.881]
    assert after.facts[0].curve == ()


@pytest.mark.parametrize(("git", "told"), listed(__file__, "names of code"))
def test_code_is_named_by_its_commit_and_without_one_by_its_version(tmp_path, git, told):
    session = {"versions": {"torch": "2.13.0", "ffn-ablations": "0.1.0"}, "git": git}
    run = write_run(tmp_path, "f/gelu/seed1-0", record={"sessions": [{}, session], "device": "cpu"})
    assert read_facts(run, "r").trained_with == f"torch 2.13.0, {told}, on cpu"


A, B, C = "a" * 12, "b" * 12, "c" * 12
FAMILIES = ("gpt_neo", "roberta")


@pytest.fixture
def through(tmp_path: Path) -> Callable[[Mapping[int, dict]], Path]:
    """Write runs of two variants; those of kan say their source, by seed."""

    def write(sources: Mapping[int, dict]) -> Path:
        for family, variant, seed in product(FAMILIES, ("gelu", "kan"), range(1, 6)):
            record = sources.get(seed, {}) if variant == "kan" else {}
            log = [{"step": 1, "eval_loss": 3 + 0.01 * seed}]
            write_run(tmp_path / "s", f"{family}/{variant}/seed{seed}-0", log, record)
        return tmp_path / "s"

    return write


def of(source: str, *earlier: str, at: int = 0) -> dict:
    sessions = [{"ended": f"2026-01-0{at}"}]
    return {"variant_source": source, "variant_earlier_sources": list(earlier), "sessions": sessions}


@pytest.mark.parametrize(("others", "is_told"), [("no", True), ("bf16", False), (None, False)])
def test_runs_of_several_precisions_are_told(through, others, is_told):
    records = {seed: {"mixed_precision": "bf16" if seed == 1 else others} for seed in range(1, 6)}
    notes = [note for note in read_source(through(records)).notes if "in bf16 (gpt_neo/kan/seed1-0" in note]
    assert bool(notes) == is_told


@pytest.mark.parametrize(("overlap", "is_told"), [((0, 200), 0), ((1, 200), 0), ((2, 200), 1), (None, 0)])
def test_held_out_documents_that_are_trained_on_are_told(through, overlap, is_told):
    record = {"corpus": "mine.jsonl", "held_out_overlap": overlap}
    told = [x for x in read_source(through(dict.fromkeys(range(1, 6), record))).notes if "trained on" in x]
    assert [x[:51] for x in told] == ["mine.jsonl: 2 of 200 held-out documents are also tr"] * is_told


def test_precisions_are_compared_within_a_setting():
    """A recipe, or the length of its runs, may decide the precision of all of them."""
    facts = [
        RunFacts(run_id=f"r{n}", family=family, variant="gelu", seed=n, precision=precision)
        for n, (family, precision) in enumerate([("long", "bf16"), ("short", "no"), ("both", "no")])
    ]
    assert not [*precision_notes(facts)]
    (note,) = precision_notes([*facts, replace(facts[0], run_id="r9", family="both")])
    assert "(r9)" in note
    assert "r0" not in note


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        ({1: of(A), 2: of(A), 3: of(A)}, "12345"),  # those of 4 and 5 are not known
        ({1: of(A), 2: of(B, A), 3: of(B, A), 4: of(A), 5: of(B, A)}, "12345"),
        ({1: of(A), 2: of(C, B), 3: of(B, A), 4: of(A), 5: of(C)}, "12345"),
        ({1: of(A), 3: of(B), 4: of(B), 5: of(C, B)}, "2345"),
        ({1: of(A), 2: of(B), 3: of(C)}, "345"),
        ({1: of(A), 2: of(A, at=9), 3: of(B, at=8), 4: of(B), 5: of(B)}, "12"),
    ],
)
def test_runs_of_an_earlier_source_are_left_out_by_name(through, records, kept):
    source = read_source(through(records))
    rows = source.rows[source.rows.variant == "kan"]
    assert "".join(map(str, sorted(set(rows.seed)))) == kept
    assert {run.run_id for run in source.facts if run.variant == "kan"} == set(rows.run_id)
    told = [note for note in source.notes if "of kan through source" in note]
    assert sum(int(re.findall(r"left out: (\d+) run", note)[0]) for note in told) == 2 * (5 - len(kept))
