"""What a reader sees of any report: short, with one answer, and with no claim that is not corrected."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import read_source, source_of_frame
from report.page import make_card
from report.part import NextStep, Part
from report.request import Request
from report.verdicts.findings import by_standing
from tests.unit.report.rendering import render
from tests.unit.report.tuned_study import tune, write_study

MOST_WORDS = 1_000
FAMILIES, VARIANTS = ("gpt_neo", "roberta"), ("gelu", "kan", "relu", "silu")


def frame(seed: int, runs: int = 4, shift: float = 0.0) -> pd.DataFrame:
    """Two families and three metrics; relu's scores are off by a shift."""
    rng = np.random.default_rng(seed)
    rows = [
        (family, variant, run, metric, 60 + (variant == "relu") * shift + rng.normal())
        for family in FAMILIES
        for variant in VARIANTS
        for run in range(runs)
        for metric in ("blimp", "glue", "ewok")
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


def named(source: str, folder: Path) -> Analysis:
    if source == "tuned study":
        return analyse(read_source(write_study(folder, tune())))
    if source == "study over sizes":
        return analyse(read_source(write_study(folder, tune(sizes=("0.1M", "0.5M")))))
    if source == "contrasts":
        return with_contrasts()
    primary = ("blimp",) if source == "exploratory metrics" else ()
    return analyse(source_of_frame(frame(0, shift=3.0)), Request(primary=primary))


@cache
def with_contrasts() -> Analysis:
    asked = Request(contrast=("relu - kan+silu", "kan - silu"))
    return analyse(source_of_frame(frame(0, shift=3.0)), asked)


MADE = ("tuned study", "study over sizes", "two families", "exploratory metrics", "contrasts")
PUBLISHED = ("table5", "all_seeds")


@pytest.fixture(scope="module", params=(*MADE, *PUBLISHED))
def analysis(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    if request.param in PUBLISHED:
        shared = request.getfixturevalue("shared_data")
        return analyse(read_source(shared / "thesis" / f"{request.param}.csv"))
    return named(request.param, tmp_path_factory.mktemp("page") / "study")


def before_folds(text: str) -> str:
    """What is read without opening anything: of each fold its line."""
    depth, kept = 0, []
    for piece in re.split(r"(<details>|</details>)", text):
        if piece == "<details>":
            depth += 1
        elif piece == "</details>":
            depth -= 1
        elif depth == 0:
            kept.append(piece)
        elif depth == 1 and (line := re.match(r"<summary>(.*?)</summary>", piece)):
            kept.append(line[1])
    return "\n".join(kept)


def test_a_page_is_short_and_has_one_answer(analysis: Analysis):
    text = before_folds(render(analysis, {"forest": "Forest plot."}))
    assert len(text.split()) <= MOST_WORDS
    assert text.count("**Answer.**") == 1
    assert text.index("**Answer.**") < text.index("| --- |") < text.index("figures/forest.svg")


def test_the_best_of_many_variants_are_on_the_page_and_the_others_are_folded():
    variants, rng = ["gelu", *(f"v{n}" for n in range(49))], np.random.default_rng(0)
    rows = [("f", v, s, m, rng.normal(60)) for v in variants for s in (1, 2) for m in ("blimp", "glue")]
    scores = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    analysis = analyse(source_of_frame(scores))
    text = render(analysis, {"forest": "Forest plot."})
    assert len(before_folds(text).split()) <= MOST_WORDS
    means = scores[scores.benchmark == str(by_standing(analysis)[0])].groupby("variant").score.mean()
    listed = re.findall(r"^\| `(\w+)` \|", text[: text.index("figures/forest.svg")], re.MULTILINE)
    assert listed == list(means.sort_values(ascending=False).index)
    seen = re.findall(r"^\| `(\w+)` \|", before_folds(text), re.MULTILINE)
    assert 20 < len(seen) < 50
    assert seen == listed[: len(seen)]


def test_nothing_is_bold_but_what_is_shown_and_corrected(analysis: Analysis):
    """Bold words in tables are verdicts, as many as comparisons that have them."""
    tables = [line for line in render(analysis).splitlines() if line.startswith("| ")]
    bold = [word for line in tables for word in re.findall(r"\*\*([^*]+)\*\*", line)]
    shown = {"better", "worse", "equivalent", "better (negligible)", "worse (negligible)"}
    assert set(bold) <= shown
    if not any(c.is_different for c in (*analysis.comparisons, *analysis.contrasts) if c.is_primary):
        assert not {word for word in bold if word.startswith(("better", "worse"))}


def test_a_pair_has_one_interval_and_one_verdict_on_the_page(analysis: Analysis):
    """Every interval of differences is one of a comparison, and none stands beside another of its pair."""
    text = render(analysis)
    corrected = [*analysis.comparisons, *analysis.contrasts]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    for variant in analysis.others:
        own = {c.verdict for c in corrected if c.is_primary and str(c.contrast.compared) == str(variant)}
        words = {cell.strip("*| ") for row in rows if row[0] == f"| `{variant}`" for cell in row}
        said = words & {"better", "worse", "undecided", "equivalent", "within margin"}
        allowed = own | ({"better", "worse"} if own & {"different", "different but negligible"} else set())
        allowed |= {"undecided"} if "inconclusive" in own else set()
        assert said <= allowed | {"-"}, variant


def test_whoever_a_sentence_names_has_the_size_that_it_says(analysis: Analysis):
    sizes = {
        (str(c.contrast.compared), f"{value:.{c.digits}f}")
        for c in (*analysis.comparisons, *analysis.contrasts)
        for value in (abs(c.estimate or 0.0), c.largest_remaining or 0.0)
    }
    pattern = re.compile(
        r"`([^`]+)`(?: \(of surviving runs\))?"
        r"(?: is (?:better|worse) than `[^`]+` by| by| may still differ by up to"
        r"| is undecided \(it may still differ by up to) ([\d.]+)"
    )
    for sentence in make_card(analysis).answer:
        pairs = set(pattern.findall(sentence))
        assert pairs <= sizes, sentence
        assert pairs or " by " not in sentence


def test_contrasts_asked_for_are_in_the_answer():
    found = with_contrasts()
    sentences = [x for x in make_card(found).answer if x.startswith("Of the contrasts asked for, ")]
    assert len(sentences) == len(found.primary)
    for sentence, benchmark in zip(sentences, found.primary, strict=True):
        first, second = (c for c in found.contrasts if c.benchmark == benchmark and c.is_primary)
        assert (first.verdict, second.verdict) == ("different", "inconclusive")
        assert f"`relu` is better than `kan+silu` by {first.estimate:.{first.digits}f} points" in sentence
        assert "undecided: `kan - silu`" in sentence


def test_only_steps_that_decide_are_proposed_the_most_for_each_run_first():
    def step(name: str, power: float, num_runs: int) -> NextStep:
        return NextStep(text=name, compared="`kan`", command="", power=power, num_runs=num_runs)

    steps = (step("many runs", 0.8, 40), step("hardly ever", 0.4, 1), step("few runs", 0.6, 10))
    part = Part(
        name="mine", compute=lambda _: True, section=lambda *_: None, steps=lambda analysis, result: steps
    )
    found = replace(analyse(source_of_frame(frame(0))), parts=(part,), results={"mine": True})
    first, second, *care = make_card(found).steps
    assert first.startswith("few runs (10 runs) would show a difference of `kan` in 60% of studies")
    assert second.startswith("many runs (40 runs)")
    assert care == ["Added runs are a second reading (docs/statistics.md)."]


CLAIMS = re.compile(
    r"\*\*(better|worse|different)\*\*|\bis (better|worse) than\b|\bare (better|worse) than\b"
)


@pytest.mark.slow
@pytest.mark.parametrize("primary", [(), ("blimp",)])
def test_in_few_null_studies_anything_on_the_page_is_called_different(primary: tuple[str, ...]):
    """The whole page, folds too: with all metrics primary, and with one and the others explored."""
    studies = 400
    false = 0
    for seed in range(studies):
        analysis = analyse(source_of_frame(frame(1_000 + seed, runs=3)), Request(primary=primary))
        false += bool(CLAIMS.search(render(analysis)))
    assert false <= stats.binom.ppf(0.999, studies, 0.05)
