"""Claims of published sources: their numbers, the studies and commands behind them, and their verdicts."""

import re
import shlex
from typing import get_args

import pytest

from base.config_input import shipped
from ffn_ablations.cli import find_command
from ffn_ablations.replicate import main
from report.claims import Effect, analysis_of_published, find_effect, judge, published_effect
from scores.published import Claim, PublishedSource, read_source_file, read_table
from scores.suites import HELD_OUT
from slurm.study.study import load_study
from tests.cases import listed

CLAIMS = [
    (source, claim) for source in get_args(PublishedSource) for claim in read_source_file(source).claims
]
ANSWERS = [(claim, answer) for _, claim in CLAIMS for answer in claim.answers if answer.study]


@pytest.mark.parametrize(("source", "claim"), CLAIMS, ids=[f"{s}: {c.claim}" for s, c in CLAIMS])
def test_a_claim_has_its_number_and_what_asks_it_again(source: str, claim: Claim) -> None:
    effect = published_effect(source, claim)
    assert (effect is not None) == bool(claim.rows)
    if claim.printed is not None:
        number, error = effect.estimate, 0.51 * 10 ** -len(str(claim.printed).partition(".")[2])
        if claim.rows.get("table") in read_source_file(source).runs:  # the thesis has a mean of draws, pooled
            rows = read_table(source, claim.rows["table"])
            scores = rows[rows.benchmark == claim.rows["benchmark"]].set_index("variant").score
            plus, minus = (scores.loc[side.split("+")].mean() for side in claim.contrast.split(" - "))
            number, error = plus - minus, 0.01
        assert number == pytest.approx(claim.printed, abs=error)
    assert (claim.says is None) == (claim.contrast == "")
    for answer in claim.answers:
        assert bool(answer.study) == bool(answer.outcomes) != bool(answer.text and answer.verdict)
        program, *words = shlex.split(answer.command) or ["python"]
        assert program == "python" or find_command(words)


@pytest.mark.parametrize(("claim", "answer"), ANSWERS, ids=[f"{a.study}: {c.claim}" for c, a in ANSWERS])
def test_a_study_asks_the_claim(claim: Claim, answer) -> None:
    study = load_study(shipped("study")[answer.study]).config
    sides = [set(side.split("+")) for side in (answer.contrast or claim.contrast).split(" - ")]
    assert set.union(*sides) <= {*study.variants, *study.evaluation.finetune.head}
    asked = [[set(side.split("+")) for side in text.split(" - ")] for text in study.report.contrasts]
    assert {study.report.baseline} in sides or sides in asked
    tasks = {"classification": "imdb", "zero-shot": "hatexplain-from-imdb"}
    for outcome in answer.outcomes:
        present = [name for name in study.evaluation.classify if name.startswith(tasks.get(outcome, "none"))]
        assert present or outcome in (*study.evaluation.suites, HELD_OUT)


@pytest.mark.parametrize(("says", "shown", "expected"), listed(__file__, "claim verdicts"))
def test_a_verdict_is_about_what_is_shown(says: str, shown: str, expected: str) -> None:
    claim = Claim(claim="x", where="y", says=says, answers=({},))
    assert judge(claim, Effect(1.0, None, None, shown, "")) == expected


def test_a_contrast_may_be_asked_the_other_way_round() -> None:
    analysis = analysis_of_published("kan-lm-study", "seeds")
    effect, turned = (find_effect(analysis, x, "blimp-filtered") for x in ("gr-kan - gelu", "gelu - gr-kan"))
    assert effect.estimate == pytest.approx(63.131 - 62.444)  # its summary.json
    assert (turned.estimate, turned.low, turned.high) == (-effect.estimate, -effect.high, -effect.low)
    assert (effect.verdict, turned.verdict) == ("better", "worse")


def test_without_runs_every_claim_is_listed_with_its_command(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    main(["--runs-dir", str(tmp_path)])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 60
    words = " ".join(printed.split())
    assert all(f"{source}: {claim.claim} ({claim.where}) published: " in words for source, claim in CLAIMS)
    assert len(re.findall(r"not run here; ffn-ablations study run \S+", words)) > 30


def test_what_is_not_given_was_searched_for_and_the_page_says_where_and_when(repository) -> None:
    page = (repository / "docs/sources.md").read_text(encoding="utf-8")
    parts = [line for line in page.splitlines() if line.startswith("|")] + page.split("\n\n")
    parts += [str(read_source_file(source)) for source in get_args(PublishedSource)]
    for part in (" ".join(part.split()) for part in parts if "| ---" not in part):
        assert not re.search("not in the paper|cannot be had|no formula there|tables lost|not named", part)
        assert part.count("not given") <= len(
            re.findall(r"searched[^)]+(, \d+ \w+ 2026|\), on \d+ \w+ 2026)", part)
        ), part
