"""Claims of published sources: their numbers, the studies and commands behind them, and their verdicts."""

import re
import shlex
from typing import get_args

import pytest

from base.config_input import shipped
from base.options import parse_option_text
from ffn_ablations.cli import find_command
from ffn_ablations.replicate import main
from report.claims import Effect, analysis_of_published, find_effect, judge, published_effect
from report.significance.comparison import DIFFERENT, EQUIVALENT, NEGLIGIBLE, UNDECIDED
from scores.published import Claim, PublishedSource, read_source_file, read_table
from scores.suites import HELD_OUT
from slurm.study.study import load_study

SOURCES = get_args(PublishedSource)
CLAIMS = [(source, claim) for source in SOURCES for claim in read_source_file(source).claims]
ANSWERS = [(claim, answer) for _, claim in CLAIMS for answer in claim.answers]


@pytest.mark.parametrize(("source", "claim"), CLAIMS, ids=[f"{s}: {c.claim}" for s, c in CLAIMS])
def test_a_claim_has_its_number_and_what_asks_it_again(source: str, claim: Claim) -> None:
    effect = published_effect(source, claim)
    assert (effect is not None) == bool(claim.rows)
    if claim.printed is not None:
        decimals = len(str(claim.printed).partition(".")[2])
        number = effect.estimate
        if claim.rows.get("table") in read_source_file(source).runs:  # the thesis pools its families
            rows = read_table(source, claim.rows["table"])
            scores = rows[rows.benchmark == claim.rows["benchmark"]].set_index("variant").score
            plus, minus = (scores.loc[side.split("+")].mean() for side in claim.contrast.split(" - "))
            number = plus - minus
        assert number == pytest.approx(claim.printed, abs=0.51 * 10**-decimals + 1e-9)
    assert claim.answers or claim.recorded
    assert (claim.says is None) == (claim.contrast == "")
    commands = [answer.command for answer in claim.answers if answer.command]
    for command in [*commands, *([claim.recorded.command] if claim.recorded else [])]:
        program, *words = shlex.split(command)
        assert program == "python" or find_command(words)


@pytest.mark.parametrize(("claim", "answer"), ANSWERS, ids=[f"{a.study}: {c.claim}" for c, a in ANSWERS])
def test_a_study_asks_the_claim(claim: Claim, answer) -> None:
    study = load_study(shipped("study")[answer.study]).config
    levels = {" ".join(sorted(head.split())) for head in study.evaluation.finetune.head}
    contrast = answer.contrast or claim.contrast
    sides = [set(side.split("+")) for side in contrast.split(" - ")]
    named = {" ".join(sorted(level.split())) for side in sides for level in side}
    assert named <= levels or set.union(*sides) <= {parse_option_text(v, "").name for v in study.variants}
    asked = [[set(side.split("+")) for side in text.split(" - ")] for text in study.report.contrasts]
    assert {study.report.baseline} in sides or sides in asked
    suites = {*study.evaluation.suites, HELD_OUT}
    tasks = {"classification": "imdb", "zero-shot": "hatexplain-from-imdb"}
    for outcome in answer.outcomes:
        assert outcome in suites or tasks[outcome] in {*study.evaluation.classify, "imdb"}


@pytest.mark.parametrize(
    ("says", "shown", "expected"),
    [
        ("better", DIFFERENT[0], "reproduces"),
        ("better", DIFFERENT[1], "contradicts"),
        ("worse", NEGLIGIBLE[1], "reproduces"),
        ("worse", EQUIVALENT, "contradicts"),
        ("equal", EQUIVALENT, "reproduces"),
        ("equal", NEGLIGIBLE[0], "reproduces"),
        ("equal", DIFFERENT[0], "contradicts"),
        ("equal", UNDECIDED, "cannot tell"),
        ("at chance", "at chance", "reproduces"),
        ("at chance", DIFFERENT[0], "cannot tell"),
    ],
)
def test_a_verdict_is_about_what_is_shown(says: str, shown: str, expected: str) -> None:
    claim = Claim(claim="x", where="y", says=says)
    assert judge(claim, Effect(1.0, None, None, shown, "")) == expected
    assert judge(claim, None) == "not run here"


def test_a_contrast_may_be_asked_the_other_way_round() -> None:
    analysis = analysis_of_published("kan-lm-study", "seeds")
    effect = find_effect(analysis, "gr-kan - gelu", "blimp-filtered")
    turned = find_effect(analysis, "gelu - gr-kan", "blimp-filtered")
    assert effect.estimate == pytest.approx(63.131 - 62.444)  # its summary.json
    assert (turned.estimate, turned.low, turned.high) == (-effect.estimate, -effect.high, -effect.low)
    assert (effect.verdict, turned.verdict) == ("better", "worse")
    assert find_effect(analysis, "gr-kan - swiglu", "blimp-filtered") is None


@pytest.mark.parametrize("source", ["", *SOURCES])
def test_without_runs_every_claim_is_listed_with_its_command(source, tmp_path, capsys) -> None:
    main([*filter(None, [source]), "--runs-dir", str(tmp_path)])
    printed = capsys.readouterr().out
    for name, claim in CLAIMS:
        if source in ("", name):
            assert f"{claim.claim} ({claim.where})" in printed
    assert len(re.findall(r"not run here  +(ffn-ablations|python)", printed)) >= (2 if source else 30)
