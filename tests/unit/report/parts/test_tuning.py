"""The report of a tuned study: both verdicts, what the choice adds, and what its tables hold."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from base.run.folder_names import StudyFolder
from report.analysis import Analysis
from report.compute import analyse
from report.inputs.chosen_rates import TUNED_BY, Line
from report.inputs.sources import read_source
from report.page import warning_notes
from report.part import Page
from report.parts.methods import methods_text
from report.parts.tuning import PART, draw_tuning, most_decisive, narrowings
from report.request import Request
from report.significance.axes import Setting
from report.significance.comparison import Comparison
from report.statistics.tuning_curves import fit_curves, squared_regret, squared_regret_of_few
from report.write import number_tables
from scores.stages import Decisions, write_decisions
from scores.tuning_grid import Value
from scores.tuning_trials import Further, Tuning, write_tuning
from tests.unit.report.tuned_study import (
    BEST,
    FAMILY,
    FIELD,
    SEEDS,
    TUNING_SEEDS,
    loss_at,
    tune,
    write_study,
)

PAGE = Page(alternative_texts={"tuning": "a figure"})
RATES = np.array([3e-4, 1e-3, 3e-3, 9e-3])
"""The grid widened once, as kan's best is at its edge."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("tuned"), tune())


@pytest.fixture(scope="module")
def found(study: Path) -> Analysis:
    return analyse(read_source(study))


def _section(found: Analysis) -> str:
    """What the part says, its line first."""
    section = PART.section(found, PART.of(found), PAGE)
    assert section is not None
    return section.markdown


def _own(found: Analysis, variant: str) -> Comparison:
    (c,) = (c for c in found.overall(TUNED_BY) if c.contrast.compared == variant)
    return c


def _arm(variant: str, rate: float) -> np.ndarray:
    return np.array([loss_at(variant, rate, seed) for seed in SEEDS])


def _mean_square_of_regret(variant: str) -> float:
    """By the tested curve, from losses and noise that are read off the pretend study itself."""
    runs = np.array([[[loss_at(v, r, s) for s in TUNING_SEEDS] for r in RATES] for v in BEST])
    chosen = runs.mean(-1).argmin(-1)
    # Two degrees of freedom of tuning runs and five of main runs, beside two of what is usual.
    own = [
        (2 * runs[i, place].var(ddof=1) + 5 * _arm(v, RATES[place]).var(ddof=1)) / 7
        for i, (v, place) in enumerate(zip(BEST, chosen, strict=True))
    ]
    usual = np.median(own) / (stats.chi2.ppf(0.5, 7) / 7)
    noise = (7 * np.array(own) + 2 * usual) / 9
    curves = fit_curves(np.log(RATES), runs, chosen, noise, np.full(len(BEST), 9.0))
    return float(squared_regret(curves)[list(BEST).index(variant)])


@pytest.mark.parametrize(("variant", "rate"), [("kan", 3e-3), ("relu2", 1e-3)])
def test_the_choice_is_in_the_standard_error_of_the_held_out_loss(
    found: Analysis, variant: str, rate: float
) -> None:
    plain = stats.ttest_ind(_arm(variant, rate), _arm("gelu", 1e-3), equal_var=False)
    own = _own(found, variant)
    assert own.estimate == pytest.approx(_arm(variant, rate).mean() - _arm("gelu", 1e-3).mean())
    added = _mean_square_of_regret(variant) + _mean_square_of_regret("gelu")
    half_width = plain.confidence_interval().high - own.estimate
    error = half_width / stats.t.isf(0.025, plain.df)
    assert own.standard_error == pytest.approx(np.sqrt(error**2 + added))
    assert own.choice_error == pytest.approx(np.sqrt(added))
    assert own.p == pytest.approx(2 * stats.t.sf(abs(own.estimate) / own.standard_error, own.df))


def test_at_the_shared_rate_runs_are_compared_as_anywhere_else(found: Analysis) -> None:
    assert [x.own.contrast.compared for x in found.at_shared_rate] == list(found.others)
    for both in found.at_shared_rate:
        arms = _arm(str(both.own.contrast.compared), 1e-3), _arm("gelu", 1e-3)
        expected = stats.ttest_ind(*arms, equal_var=False)
        assert [both.shared.p, both.shared.df] == pytest.approx([expected.pvalue, expected.df])
        assert both.own.num_runs_plus == both.shared.num_runs_plus == len(SEEDS)
        assert both.shared.choice_error is None


def test_both_differences_stand_side_by_side(found: Analysis) -> None:
    section = _section(found)
    assert "the best of `gelu` (0.001)" in section
    assert section.count("| same runs |") == 2
    beside = section[section.index("**At one value for all**") :]
    row = next(line for line in beside.splitlines() if "| `kan` |" in line)
    at_shared, at_own = _arm("kan", 1e-3), _arm("kan", 3e-3)
    for arm in (at_shared, at_own):
        assert f"{arm.mean() - _arm('gelu', 1e-3).mean():+.4f}" in row
    assert "seeds 101, 102 and 103: 12 runs" in section
    assert "![a figure](figures/tuning.svg)" in section
    assert list(PART.checks(found, found.tuned)) == []


def test_of_the_same_runs_the_choice_makes_the_interval_wider(found: Analysis) -> None:
    (both,) = (x for x in found.at_shared_rate if x.own.contrast.compared == "relu2")
    assert both.has_same_runs
    # What the choice adds makes the interval wider all the same.
    assert both.own.standard_error is not None
    assert both.shared.standard_error is not None
    assert both.own.standard_error > both.shared.standard_error


def test_runs_that_are_missing_at_the_shared_rate_are_told(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", tune())
    shared = sorted((folder / FAMILY / "kan").glob(f"seed*-0{round(1e7 * 1e-3):07x}"))
    assert len(shared) == len(SEEDS)
    for run in shared[:2]:
        shutil.rmtree(run)
    found = analyse(read_source(folder))
    assert "(2 of 6 runs missing)" in _section(found)


def test_the_shared_rate_is_called_that_of_the_variant_that_the_study_names(study: Path) -> None:
    found = analyse(read_source(study), Request(baseline="relu2"))
    assert "the best of `gelu` (0.001)" in _section(found)


def test_tables_hold_what_is_made_of_the_losses(found: Analysis) -> None:
    tables = number_tables(found)
    tuning = tables["tuning"].set_index("variant")
    assert tuning.optimum.to_dict() == pytest.approx(BEST, rel=0.1)
    assert tuning.cost_of_threefold.tolist() == pytest.approx([0.05] * 4, abs=0.012)
    assert set(tuning.num_runs) == {12}
    shared = tables["shared_rate"].set_index("contrast").estimate
    assert shared["kan - gelu"] == pytest.approx(_arm("kan", 1e-3).mean() - _arm("gelu", 1e-3).mean())


def test_without_a_tuning_nothing_of_it_is_told(study: Path, tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", tune())
    StudyFolder(folder).tuning_file.unlink()
    found = analyse(read_source(folder))
    assert found.tuned is None
    assert PART.of(found) is None
    tables = number_tables(found)
    assert not {"tuning", "shared_rate"} & set(tables)
    assert "choice_error" not in tables["comparisons"]
    plain = stats.ttest_ind(_arm("relu2", 1e-3), _arm("gelu", 1e-3), equal_var=False)
    assert _own(found, "relu2").p == pytest.approx(plain.pvalue)


def test_each_setting_has_a_tuning_of_its_own(tmp_path: Path) -> None:
    found = analyse(read_source(write_study(tmp_path / "study", tune(sizes=("0.1M", "0.5M")))))
    assert found.tuned is not None
    settings = [Setting(FAMILY, (("size", size),)) for size in ("0.1M", "0.5M")]
    assert set(found.tuned.choices) == {(family, v) for family in settings for v in BEST}
    averaged, *each = [x.own for x in found.at_shared_rate if x.own.contrast.compared == "relu2"]
    assert [c.family for c in each] == settings
    missed = {key: np.sqrt(choice.variance) for key, choice in found.tuned.choices.items()}
    sides = [np.mean([missed[family, v] for family in settings]) for v in ("relu2", "gelu")]
    assert averaged.choice_error == pytest.approx(np.hypot(*sides))
    figure, _ = draw_tuning(found, found.tuned, FIELD)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [*BEST] * 2
    for axes, (family, variant) in zip(panels, product(settings, BEST), strict=True):
        losses = next(x.losses for x in found.tuned.lines if (x.family, x.variant) == (family, variant))
        above = losses.mean(-1) - losses.mean(-1).min()
        assert any(
            np.shape(line.get_ydata()) == above.shape and np.allclose(line.get_ydata(), above)
            for line in axes.lines
        )


def test_the_noise_of_a_variant_is_drawn_to_that_of_its_own_setting(tmp_path: Path) -> None:
    found = analyse(read_source(write_study(tmp_path / "study", tune(sizes=("0.1M", "0.5M")))))
    assert found.tuned is not None
    for setting in {line.family for line in found.tuned.lines}:
        lines = [line for line in found.tuned.lines if line.family == setting]
        own = {}
        for line in lines:
            arm = found.runs[(found.runs.family == setting) & (found.runs.variant == line.variant)].score
            tuning = line.losses[line.chosen]
            squares = ((tuning - tuning.mean()) ** 2).sum() + ((arm - arm.mean()) ** 2).sum()
            own[line.variant] = squares / (len(tuning) + len(arm) - 2)
        df = len(TUNING_SEEDS) + len(SEEDS) - 2
        usual = np.median(list(own.values())) / (stats.chi2.ppf(0.5, df) / df)
        for line in lines:
            assert line.noise is not None
            assert line.noise.variance == pytest.approx((df * own[line.variant] + 2 * usual) / (df + 2))


def test_the_card_says_which_tuning_runs_would_decide_most(found: Analysis) -> None:
    assert found.tuned is not None
    (own,) = (x for x in narrowings(found.tuned, _own(found, "kan")) if x.tuned == "kan")
    assert (own.values, own.num_runs) == (tuple(RATES), 2 * 4)
    line = next(line for line in found.tuned.lines if line.variant == "kan")
    assert line.selection_with_more is not None
    assert line.selection is not None
    saved = line.selection.variance - line.selection_with_more.variance
    error = _own(found, "kan").standard_error
    assert error is not None
    assert own.share == pytest.approx(np.sqrt(1 - saved / error**2))
    assert own.share < 1
    undecided = replace(
        found, comparisons=tuple(replace(c, p=0.5, p_corrected=0.5) for c in found.comparisons)
    )
    tunings = [
        (x.tuned, x.lines[0].field) for x in most_decisive(undecided.tuned, undecided.overall(TUNED_BY))
    ]
    assert len(set(tunings)) == len(tunings) == len(BEST)
    (step,) = PART.steps(undecided, undecided.tuned)
    best, *_ = most_decisive(undecided.tuned, undecided.overall(TUNED_BY))
    assert (step.power, step.num_runs) == (best.power, best.num_runs)
    assert step.command == "--decide 1"
    shown = replace(found, comparisons=tuple(replace(c, p=0.0, p_corrected=0.0) for c in found.comparisons))
    assert list(PART.steps(shown, shown.tuned)) == []


def _with_further(seeds: tuple[int, ...], diverged: tuple[float, int] | None = None) -> Tuning:
    """The pretend study, whose kan was run at further seeds."""
    tuning = tune()
    rates = tuple(float(rate) for rate in RATES)
    losses = tuple(
        tuple(None if (rate, seed) == diverged else loss_at("kan", rate, seed) for seed in seeds)
        for rate in rates
    )
    further = Further(
        family=FAMILY, places=(), variant="kan", field=FIELD, values=rates, seeds=seeds, losses=losses
    )
    return replace(tuning, further=(further,))


def _line(folder: Path, tuning: Tuning) -> tuple[Analysis, Line]:
    found = analyse(read_source(write_study(folder, tuning)))
    assert found.tuned is not None
    return found, next(line for line in found.tuned.lines if line.variant == "kan")


def test_both_levels_of_equivalence_are_told(found: Analysis) -> None:
    assert "at 0.05 each (0.025 on the held-out loss, as variants are tuned)" in methods_text(found)


def test_further_tuning_runs_are_as_good_as_planned_ones_and_choose_nothing(
    found: Analysis, tmp_path: Path
) -> None:
    now, line = _line(tmp_path / "further", _with_further((104, 105)))
    runs = np.array([[loss_at("kan", rate, s) for s in (*TUNING_SEEDS, 104, 105)] for rate in RATES])
    assert line.losses == pytest.approx(runs)
    assert line.means == pytest.approx(runs.mean(-1))
    assert line.values[line.chosen] == 3e-3
    before = next(x for x in found.tuned.lines if x.variant == "kan")
    assert line.selection.variance < before.selection.variance
    assert line.selection.df == before.selection.df + 2
    assert now.tuned.num_runs == found.tuned.num_runs
    section = _section(now)
    assert "Runs were added that choose nothing: 8 of `kan`." in section
    assert len(draw_tuning(now, now.tuned, FIELD)[0].axes) == len(BEST)


def test_the_curve_of_all_seeds_is_that_of_a_tuning_that_planned_them(tmp_path: Path) -> None:
    """Of every variant, so that what is usual is the same."""
    planned = tune(seeds=(*TUNING_SEEDS, 104))
    tuning = tune()
    further = tuple(
        Further(
            family=FAMILY,
            places=(),
            variant=variant,
            field=FIELD,
            values=tuple(map(float, RATES)),
            seeds=(104,),
            losses=tuple((loss_at(variant, rate, 104),) for rate in RATES),
        )
        for variant in BEST
    )
    _, own = _line(tmp_path / "further", replace(tuning, further=further))
    _, wanted = _line(tmp_path / "planned", planned)
    assert own.selection == wanted.selection


@pytest.mark.parametrize("rate", [3e-3, 9e-3])
def test_a_further_seed_at_which_a_run_diverged_is_left_out(tmp_path: Path, rate: float) -> None:
    _, line = _line(tmp_path / "diverged", _with_further((104, 105), (rate, 104)))
    _, without = _line(tmp_path / "without", _with_further((105,)))
    assert line.selection == without.selection
    assert line.of_curve == without.of_curve == tuple(RATES)


def test_where_all_further_seeds_diverged_it_is_as_before(found: Analysis, tmp_path: Path) -> None:
    """Fewer values than a curve needs would leave an error that is far too small."""
    _, line = _line(tmp_path / "diverged", _with_further((104,), (1e-3, 104)))
    before = next(x for x in found.tuned.lines if x.variant == "kan")
    assert line.selection == before.selection


def test_what_two_fields_miss_adds_up(found: Analysis) -> None:
    assert found.tuned is not None
    one = found.tuned.lines[0]
    both = replace(found.tuned, lines=(one, replace(one, field="optim.weight_decay")))
    (choice,) = both.choices.values()
    missed = [line.selection.variance**0.5 for line in both.lines if line.selection]
    assert choice.variance == pytest.approx(sum(missed) ** 2)


def test_what_was_decided_does_not_hang_on_runs_that_others_get_later(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", tune())
    write_decisions(folder, Decisions(plan={"looks": [3, 6], "variants": list(BEST)}))
    found = analyse(read_source(folder))
    assert found.tuned is not None
    line = next(line for line in found.tuned.lines if line.variant == "relu2")
    own = {}
    for each in found.tuned.lines:
        first = np.array([loss_at(each.variant, float(each.values[each.chosen]), s) for s in SEEDS[:3]])
        own[each.variant] = (first.var(ddof=1) + each.losses[each.chosen].var(ddof=1)) / 2
    usual = np.median(list(own.values())) / (stats.chi2.ppf(0.5, 4) / 4)
    assert line.noise is not None
    assert line.noise.variance == pytest.approx((4 * own["relu2"] + 2 * usual) / 6)


def test_of_one_tuning_seed_the_main_runs_tell_the_spread(tmp_path: Path) -> None:
    found = analyse(read_source(write_study(tmp_path / "study", tune(seeds=(101,)))))
    assert found.tuned is not None
    (line, *_) = found.tuned.lines
    assert line.noise is not None
    arms = {v: found.runs[found.runs.variant == v].score.var(ddof=1) for v in BEST}
    own = len(SEEDS) - 1
    usual = np.median(list(arms.values())) / (stats.chi2.ppf(0.5, own) / own)
    assert line.noise.variance == pytest.approx((own * arms[line.variant] + 2 * usual) / (own + 2))
    assert line.noise.df == own + 2


def test_a_choice_at_the_boundary_of_the_grid_is_named(tmp_path: Path) -> None:
    found = analyse(read_source(write_study(tmp_path / "study", tune(widen=0))))
    assert found.tuned is not None
    (check,) = PART.checks(found, found.tuned)
    assert check == "`kan` was chosen at the boundary of the tuning grid, so a better value may lie beyond."
    assert "0.003 (boundary)" in _section(found)
    line = next(line for line in found.tuned.lines if line.is_at_edge)
    assert line.curve is not None
    turned = replace(line)
    turned.__dict__["curve"] = replace(line.curve, optimum=2.9e-3)
    assert (line.may_lie_beyond, turned.may_lie_beyond) == (True, False)


def test_a_rate_below_one_that_diverged_is_at_the_boundary_and_two_rates_have_no_curve(
    tmp_path: Path,
) -> None:
    plan = tune(widen=0, diverged=[("gelu", 3e-3)])
    found = analyse(read_source(write_study(tmp_path / "study", plan)))
    assert found.tuned is not None
    assert {line.variant for line in found.tuned.lines if line.is_at_edge} == {"gelu", "kan"}
    (note,) = (note for note in warning_notes(found) if "fewer than three values" in note)
    assert note.startswith("gelu (optim.learning_rate): ")
    line = next(line for line in found.tuned.lines if line.variant == "gelu")
    assert line.curve is None
    assert line.noise is not None
    error = np.sqrt(line.noise.variance / len(TUNING_SEEDS))
    expected = squared_regret_of_few(line.means, error, line.noise.df, line.chosen)
    assert line.selection == (pytest.approx(expected), line.noise.df)


def test_values_without_order_have_no_figure(tmp_path: Path) -> None:
    tuning = tune()
    words = {rate: f"rate {rate:g}" for rate in RATES}

    def named(point: dict[str, Value]) -> dict[str, Value]:
        return {FIELD: words[float(point[FIELD])]}

    tuning = replace(
        tuning,
        rounds=tuple(
            replace(each, tried=tuple(replace(x, point=named(x.point)) for x in each.tried))
            for each in tuning.rounds
        ),
        chosen=tuple(replace(x, point=named(x.point)) for x in tuning.chosen),
    )
    folder = write_study(tmp_path / "study", tune())
    write_tuning(folder, tuning)
    found = analyse(read_source(folder))
    assert found.tuned is not None
    line = found.tuned.lines[0]
    assert line.values == tuple(words.values())
    assert (line.rates, line.curve) == (None, None)
    assert line.selection is not None
    assert line.noise is not None
    error = np.sqrt(line.noise.variance / len(TUNING_SEEDS))
    expected = squared_regret_of_few(line.means, error, line.noise.df, line.chosen)
    assert line.selection == (pytest.approx(expected), line.noise.df)
    assert PART.figures(found, found.tuned) == {}
