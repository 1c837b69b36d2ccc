"""Rules of public leaderboards: the p that their pages print, and what Welch says of the same runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.errors import UsageError
from base.shipped import shipped
from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.inputs.sources import source_of_frame
from eval.report.sections.answer import answer
from eval.report.sections.rules import rules_section
from eval.report.verdicts.rules import read_rule
from eval.significance.statistics.one_sided import one_sample, passes_again, two_sample

# Validation losses and the p printed beside them, from READMEs in records/ of KellerJordan/modded-nanogpt
# (MIT): Polar Express; corrected learning rates; batch size schedule; every-other-step Adam; 97 seconds.
PRINTED = {
    "polar-express": ((3.2789, 3.2792, 3.2796, 3.2776, 3.2797, 3.2787, 3.2792), 0.0045),
    "faster-muon": ((3.2766, 3.2794, 3.2770, 3.2776, 3.2760, 3.2802, 3.2757), 0.0041),
    "batch-schedule": ((3.2772, 3.2781, 3.2780, 3.2784, 3.2773, 3.2806, 3.2799, 3.2765), 0.0045),
    "adam-every-other": ((3.2745, 3.2747, 3.2771, 3.2794, 3.2767), 0.0086),
    "sparse-comms": ((3.2756, 3.2786, 3.2773, 3.2791, 3.2778, 3.277), 0.0025),
}


def judged(losses: dict[str, tuple[float, ...]], rule: str, baseline: str, outcome="eval_loss") -> Analysis:
    rows = [
        (variant, seed, outcome, loss) for variant, runs in losses.items() for seed, loss in enumerate(runs)
    ]
    frame = pd.DataFrame(rows, columns=["variant", "seed", "benchmark", "score"])
    return analyse(source_of_frame(frame), Request(baseline=baseline, rules=Path(rule)))


def test_the_p_that_records_print():
    losses = {name: runs for name, (runs, _) in PRINTED.items()}
    found = judged(losses, "nanogpt-speedrun", "polar-express")
    assert found.by_rule is not None
    for x in found.by_rule.judged:
        runs, printed = PRINTED[str(x.variant)]
        assert round(x.test.p, 4) == printed
        assert x.passes
        assert x.test.p == pytest.approx(stats.ttest_1samp(runs, 3.28, alternative="less").pvalue, rel=1e-9)
    text = rules_section(found)
    assert "5 of 5 pass" in text
    # What the rule lets pass are no differences between records, at the spread that their runs have.
    for c in found.comparisons:
        welch = stats.ttest_ind(losses[str(c.contrast.compared)], losses["polar-express"], equal_var=False)
        assert c.p == pytest.approx(welch.pvalue, rel=1e-9)
        assert not c.is_different
    assert "is shown to differ from `polar-express`" in " ".join(answer(found))


def test_a_win_by_a_margin_is_welchs_test_of_a_shifted_difference():
    generator = np.random.default_rng(0)
    losses = {name: tuple(level + 0.001 * generator.normal(size=4)) for name, level in
              (("old", 1.08), ("new", 1.07), ("hardly", 1.0755))}  # fmt: skip
    found = judged(losses, "parameter-golf", "old")
    assert found.by_rule is not None
    by_name = {str(x.variant): x for x in found.by_rule.judged}
    assert set(by_name) == {"new", "hardly"}
    for name, x in by_name.items():
        shifted = np.array(losses[name]) + 0.005
        expected = stats.ttest_ind(shifted, losses["old"], equal_var=False, alternative="less").pvalue
        assert x.test.p == pytest.approx(expected, rel=1e-9)
    assert by_name["new"].passes
    assert not by_name["hardly"].passes


def test_too_few_runs_do_not_pass():
    losses = {"old": (1.08, 1.081, 1.0805), "new": (1.05, 1.0501)}
    found = judged(losses, "parameter-golf", "old")
    assert found.by_rule is not None
    (x,) = found.by_rule.judged
    assert x.test.p < 0.01
    assert not x.passes
    assert found.by_rule.false_passes == 0


def test_how_often_it_passes_again_is_what_simulation_says():
    generator = np.random.default_rng(1)
    seen = np.array([0.8, 1.9, 0.2, 1.4, 0.9])
    found = one_sample(seen, 0.0)
    drawn = generator.normal(seen.mean(), seen.std(ddof=1), size=(20_000, 5))
    again = (stats.ttest_1samp(drawn, 0.0, axis=1, alternative="greater").pvalue < 0.05).mean()
    assert passes_again(found, 0.05) == pytest.approx(again, abs=0.015)


def test_one_run_is_no_test():
    assert np.isnan(one_sample(np.array([1.0]), 0.0).p)
    assert np.isnan(two_sample(np.array([1.0]), np.array([0.0, 1.0]), 0.0).p)
    assert np.isnan(one_sample(np.array([1.0, 1.0]), 0.0).p)


@pytest.mark.parametrize("score", [0.1, 1.08, 3.27, 58.1])
@pytest.mark.parametrize("num_runs", [2, 3, 6, 10])
def test_runs_that_are_alike_to_the_last_digit_are_no_test(score: float, num_runs: int):
    runs = np.full(num_runs, score)
    assert np.isnan(one_sample(runs, score - 1).p)
    assert np.isnan(two_sample(runs, np.full(num_runs + 1, score - 1), 0.0).p)


@pytest.mark.parametrize("name", shipped("rule"))
def test_shipped_rules_say_where_they_are_from(name: str):
    assert read_rule(Path(name)).source.startswith("https://")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\n", "either threshold .* or by"),
        ("name: x\nthreshold: 1\nby: 1\n", "either threshold .* or by"),
        ("name: x\nthreshold: .nan\n", "finite"),
        ("name: x\nby: -1\n", "at least 0"),
        ("name: x\nby: 1\nlevel: 2\n", "less than 1"),
        ("name: x\nby: 1\nbetter: down\n", "Available: higher, lower"),
        ("name: x\nby: 1\nunit: bits\n", "nats"),
        ("name: x\nby: 1\nmin_runs: 1\n", "at least 2"),
        ("name: x\nby: 1\ntreshold: 1\n", "did you mean threshold"),
        ("name: x\nby: 1\noutcome: blimp\n", "is about blimp, which is no outcome here"),
        ("name: x\nby: 1\nunit: percent\n", "is about one outcome .*none of these is"),
        (
            "name: x\nby: 1\nbetter: lower\noutcome: eval_loss\nunit: percent\n",
            "is in percent, and eval_loss",
        ),
    ],
)
def test_rules_that_do_not_fit(tmp_path: Path, text: str, message: str):
    (tmp_path / "rule.yaml").write_text(text)
    losses = {name: runs for name, (runs, _) in PRINTED.items()}
    with pytest.raises(UsageError, match=message) as told:
        judged(losses, str(tmp_path / "rule.yaml"), "polar-express")
    assert "\n" not in str(told.value)
