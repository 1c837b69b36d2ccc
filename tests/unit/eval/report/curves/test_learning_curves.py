"""Learning curves and the first plateau in a report, against scipy on the same curves and by known ratios."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from eval.report.analyse import analyse
from eval.report.curves.learning_curves import LearningCurves, analyse_curves
from eval.report.curves.plateaus import LEAST_FALL, LEAST_SPREAD, Plateau, find_plateau
from eval.report.exports import as_json, number_tables
from eval.report.inputs.run_facts import Evaluation, RunFacts, read_facts
from eval.report.inputs.sources import read_source
from eval.report.sections.learning_curves import family_sentence, plateau_sentence
from pretrain.run.folders import RunFolder
from tests.unit.eval.report.rendering import render

SHARES = np.linspace(0.1, 1.0, 10)
TOKENS = 1_000_000
SEEDS = (1, 2, 3, 4, 5)
OFF = dict(zip(SEEDS, (-0.02, -0.01, 0.0, 0.01, 0.02), strict=True))

# Held-out losses of a small GPT-Neo and a small RoBERTa on TinyStories, every 513 steps.
SEEN = {
    ("gpt_neo", "gelu"): [
        [3.948, 3.557, 3.318, 3.148, 3.018, 2.931, 2.855, 2.791, 2.734, 2.711],
        [3.945, 3.551, 3.338, 3.164, 3.015, 2.916, 2.831, 2.773, 2.726, 2.695],
        [3.933, 3.543, 3.313, 3.139, 3.021, 2.914, 2.845, 2.768, 2.727, 2.698],
    ],
    ("gpt_neo", "kan"): [
        [4.083, 3.703, 3.428, 3.245, 3.106, 2.997, 2.920, 2.854, 2.796, 2.773],
        [4.038, 3.625, 3.367, 3.181, 3.045, 2.940, 2.864, 2.801, 2.754, 2.725],
        [4.073, 3.661, 3.400, 3.222, 3.098, 2.981, 2.895, 2.825, 2.781, 2.751],
    ],
    ("roberta", "gelu"): [
        [5.497, 5.361, 5.272, 5.174, 4.530, 3.860, 3.472, 3.274, 3.143, 3.073],
        [5.507, 5.361, 5.269, 5.186, 5.002, 4.273, 3.644, 3.397, 3.241, 3.169],
        [5.524, 5.373, 5.288, 5.187, 5.072, 4.441, 3.924, 3.538, 3.365, 3.296],
    ],
    ("roberta", "kan"): [
        [5.530, 5.336, 5.231, 5.135, 4.554, 3.652, 3.310, 3.119, 2.996, 2.937],
        [5.522, 5.331, 5.227, 5.124, 4.006, 3.446, 3.189, 3.039, 2.936, 2.881],
        [5.543, 5.340, 5.241, 5.151, 4.728, 3.678, 3.339, 3.154, 3.032, 2.969],
    ],
}
OF_FREQUENCIES = 5.88


def curve(share):
    return 1.8 + 0.9 * np.asarray(share) ** -0.25


def run_facts(family: str, variant: str, seed: int, losses, **fields) -> RunFacts:
    """Facts of a finished run that was evaluated at ``SHARES`` and took an hour."""
    scale, hours = fields.pop("tokens", TOKENS), fields.pop("hours", 1.0)
    evaluations = tuple(
        Evaluation(step, float(loss), round(scale * share), hours * share)
        for step, (share, loss) in enumerate(zip(SHARES, losses, strict=True), start=1)
    )
    fields = {"eval_loss": float(losses[-1]), "flops_per_token": 1000, "curve": evaluations, **fields}
    return RunFacts(run_id=f"{family}/{variant}/{seed}", family=family, variant=variant, seed=seed, **fields)


def curves_of(*runs: RunFacts, variants=("gelu", "kan")) -> LearningCurves:
    families = list(dict.fromkeys(run.family for run in runs))
    return analyse_curves(runs, families, variants, 0.95)


def example() -> LearningCurves:
    return curves_of(
        *(
            run_facts(family, variant, seed, losses, word_frequency_loss=OF_FREQUENCIES)
            for (family, variant), runs in SEEN.items()
            for seed, losses in enumerate(runs, start=1)
        )
    )


@pytest.fixture(scope="module")
def fast() -> LearningCurves:
    """A variant that needs 0.8 of the tokens."""
    baseline = [run_facts("gpt_neo", "gelu", s, curve(SHARES) + OFF[s]) for s in SEEDS]
    variant = [run_facts("gpt_neo", "kan", s, curve(SHARES / 0.8) + OFF[s] / 2) for s in SEEDS]
    return curves_of(*baseline, *variant)


def test_mean_curves_and_differences_are_those_of_the_evaluations(fast):
    points = [x for x in fast.points if x.variant == "kan"]
    assert [x.tokens for x in points] == pytest.approx(TOKENS * SHARES)
    for x, share in zip(points, SHARES, strict=True):
        losses = [curve(share / 0.8) + OFF[s] / 2 for s in SEEDS]
        interval = stats.ttest_1samp(losses, 0).confidence_interval()
        assert [x.loss, x.low, x.high] == pytest.approx([np.mean(losses), interval.low, interval.high])
        test = stats.ttest_ind(losses, [curve(share) + OFF[s] for s in SEEDS], equal_var=False)
        interval = test.confidence_interval()
        assert [x.difference_low, x.difference_high] == pytest.approx([interval.low, interval.high])
    assert all(x.difference is None for x in fast.points if x.variant == "gelu")


def test_a_long_curve_is_shortened_and_keeps_its_ends():
    many = tuple(Evaluation(step, 3.0 - step / 1000, 10 * step, None) for step in range(1, 501))
    runs = [run_facts("gpt_neo", v, s, curve(SHARES), curve=many) for v in ("gelu", "kan") for s in (1, 2)]
    tokens = [x.tokens for x in curves_of(*runs).points if x.variant == "kan"]
    assert len(tokens) == 40
    assert (tokens[0], tokens[-1]) == (10, 5000)


def test_runs_that_did_not_finish_or_do_not_tell_are_left_out():
    whole = [run_facts("gpt_neo", v, s, curve(SHARES) + OFF[s]) for v in ("gelu", "kan") for s in (1, 2)]
    unfinished = run_facts("gpt_neo", "kan", 3, curve(SHARES) - 1, eval_loss=None)
    assert curves_of(*whole, unfinished) == curves_of(*whole)
    untold = [Evaluation(x.step, x.loss) for x in whole[0].curve]
    old = [run_facts("gpt_neo", v, 1, curve(SHARES), curve=tuple(untold)) for v in ("gelu", "kan")]
    assert curves_of(*old) == LearningCurves()


def test_a_run_whose_counts_do_not_grow_tells_nothing():
    whole = [roberta_run(v, s, falling(0.5)) for v in ("gelu", "kan") for s in (1, 2)]
    torn = tuple(x._replace(tokens=5000, hours=-1.0) for x in whole[0].curve)
    broken = run_facts("roberta", "kan", 3, falling(0.5), curve=torn, word_frequency_loss=OF_FREQUENCIES)
    assert curves_of(*whole, broken) == curves_of(*whole)


def test_the_example_tells_speed_from_level():
    curves = example()
    plateaus = {plateau.family: plateau for plateau in curves.plateaus}
    threshold = (OF_FREQUENCIES + 2.881) / 2
    left, final = [], []
    for variant in ("gelu", "kan"):
        for losses in SEEN["roberta", variant]:
            loss = PchipInterpolator(np.log(SHARES), losses)
            left.append(brentq(lambda x, loss=loss: loss(x) - threshold, *np.log([0.1, 1.0])))
            final.append(losses[-1])
    roberta = plateaus["roberta"]
    found = [x.tokens for x in roberta.departures]
    assert found == pytest.approx(TOKENS * np.exp(left), rel=1e-3)
    assert roberta.explained == pytest.approx(stats.linregress(left, final).rvalue ** 2, abs=1e-3)
    assert roberta.threshold == pytest.approx(threshold)
    test = stats.ttest_ind(left[3:], left[:3], equal_var=False)
    interval = np.exp(test.confidence_interval())
    (lead,) = roberta.leads
    assert [lead.ratio, lead.low, lead.high] == pytest.approx(
        [np.exp(np.mean(left[3:]) - np.mean(left[:3])), *interval], rel=1e-3
    )
    assert lead.p == lead.p_corrected == pytest.approx(test.pvalue, rel=1e-2)

    assert roberta.is_about_speed
    first, last = (f"{1000 * np.exp(x):.0f}k" for x in (min(left), max(left)))
    assert plateau_sentence(roberta, "gelu") == (
        f"RoBERTa: all 6 runs left the plateau of word frequencies (5.88 nats) after {first} to {last} of "
        f"1.00M tokens, which explains {roberta.explained:.0%} of the variance of their final losses, so "
        "these say who leaves first, not where a variant ends; none is shown to leave sooner or later "
        "than `gelu`."
    )
    assert not plateaus["gpt_neo"].is_about_speed
    assert plateau_sentence(plateaus["gpt_neo"], "gelu") == (
        "GPT-Neo: all 6 runs left the plateau of word frequencies (5.88 nats) by their first evaluation "
        "(100k of 1.00M tokens), so its losses compare levels."
    )
    assert plateaus["gpt_neo"].explained is None
    assert plateaus["gpt_neo"].leads == ()


def plateau_of(*runs: RunFacts) -> Plateau:
    found = find_plateau("roberta", runs, ("gelu", "kan"), 0.95)
    assert found is not None
    return found


def falling(at: float, end: float = 2.9, sharpness: float = 25.0):
    """A plateau at 5.3 nats that a run leaves at a share of its training."""
    return end + (5.3 - end) / (1 + np.exp(sharpness * (SHARES - at)))


def roberta_run(variant: str, seed: int, losses, **fields) -> RunFacts:
    return run_facts("roberta", variant, seed, losses, word_frequency_loss=OF_FREQUENCIES, **fields)


def test_a_variant_shown_to_leave_sooner_is_named():
    runs = [roberta_run("gelu", s, falling(0.6 + OFF[s], 3.2 + OFF[s])) for s in SEEDS]
    runs += [roberta_run("kan", s, falling(0.4 + OFF[s])) for s in SEEDS]
    said = plateau_sentence(plateau_of(*runs), "gelu")
    assert (
        "so these say who leaves first, not where a variant ends; shown to leave sooner: `kan` (0.6" in said
    )


def test_a_baseline_that_left_before_anybody_looked_is_compared_with_none():
    runs = [roberta_run("gelu", s, falling(0.02 + OFF[s] / 10, 2.9)) for s in SEEDS]
    runs += [roberta_run("kan", s, falling(0.6 + OFF[s], 3.2 + OFF[s])) for s in SEEDS]
    assert plateau_sentence(plateau_of(*runs), "gelu").endswith(
        "`gelu` had left by its first evaluation, so none is compared with it."
    )


def test_runs_that_stay_on_the_plateau_are_counted():
    runs = [roberta_run("gelu", 1, falling(2.0)), roberta_run("gelu", 2, falling(0.5))]
    runs += [roberta_run("kan", s, falling(0.5)) for s in (1, 2)]
    found = plateau_of(*runs)
    assert (len(found.left), found.is_about_speed, found.leads) == (3, True, ())
    assert plateau_sentence(found, "gelu") == (
        "RoBERTa: 1 of 4 runs (`gelu` 1) did not leave the plateau of word frequencies (5.88 nats) within "
        "1.00M tokens, so its losses say who leaves first, not where a variant ends."
    )
    assert found.explained == pytest.approx(1.0, abs=1e-6)

    stuck = OF_FREQUENCIES * (1 - LEAST_FALL) + 0.01
    found = plateau_of(
        *(roberta_run(v, s, np.linspace(5.5, stuck, 10)) for v in ("gelu", "kan") for s in (1, 2))
    )
    assert (found.threshold, found.left, found.explained) == (None, [], None)
    assert plateau_sentence(found, "gelu") == (
        "RoBERTa: none of 4 runs left the plateau of word frequencies (5.88 nats) within 1.00M tokens, so "
        "its losses tell little."
    )


def test_levels_are_called_levels():
    together = [
        roberta_run(v, s, falling(0.5 + OFF[s] / 2, 2.9 + OFF[s])) for v in ("gelu", "kan") for s in SEEDS
    ]
    assert plateau_sentence(plateau_of(*together), "gelu").endswith(
        "of 1.00M tokens, at about the same time, so its losses compare levels."
    )
    ends = {"gelu": 2.9, "kan": 3.1}
    spread = [roberta_run(v, s, falling(0.5 + 5 * OFF[s], ends[v])) for v in ends for s in SEEDS]
    found = plateau_of(*spread)
    assert found.explained < 0.1
    assert plateau_sentence(found, "gelu").endswith(
        "of the variance of their final losses, so its losses compare levels more than who left first."
    )


def test_a_variant_that_leaves_later_and_ends_lower_is_a_matter_of_levels():
    places = {"gelu": (0.4, 3.2), "kan": (0.6, 2.9)}
    runs = [
        roberta_run(v, s, falling(at + OFF[s], end + OFF[s]))
        for v, (at, end) in places.items()
        for s in SEEDS
    ]
    found = plateau_of(*runs)
    tokens = [np.log(x.tokens) for x in found.departures]
    assert stats.linregress(tokens, [run.eval_loss for run in runs]).rvalue < -0.9
    assert (found.explained, found.is_about_speed) == (0.0, False)
    assert plateau_sentence(found, "gelu").endswith("levels more than who left first.")


def test_a_family_that_left_early_compares_levels():
    def causal(variant: str, seed: int, needs: float) -> RunFacts:
        shares = np.linspace(0.02, 1.0, 50)
        losses = 2.0 + 0.7 * (shares / needs) ** -0.5 + OFF[seed]
        pairs = zip(shares, losses, strict=True)
        evaluations = tuple(Evaluation(i, float(y), round(TOKENS * x)) for i, (x, y) in enumerate(pairs))
        return roberta_run(variant, seed, losses[:10], eval_loss=float(losses[-1]), curve=evaluations)

    runs = [causal(v, s, needs) for v, needs in (("gelu", 1.0), ("kan", 1.6)) for s in SEEDS]
    found = plateau_of(*runs)
    assert found.spread > LEAST_SPREAD
    assert found.explained > 0.9
    assert found.leads[0].p_corrected < 0.001
    assert not found.is_about_speed
    assert plateau_sentence(found, "gelu").endswith(
        " of 1.00M tokens, early in their training, so its losses compare levels."
    )


def test_nothing_is_said_where_the_frequencies_are_unknown():
    runs = [run_facts("roberta", v, s, falling(0.5)) for v in ("gelu", "kan") for s in (1, 2)]
    assert find_plateau("roberta", runs, ("gelu", "kan"), 0.95) is None
    assert curves_of(*runs).plateaus == ()


def write_run(study: Path, variant: str, seed: int, losses) -> Path:
    """A finished and unscored run as the pretraining leaves it."""
    run = RunFolder(study / "roberta" / variant / f"seed{seed}-0a1b2c3d")
    run.path.mkdir(parents=True)
    run.config_file.write_text(yaml.safe_dump({"family": "roberta", "model": {"ffn": variant}, "seed": seed}))
    record = {"flops_per_token": {"total": 1000, "ffn": 500}, "word_frequency_loss": OF_FREQUENCIES}
    run.provenance_file.write_text(json.dumps(record))
    lines = [
        {
            "step": 100 * i,
            "eval_loss": float(loss),
            "tokens": 100_000 * i,
            "time_s": 20 + 36.0 * i,
            "compile_s": 20,
        }
        for i, loss in enumerate(losses, start=1)
    ]
    lines.insert(5, lines[3] | {"eval_loss": 9.0})  # repeated after a resumption
    lines.insert(6, lines[3])
    run.metrics_file.write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 1100, "eval_lo')
    run.completion_marker.write_text("{}")
    return run.path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for variant in ("gelu", "kan"):
        for seed, losses in enumerate(SEEN["roberta", variant], start=1):
            write_run(tmp_path / "s", variant, seed, losses)
    return tmp_path / "s"


def test_a_run_folder_tells_its_curve(study: Path):
    run = RunFolder(study / "roberta" / "kan" / "seed2-0a1b2c3d")
    facts = read_facts(run, "r")
    losses = SEEN["roberta", "kan"][1]
    assert [x.loss for x in facts.curve] == losses
    assert facts.curve[6] == Evaluation(step=700, loss=3.189, tokens=700_000, hours=pytest.approx(0.07))
    assert (facts.eval_loss, facts.word_frequency_loss) == (2.881, OF_FREQUENCIES)
    run.completion_marker.unlink()
    assert read_facts(run, "r").eval_loss is None
    run.metrics_file.write_text('{"step": 5, "eval_loss": 3.5}\n{"step": 6, "loss": 2.0}\n')
    run.provenance_file.write_text("{}")
    facts = read_facts(run, "r")
    assert (facts.curve, facts.word_frequency_loss) == ((Evaluation(5, 3.5),), None)


RESULTS = {"step": 1000, "max_steps": 1000, "eval_loss": 2.881}


@pytest.mark.parametrize("kept", [0, 5, 9])
def test_a_log_that_was_cut_changes_no_final_loss(study: Path, kept: int):
    run = RunFolder(study / "roberta" / "kan" / "seed2-0a1b2c3d")
    run.completion_marker.write_text(json.dumps(RESULTS))
    before = read_source(study)
    assert not [note for note in before.notes if "metrics.jsonl" in note]
    lines = [line for line in run.metrics_file.read_text().splitlines() if '"eval_loss"' in line]
    run.metrics_file.write_text("\n".join(lines[:kept]))
    after = read_source(study)
    pd.testing.assert_frame_equal(before.rows, after.rows)
    assert {x.run_id for x in after.facts if not x.curve} == {"roberta/kan/seed2-0a1b2c3d"}
    said = "learning curve left out, metrics.jsonl does not end as the training did: "
    assert f"{said}roberta/kan/seed2-0a1b2c3d" in after.notes


def test_the_loss_of_an_earlier_step_is_no_final_one(study: Path):
    run = RunFolder(study / "roberta" / "kan" / "seed2-0a1b2c3d")
    run.metrics_file.write_text('{"step": 500, "max_steps": 1000, "eval_loss": 3.5}\n')
    facts = read_facts(run, "r")
    assert (facts.eval_loss, facts.curve, facts.is_curve_cut) == (None, (), True)


@pytest.mark.parametrize("loss", ["-1.0", "0", "NaN", "1e400", "1" + 400 * "0", '"3"', "true", "[" * 100_000])
def test_what_is_no_loss_is_passed_over(study: Path, loss: str):
    run = RunFolder(study / "roberta" / "kan" / "seed2-0a1b2c3d")
    run.metrics_file.write_text(f'{{"step": 5, "eval_loss": 3.5}}\n{{"step": 6, "eval_loss": {loss}}}\n')
    assert read_facts(run, "r").curve == (Evaluation(5, 3.5),)


def test_a_report_shows_and_exports_them(study: Path):
    analysis = analyse(read_source(study))
    tables = number_tables(analysis)
    context = Context(command="", versions={}, figures={"learning-curves": "curves"})
    text, report = render(analysis, context), json.loads(as_json(analysis, context, tables, "s"))

    sentence = family_sentence(analysis, "roberta")
    assert sentence is not None
    assert f"- {sentence}\n" in text
    assert family_sentence(analysis, "gpt_neo") is None
    assert report["plateaus"][0]["sentence"] == sentence
    assert report["plateaus"][0]["num_left"] == len(report["plateau_runs"]) == 6
    assert report["plateau_leads"][0]["variant"] == "kan"

    assert len(report["learning_curves"]) == 2 * 10
    assert report["curves"]["roberta/kan/seed2-0a1b2c3d"][6] == {
        "step": 700, "loss": 3.189, "tokens": 700_000, "hours": pytest.approx(0.07)
    }  # fmt: skip
    assert "![curves](figures/learning-curves.svg)" in text
