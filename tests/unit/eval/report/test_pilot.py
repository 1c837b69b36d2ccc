"""A pilot's page from folders of made-up runs: numbers by hand, and the recipes that must not be chosen."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

from base.errors import UsageError
from eval.report.inputs.beside import read_beside
from eval.report.inputs.recipe import recipe_name
from eval.report.inputs.run_facts import RunFacts
from eval.report.pilot.page import recipe_yaml
from eval.report.pilot.write import write_pilot
from eval.report.sections.promise import promise_note
from pretrain.run.folders import RunFolder, StudyFolder

OF_FREQUENCIES = 5.8
SHORT, LONG, HIGH = (
    (("tokens", tokens), ("optim.learning_rate", rate), ("train.batch_size", "8"))
    for tokens, rate in (("0.3M", "0.003"), ("1M", "0.003"), ("1M", "0.01"))
)
Losses = Mapping[tuple, Mapping[str, Sequence[float]]]
GOOD = {"gelu": [3.000, 3.008, 3.016], "none": [3.500, 3.508, 3.516]}
"""Of a spread of .008."""


def promised(folder: Path, facts: Sequence[RunFacts]) -> str:
    folder.mkdir(exist_ok=True)
    return promise_note(read_beside(folder, facts), facts)


def _run(folder: Path, family: str, variant: str, seed: int, loss: float, minutes: float) -> None:
    run = RunFolder(folder)
    run.path.mkdir(parents=True)
    run.config_file.write_text(yaml.safe_dump({"family": family, "model": {"ffn": variant}, "seed": seed}))
    curve = [(10, 0.5 * (OF_FREQUENCIES + loss)), (20, loss)]
    run.metrics_file.write_text(
        "".join(json.dumps({"step": s, "eval_loss": x, "tokens": 50_000 * s}) + "\n" for s, x in curve)
    )
    results = {"step": 20, "eval_loss": loss, "time_s": 60 * minutes}
    run.provenance_file.write_text(
        json.dumps({"results": results, "word_frequency_loss": OF_FREQUENCIES, "parameters": 10})
    )
    run.completion_marker.write_text("{}")


def _pilot(place: Path, losses: Losses, minutes: Mapping[tuple, float], **more: object) -> Path:
    """Write the folder of a pilot of one family with variants gelu and none."""
    folder, levels = place / "study-pilot", {}
    for at, (recipe, arms) in enumerate(losses.items()):
        for variant, values in arms.items():
            for seed, loss in enumerate(values, start=901):
                run_id = f"gpt_neo/{variant}/seed{seed}-{at:08x}"
                levels[run_id] = dict(recipe)
                if np.isfinite(loss):
                    _run(folder / run_id, "gpt_neo", variant, seed, loss, minutes[recipe])
    pilot = {
        "of": "study",
        "detect": 0.02,
        "recipe": [axis for axis, _ in SHORT],
        "variants": ["gelu", "none"],
    }
    content = {"cells": list(levels), "levels": levels, "pilot": pilot | more}
    StudyFolder(folder).study_file.write_text(yaml.safe_dump(content))
    return folder


def _wide(mean: float, sd: float) -> dict[str, list[float]]:
    """Three runs of each variant with exactly that standard deviation."""
    return {"gelu": [mean - sd, mean, mean + sd], "none": [mean + 0.5 - sd, mean + 0.5, mean + 0.5 + sd]}


def test_a_recipe_of_wide_spread_is_passed_over_for_a_longer_one(tmp_path: Path) -> None:
    """The case that was met: .166 nats under one recipe, .008 under another."""
    folder = _pilot(tmp_path, {SHORT: _wide(3.4, 0.166), LONG: GOOD}, {SHORT: 1, LONG: 3})
    choice = write_pilot(folder)
    assert choice.chosen is not None
    assert choice.chosen.recipe == LONG
    wide, good = (one.seen[0].spread for one in choice.weighed)
    assert wide is not None
    assert good is not None
    assert (wide.sd, good.sd, good.df) == (pytest.approx(0.166), pytest.approx(0.008), 4)
    assert good.high == pytest.approx(0.008 * np.sqrt(4 / stats.chi2.ppf(0.025, 4)))


def test_hours_are_seeds_of_both_arms_times_the_hours_of_a_run(tmp_path: Path) -> None:
    choice = write_pilot(_pilot(tmp_path, {LONG: GOOD}, {LONG: 3}))
    assert choice.chosen is not None
    sd, seeds = choice.chosen.promises[0].sd, choice.chosen.seeds
    powers = []
    for n in (seeds - 1, seeds):
        shift, critical = 0.02 / (sd * np.sqrt(2 / n)), stats.t.ppf(0.975, 2 * n - 2)
        powers.append(stats.nct.sf(critical, 2 * n - 2, shift) + stats.nct.cdf(-critical, 2 * n - 2, shift))
    assert powers[0] < 0.8 <= powers[1]
    assert choice.chosen.hours == pytest.approx(2 * seeds * 3 / 60)


def test_the_difference_of_the_unlike_variants_is_a_t_interval(tmp_path: Path) -> None:
    choice = write_pilot(_pilot(tmp_path, {LONG: GOOD}, {LONG: 3}))
    found = choice.weighed[0]
    assert found.seen[0].difference == pytest.approx(0.5)
    expected = stats.ttest_ind(GOOD["none"], GOOD["gelu"]).confidence_interval(0.95)
    assert found.intervals[0] == pytest.approx((expected.low, expected.high))
    assert choice.weighed[0].seen[0].signal_to_noise == pytest.approx(0.5 / 0.008)


STILL = {"gelu": [5.50, 5.501, 5.502], "none": [5.52, 5.521, 5.522]}
BLIND = {"gelu": [3.100, 3.101, 3.102], "none": [3.100, 3.101, 3.103]}
BEHIND = {"gelu": [4.100, 4.101, 4.102], "none": [4.200, 4.201, 4.202]}
STOPPED = {"gelu": [3.0, 3.001, np.nan], "none": [3.5, 3.501, 3.502]}


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (STILL, "6 of 6 runs never left the first plateau"),
        (BLIND, "the unlike variants are not seen to differ"),
        (BEHIND, "ends 1.10 nats above another of as many tokens"),
        (STOPPED, "5 of 6 runs finished"),
    ],
)
def test_a_small_spread_is_not_enough(tmp_path: Path, losses: dict[str, list[float]], said: str) -> None:
    folder = _pilot(tmp_path, {HIGH: losses, LONG: _wide(3.0, 0.03)}, {HIGH: 1, LONG: 3})
    choice = write_pilot(folder)
    assert choice.chosen is not None
    assert choice.chosen.recipe == LONG
    assert said in StudyFolder(folder).pilot_file.read_text()


def test_nothing_is_recommended_where_nothing_is_seen(tmp_path: Path) -> None:
    folder = _pilot(tmp_path, {SHORT: STOPPED, LONG: STILL}, {SHORT: 1, LONG: 3})
    assert write_pilot(folder).chosen is None
    page = StudyFolder(folder).pilot_file.read_text()
    assert "No recipe can be recommended" in page
    assert promised(tmp_path / "study", []) == ""


def test_where_no_recipe_sees_the_choice_is_by_spread_and_says_so(tmp_path: Path) -> None:
    wide = {"gelu": [3.0, 3.1, 3.2], "none": [3.05, 3.1, 3.15]}
    folder = _pilot(tmp_path, {HIGH: wide, LONG: BLIND}, {HIGH: 3, LONG: 3})
    choice = write_pilot(folder)
    assert choice.chosen is not None
    assert choice.chosen.recipe == LONG
    assert "this choice is by spread alone" in StudyFolder(folder).pilot_file.read_text()


def test_recipes_that_cannot_be_told_apart_are_named_and_the_cheaper_is_taken(tmp_path: Path) -> None:
    """A spread of .008 against .010 at a third of the hours is chance."""
    folder = _pilot(tmp_path, {SHORT: _wide(3.4, 0.010), LONG: GOOD}, {SHORT: 1, LONG: 3})
    choice = write_pilot(folder)
    assert choice.chosen is not None
    assert choice.chosen.recipe == SHORT
    assert [one.recipe for one in choice.alike] == [LONG]
    assert "cannot be told from those of another (" in StudyFolder(folder).pilot_file.read_text()


def test_a_better_recipe_of_as_many_tokens_is_named(tmp_path: Path) -> None:
    folder = _pilot(tmp_path, {LONG: GOOD, HIGH: _wide(2.8, 0.1)}, {LONG: 3, HIGH: 3})
    choice = write_pilot(folder)
    assert choice.better is not None
    assert choice.better.recipe == HIGH
    assert "ends lower with as many tokens" in StudyFolder(folder).pilot_file.read_text()


def test_the_lines_for_the_study_are_yaml_that_says_the_recipe() -> None:
    values = yaml.safe_load(recipe_yaml(LONG))
    assert values == {
        "tokens": ["1M"],
        "config": {"optim": {"learning_rate": 0.003}, "train": {"batch_size": 8}},
    }
    assert recipe_name(LONG) == "1M tokens, learning rate 0.003, batch 8"


def test_every_number_and_a_picture_are_written(tmp_path: Path) -> None:
    folder = StudyFolder(_pilot(tmp_path, {SHORT: _wide(3.4, 0.166), LONG: GOOD}, {SHORT: 1, LONG: 3}))
    write_pilot(folder.path)
    record = json.loads(folder.pilot_record.read_text())
    assert record["chosen"]["recipe"] == dict(LONG)
    assert len(record["recipes"]) == 2
    assert "<svg" in (folder.pilot_dir / "recipes.svg").read_text()
    assert (folder.pilot_dir / "recipes.png").is_file()


def _facts(sd: float) -> list[RunFacts]:
    return [
        RunFacts(run_id=f"{variant}{i}", family="gpt_neo", variant=variant, seed=i, eval_loss=3.0 + sd * off)
        for variant in ("gelu", "kan", "swiglu")
        for i, off in enumerate((-1.0, 0.0, 1.0))
    ]


@pytest.mark.parametrize(
    ("sd", "verdict"), [(0.009, "as promised"), (0.3, "more than promised"), (0.0002, "less than promised")]
)
def test_the_study_is_held_against_what_its_pilot_promised(tmp_path: Path, sd: float, verdict: str) -> None:
    write_pilot(_pilot(tmp_path, {LONG: GOOD}, {LONG: 3}))
    said = promised(tmp_path / "study", _facts(sd))
    assert said.startswith("The pilot chose 1M tokens, learning rate 0.003, batch 8.")
    assert said.endswith(f"{verdict}.")
    seen = re.findall(rf"{sd:.4f} \(", said)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("steps", "rate", "said"),
    [
        (976, 3e-3, ""),  # 976 x 8 x 128 are the most steps within 1M
        (976, 1e-2, "The study has 1M tokens, learning rate 0.01, batch 8. Spread over seeds"),
        (
            292,
            3e-3,
            "The study has 300k tokens, learning rate 0.003, batch 8, which the pilot refused (6 of 6",
        ),
        (683, 3e-3, "The study has another recipe, which the pilot did not try."),
        (976, 1e-3, "The study has another recipe, which the pilot did not try."),
    ],
)
@pytest.mark.ci
def test_a_study_of_another_recipe_is_told(tmp_path: Path, steps: int, rate: float, said: str) -> None:
    short = (("tokens", "300k"), *SHORT[1:])
    losses = {LONG: GOOD, HIGH: _wide(3.0, 0.1), short: STILL}
    write_pilot(_pilot(tmp_path, losses, dict.fromkeys(losses, 3)))
    config = {
        "optim": {"learning_rate": rate, "max_steps": steps},
        "train": {"batch_size": 8},
        "data": {"block_size": 128},
    }
    run = StudyFolder(tmp_path / "study").run("gelu0")
    run.path.mkdir(parents=True)
    run.config_file.write_text(yaml.safe_dump(config))
    note = promised(tmp_path / "study", _facts(0.009))
    assert note.startswith("The pilot chose 1M tokens, learning rate 0.003, batch 8.")
    assert said in note
    assert ("The study has" in note) == bool(said)


def test_a_folder_that_is_no_pilot_is_refused(tmp_path: Path) -> None:
    StudyFolder(tmp_path).study_file.write_text("name: study\ncells: []\n")
    with pytest.raises(UsageError, match="is not that of a pilot"):
        write_pilot(tmp_path)
