"""The report of a tuned study: both verdicts, what the choice adds, and what its tables hold."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from base.run.folder_names import StudyFolder
from report.analysis import Analysis
from report.inputs.chosen_rates import TUNED_BY, Line, Tuned
from report.page import warning_notes
from report.part import Page
from report.parts.tuning import PART, draw_tuning
from report.significance.axes import Setting
from report.significance.comparison import Comparison
from report.statistics.tuning_curves import fit_curves, squared_regret, squared_regret_of_few
from report.write import number_tables
from scores.tuning_trials import Tuning
from tests.cases import listed
from tests.unit.report import tuned_study
from tests.unit.report.studies import analysed

PAGE = Page(alternative_texts={"tuning": "a figure"})
RATES = (3e-4, 1e-3, 3e-3, 9e-3)
CHOSEN = {"gelu": 1e-3, "kan": 3e-3, "swiglu": 1e-3, "relu2": 3e-3}
"""The grid widened once, as kan's best is at its edge."""
SETTINGS = tuple(Setting(tuned_study.FAMILY, (("size", size),)) for size in ("0.1M", "0.5M"))


def of_tuning(folder: Path, tuning: Tuning | None = None) -> tuple[Analysis, Tuned]:
    """A report of the pretend study, and what it says of the tuning."""
    found = analysed(tuned_study.write_study(folder, tuning or tuned_study.tune()))
    assert found.tuned
    return found, found.tuned


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned_study.write_study(tmp_path_factory.mktemp("tuned"), tuned_study.tune())


@pytest.fixture(scope="module")
def found(study: Path) -> Analysis:
    return analysed(study)


@pytest.fixture(scope="module")
def at_two_sizes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Analysis, Tuned]:
    return of_tuning(tmp_path_factory.mktemp("sizes") / "study", tuned_study.tune(sizes=("0.1M", "0.5M")))


def section_of(found: Analysis) -> str:
    """What the part says, its line first."""
    section = PART.section(found, PART.of(found), PAGE)
    return section.markdown


def at_own_rate(found: Analysis, variant: str) -> Comparison:
    (c,) = (c for c in found.overall(TUNED_BY) if c.contrast.compared == variant)
    return c


def line_of(tuned: Tuned | None, variant: str) -> Line:
    return next(line for line in tuned.lines if line.variant == variant)


def arm(variant: str, rate: float) -> np.ndarray:
    return np.array([tuned_study.loss_at(variant, rate, seed) for seed in tuned_study.SEEDS])


def losses_of_tuning(variant: str, seeds: tuple[int, ...] = tuned_study.TUNING_SEEDS) -> np.ndarray:
    """Rates by seeds."""
    return np.array([[tuned_study.loss_at(variant, rate, seed) for seed in seeds] for rate in RATES])


def drawn_to_usual(own: Mapping[str, float], df: float) -> dict[str, float]:
    """Variances of that many degrees of freedom, beside two of what is usual, by variant."""
    usual = float(np.median(list(own.values())) / (stats.chi2.ppf(0.5, df) / df))
    return {variant: (df * variance + 2 * usual) / (df + 2) for variant, variance in own.items()}


def mean_square_of_regret(variant: str) -> float:
    """By the tested curve, from losses and noise that are read off the pretend study itself."""
    runs = np.array([losses_of_tuning(v) for v in tuned_study.BEST])
    chosen = [RATES.index(CHOSEN[v]) for v in tuned_study.BEST]
    # Two degrees of freedom of tuning runs and five of main runs.
    own = {}
    for v, losses, place in zip(tuned_study.BEST, runs, chosen, strict=True):
        own[v] = (2 * losses[place].var(ddof=1) + 5 * arm(v, RATES[place]).var(ddof=1)) / 7
    noise = np.array(list(drawn_to_usual(own, 7).values()))
    curves = fit_curves(np.log(RATES), runs, chosen, noise, np.full(len(tuned_study.BEST), 9.0))
    return float(squared_regret(curves)[list(tuned_study.BEST).index(variant)])


@pytest.mark.parametrize(("variant", "rate"), [("kan", 3e-3), ("relu2", 3e-3)])
def test_the_choice_is_in_the_standard_error_of_the_held_out_loss(found, variant, rate):
    plain = stats.ttest_ind(arm(variant, rate), arm("gelu", 1e-3), equal_var=False)
    own = at_own_rate(found, variant)
    assert own.estimate == pytest.approx(arm(variant, rate).mean() - arm("gelu", 1e-3).mean())
    added = mean_square_of_regret(variant) + mean_square_of_regret("gelu")
    half_width = plain.confidence_interval().high - own.estimate
    error = half_width / stats.t.isf(0.025, plain.df)
    assert own.standard_error == pytest.approx(np.sqrt(error**2 + added))
    assert own.choice_error == pytest.approx(np.sqrt(added))
    assert own.p == pytest.approx(2 * stats.t.sf(abs(own.estimate) / own.standard_error, own.df))


def test_at_the_shared_rate_runs_are_compared_as_anywhere_else(found: Analysis) -> None:
    assert [x.own.contrast.compared for x in found.at_shared_rate] == list(found.others)
    for both in found.at_shared_rate:
        arms = arm(str(both.own.contrast.compared), 1e-3), arm("gelu", 1e-3)
        expected = stats.ttest_ind(*arms, equal_var=False)
        assert [both.shared.p, both.shared.df] == pytest.approx([expected.pvalue, expected.df])
        assert both.own.num_runs_plus == both.shared.num_runs_plus == len(tuned_study.SEEDS)
        assert both.shared.choice_error is None


def test_both_differences_stand_side_by_side(found: Analysis) -> None:
    section = section_of(found)
    assert "the best of `gelu` (0.001)" in section
    beside = section[section.index("**At one value for all**") :]
    row = next(line for line in beside.splitlines() if "| `kan` |" in line)
    for rate in (1e-3, 3e-3):
        assert f"{arm('kan', rate).mean() - arm('gelu', 1e-3).mean():+.4f}" in row
    assert "seeds 101, 102 and 103: 12 runs" in section
    assert "(for `relu2` not that of the lowest mean)" in section
    assert "![a figure](figures/tuning.svg)" in section
    assert list(PART.checks(found, found.tuned)) == []


def test_runs_that_are_missing_at_the_shared_rate_are_told(tmp_path: Path) -> None:
    folder = tuned_study.write_study(tmp_path / "study", tuned_study.tune())
    for run in sorted((folder / tuned_study.FAMILY / "kan").glob(f"seed*-0{round(1e7 * 1e-3):07x}"))[:2]:
        shutil.rmtree(run)
    assert "(2 of 6 runs missing)" in section_of(analysed(folder))


def test_the_shared_rate_is_called_that_of_the_variant_that_the_study_names(study: Path) -> None:
    found = analysed(study, baseline="relu2")
    assert "the best of `gelu` (0.001)" in section_of(found)


def test_tables_hold_what_is_made_of_the_losses(found: Analysis) -> None:
    tables = number_tables(found)
    tuning = tables["tuning"].set_index("variant")
    assert tuning.optimum.to_dict() == pytest.approx(tuned_study.BEST, rel=0.1)
    assert tuning.cost_of_threefold.tolist() == pytest.approx([0.05] * 4, abs=0.012)
    assert set(tuning.num_runs) == {12}
    shared = tables["shared_rate"].set_index("contrast").estimate
    assert shared["kan - gelu"] == pytest.approx(arm("kan", 1e-3).mean() - arm("gelu", 1e-3).mean())


def test_without_a_tuning_nothing_of_it_is_told(tmp_path: Path) -> None:
    folder = tuned_study.write_study(tmp_path / "study", tuned_study.tune())
    StudyFolder(folder).tuning_file.unlink()
    found = analysed(folder)
    assert found.tuned is None
    assert PART.of(found) is None
    tables = number_tables(found)
    assert not {"tuning", "shared_rate"} & set(tables)
    assert "choice_error" not in tables["comparisons"]
    plain = stats.ttest_ind(arm("relu2", CHOSEN["relu2"]), arm("gelu", 1e-3), equal_var=False)
    assert at_own_rate(found, "relu2").p == pytest.approx(plain.pvalue)


def test_each_setting_has_a_tuning_of_its_own(at_two_sizes: tuple[Analysis, Tuned]) -> None:
    found, tuned = at_two_sizes
    assert set(tuned.choices) == set(product(SETTINGS, tuned_study.BEST))
    averaged, *each = [x.own for x in found.at_shared_rate if x.own.contrast.compared == "relu2"]
    assert [c.family for c in each] == list(SETTINGS)
    missed = {key: np.sqrt(choice.variance) for key, choice in tuned.choices.items()}
    sides = [np.mean([missed[family, v] for family in SETTINGS]) for v in ("relu2", "gelu")]
    assert averaged.choice_error == pytest.approx(np.hypot(*sides))


def test_the_figure_has_a_panel_for_each_setting_and_variant(at_two_sizes: tuple[Analysis, Tuned]) -> None:
    found, tuned = at_two_sizes
    panels = [axes for axes in draw_tuning(found, tuned, tuned_study.FIELD)[0].axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [*found.variants] * 2
    losses = {(line.family, line.variant): line.losses for line in tuned.lines}
    for axes, key in zip(panels, product(SETTINGS, found.variants), strict=True):
        means = losses[key].mean(-1)
        drawn = [np.asarray(line.get_ydata()) for line in axes.lines]
        assert any(y.shape == means.shape and np.allclose(y, means - means.min()) for y in drawn)


@pytest.mark.parametrize(("options", "num_main"), listed(__file__, "noises of settings"))
def test_the_noise_of_a_variant_is_drawn_to_that_of_its_own_setting(tmp_path, options, num_main):
    folder = tuned_study.write_study(tmp_path / "study", tuned_study.tune(**options))
    tuned = analysed(folder).tuned
    own, df = {}, num_main - 1 + tuned.lines[0].losses.shape[-1] - 1
    for line in tuned.lines:
        main = arm(str(line.variant), float(line.values[line.chosen]))[:num_main]
        squares = [((x - x.mean()) ** 2).sum() for x in (main, line.losses[line.chosen])]
        own[str(line.variant)] = sum(squares) / df
    for line in tuned.lines:
        assert line.noise.variance == pytest.approx(drawn_to_usual(own, df)[str(line.variant)])
        assert line.noise.df == df + 2


def test_what_two_fields_miss_adds_up(found: Analysis) -> None:
    one = found.tuned.lines[0]
    both = replace(found.tuned, lines=(one, replace(one, field="optim.weight_decay")))
    (choice,) = both.choices.values()
    missed = [line.selection.variance**0.5 for line in both.lines if line.selection]
    assert choice.variance == pytest.approx(sum(missed) ** 2)


def test_a_choice_at_the_boundary_of_the_grid_is_named(tmp_path: Path) -> None:
    found, tuned = of_tuning(tmp_path / "study", tuned_study.tune(widen=0))
    (check,) = PART.checks(found, tuned)
    assert check == "`kan` was chosen at the boundary of the tuning grid, so a better value may lie beyond."
    assert "0.003 (boundary)" in section_of(found)
    line = next(line for line in tuned.lines if line.is_at_edge)
    turned = replace(line)
    turned.__dict__["curve"] = replace(line.curve, optimum=2.9e-3)
    assert (line.may_lie_beyond, turned.may_lie_beyond) == (True, False)


def assert_error_is_that_of_few(line: Line) -> None:
    assert line.curve is None
    error = np.sqrt(line.noise.variance / len(tuned_study.TUNING_SEEDS))
    expected = squared_regret_of_few(line.means, error, line.noise.df, line.chosen)
    assert line.selection == (pytest.approx(expected), line.noise.df)


def test_a_rate_below_one_that_diverged_is_at_the_boundary_and_two_rates_have_no_curve(tmp_path):
    found, tuned = of_tuning(tmp_path / "study", tuned_study.tune(widen=0, diverged=[("gelu", 3e-3)]))
    assert {line.variant for line in tuned.lines if line.is_at_edge} == {"gelu", "kan"}
    (note,) = (note for note in warning_notes(found) if "fewer than three values" in note)
    assert note.startswith("gelu (optim.learning_rate): ")
    assert_error_is_that_of_few(line_of(tuned, "gelu"))


def test_values_without_order_have_no_figure(tmp_path: Path) -> None:
    folder = tuned_study.write_study(tmp_path / "study", tuned_study.tune())
    file = StudyFolder(folder).tuning_file
    number = re.compile(rf'("{re.escape(tuned_study.FIELD)}": )([\d.e-]+)')
    file.write_text(number.sub(r'\1"rate \2"', file.read_text()))
    found = analysed(folder)
    line = line_of(found.tuned, "gelu")
    assert line.values == tuple(f"rate {rate}" for rate in RATES)
    assert line.rates is None
    assert_error_is_that_of_few(line)
    assert PART.figures(found, found.tuned) == {}
