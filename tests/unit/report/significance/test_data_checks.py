"""Every data check: what it finds, what it leaves alone, and that it names its rows."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.significance import data_checks
from scores.run_scores import normalise_rows, run_scores
from tests.unit.report.studies import compare, table

NAMES = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]


def rows_of(*rows: tuple) -> pd.DataFrame:
    """Rows of (variant, seed, task, score) of one family and benchmark."""
    table = [("f", variant, seed, "blimp", task, "accuracy", score) for variant, seed, task, score in rows]
    return normalise_rows(pd.DataFrame(table, columns=NAMES))


def test_every_check_is_on_the_page():
    checks = {name: check for name, check in vars(data_checks).items() if name.endswith("_notes")}
    written = [name for name, check in checks.items() if callable(check)]
    called = data_checks.notes_on_scores.__code__.co_names
    assert len(written) > 2
    assert not set(written) - set(called), "not called by notes_on_scores"


def test_repeated_rows_count_once_and_conflicting_ones_not_at_all():
    rows = rows_of(
        ("a", 1, "x", 50.0), ("a", 1, "x", 50.0), ("a", 2, "x", 51.0),
        ("b", 1, "x", 52.0), ("b", 1, "x", 53.0), ("b", 1, "x", 53.0), ("b", 2, "x", 54.0),
    )  # fmt: skip
    cleaned, notes = data_checks.clean_rows(rows)
    assert list(cleaned.columns) == list(rows.columns)
    found = cleaned[["variant", "seed", "score"]].to_records(index=False).tolist()
    assert found == [("a", 1, 50.0), ("a", 2, 51.0), ("b", 2, 54.0)]
    assert notes == [
        "repeated rows, counted once: f a seed 1 blimp x",
        "duplicates with different scores, all left out; keep one of each, number runs in a column seed, or "
        "name the column that tells them apart (--axis COLUMN): f b seed 1 blimp x",
    ]


def scores_of(cells: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    return run_scores(normalise_rows(table(cells)))[0]


def test_arms_with_one_run_and_arms_of_another_size_are_named():
    first = {("f", "a"): [1, 2, 3], ("f", "b"): [1, 2], ("f", "c"): [1]}
    scores = scores_of(first | {("g", "a"): [1], ("g", "b"): [2, 3]})
    assert data_checks.balance_notes(scores, "a") == [
        "one run only, so nothing can be inferred: f c (blimp), g a (blimp)",
        "runs that differ in number from a's: f b 2 against 3 (blimp)",
    ]
    assert data_checks.balance_notes(scores_of({("f", "a"): [1, 2], ("f", "b"): [1, 2]}), "a") == []


def test_outliers_are_those_of_the_externally_studentized_residual():
    """Against a regression on cell means without the run, as textbooks define it."""
    rng = np.random.default_rng(0)
    cells = {(f, v): list(rng.normal(50, 1, 6)) for f in ("f", "g") for v in "abc"}
    cells["f", "b"][2] -= 2.75  # just enough: p is 0.03 after the correction
    scores = scores_of(cells)
    found = data_checks.find_outliers(scores)
    assert found[["family", "variant", "seed"]].to_records(index=False).tolist() == [("f", "b", 3)]
    assert found.others.item() == pytest.approx(np.mean([x for i, x in enumerate(cells["f", "b"]) if i != 2]))
    note = data_checks.outlier_notes(found)[0]
    assert f"blimp f b seed 3 ({cells['f', 'b'][2]:.2f}, the others" in note

    def p_value(family: str, variant: str, seed: int) -> float:
        of_family = {v: np.array(x) for (f, v), x in cells.items() if f == family}
        rest = np.delete(of_family[variant], seed - 1)
        left = [*(x for v, x in of_family.items() if v != variant), rest]
        df = sum(len(x) - 1 for x in left)
        scale = np.sqrt(sum(((x - x.mean()) ** 2).sum() for x in left) / df)
        t = (of_family[variant][seed - 1] - rest.mean()) / (scale * np.sqrt(1 + 1 / len(rest)))
        return float(2 * stats.t.sf(abs(t), df))

    flagged = {key for key in zip(scores.family, scores.variant, scores.seed, strict=True)
               if p_value(*key) * len(scores) < 0.05}  # fmt: skip
    assert flagged == {("f", "b", 3)}


def draw(
    rng: np.random.Generator, runs: int, arms: int, tasks: int, step: float, copies: int = 0
) -> pd.DataFrame:
    """Rows of runs whose tasks correlate and are rounded; the last runs of an arm repeat its first."""
    arm = np.arange(runs) % arms
    spread = 0.8 * rng.normal(size=(runs, 1)) + 0.6 * rng.normal(size=(runs, tasks))
    scores = 60 + rng.normal(0, 3, size=(arms, tasks))[arm] + 0.5 * spread
    scores = (scores / step).round() * step
    for each in range(arms):
        members = np.flatnonzero(arm == each)
        scores[members[len(members) - copies :]] = scores[members[:copies]]
    return rows_of_runs(scores, arm)


def rows_of_runs(scores: np.ndarray, arms: np.ndarray, metric: str = "accuracy") -> pd.DataFrame:
    table = [
        ("f", "abcdefghi"[arm], seed, "blimp", f"task-{task}", metric, score)
        for seed, (arm, of_run) in enumerate(zip(arms, scores, strict=True))
        for task, score in enumerate(of_run)
    ]
    return normalise_rows(pd.DataFrame(table, columns=NAMES))


@pytest.mark.parametrize(
    ("runs", "arms", "copies", "step"), [(6, 2, 1, 0.1), (12, 1, 6, 0.01), (54, 9, 1, 0.1), (60, 2, 12, 0.01)]
)
def test_copies_are_found_in_many_scores(runs: int, arms: int, copies: int, step: float):
    rows = draw(np.random.default_rng(6), runs, arms, 20, step, copies=copies)
    assert sum(data_checks.find_equal_runs(rows).values()) == copies * arms


def test_losses_that_determine_each_other_are_no_proof_of_a_copy():
    rng = np.random.default_rng(4)
    units = {"eval_loss": lambda x: x, "perplexity": np.exp, "bits_per_byte": lambda x: x / 2.9}
    for _ in range(40):
        losses = rng.normal(3.2, 0.005, 20)
        table = [
            ("f", "abcd"[place // 5], place % 5, name, "all", name, round(of_loss(loss), 3))
            for place, loss in enumerate(losses)
            for name, of_loss in units.items()
        ]
        rows = normalise_rows(pd.DataFrame(table, columns=NAMES))
        assert len(data_checks.clean_rows(rows)[0]) == len(rows)


@pytest.mark.parametrize("kinds", ["abc", "aac", "aba", "aaa"])
def test_variants_that_score_the_same_at_every_seed_are_named_whole(kinds: str):
    scores = {kind: np.random.default_rng(n).normal(60, 1, (4, 2)).round(1) for n, kind in enumerate("abc")}
    rows = rows_of_runs(np.concatenate([scores[kind] for kind in kinds]), np.repeat(range(3), 4))
    rows = rows.assign(seed=rows.seed % 4)
    cleaned, notes = data_checks.clean_rows(rows)
    equal = [("f", "abc"[place]) for place, kind in enumerate(kinds) if kinds.count(kind) > 1]
    assert data_checks.find_equal_arms(rows) == ([tuple(equal)] if equal else [])
    assert len(cleaned) == len(rows)
    assert len(notes) == bool(equal)


def test_twelve_copied_runs_do_not_make_a_difference():
    rng = np.random.default_rng(3)
    honest = draw(rng, 12, 2, 20, 0.01)
    copied = honest.assign(seed=honest.seed + 100, run_id=honest.run_id + "-b")
    together = normalise_rows(pd.concat([honest, copied]))
    cleaned, (note,) = data_checks.clean_rows(together)
    assert cleaned[["variant", "seed", "score"]].equals(honest[["variant", "seed", "score"]])
    assert note.startswith("the same scores throughout, of one arm counted as one run; was it copied?: ")
    assert "f a seed 0 and f a seed 100; f a seed 2 and f a seed 102; " in note
    a, b = (honest[honest.variant == name].groupby("seed").score.mean() for name in "ab")
    expected = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert compare(together, "a - b").p == pytest.approx(expected, abs=1e-12)


def rounded(centre: float, sd: float, shape: tuple[int, int], decimals: int) -> np.ndarray:
    return np.random.default_rng(0).normal(centre, sd, shape).round(decimals)


ZEROS = np.r_[np.zeros((4, 8)), np.random.default_rng(1).normal(30, 3, size=(8, 8))]
SHARES = 100 * np.random.default_rng(2).integers(138, 150, size=(16, 2)) / 277


@pytest.mark.parametrize(
    ("scores", "arms", "metric", "lost", "said"),
    [
        # Of twelve runs with two decimals a pair is often the same by chance, and of shares of few items.
        (rounded(60, 0.5, (12, 1), 2), np.zeros(12, int), "accuracy", [], None),
        (SHARES, np.zeros(16, int), "accuracy", [], "kept, as it may be chance; remove what was copied: "),
        (rounded(3, 0.02, (6, 1), 8), np.zeros(6, int), "perplexity", [1], "f a seed 0 and f a seed 1"),
        (rounded(60, 3, (12, 12), 2), np.arange(12) % 2, "accuracy", [],
         "runs of different models with the same scores, kept; was one copied?: f a seed 0 and f b seed 1"),
        # A correlation of zero is what every constant answer gets.
        (ZEROS, np.repeat([0, 1], [4, 8]), "matthews_correlation", [], None),
    ],
)  # fmt: skip
def test_equal_runs_of_one_model_are_one_where_that_is_no_chance(scores, arms, metric, lost, said):
    scores[1] = scores[0]
    cleaned, notes = data_checks.clean_rows(rows_of_runs(scores, arms, metric))
    assert sorted(cleaned.seed.unique()) == [x for x in range(len(scores)) if x not in lost]
    assert [said in note for note in notes] == [True] * (said is not None)


def shares(items: int, seeds: int, arms: int, rng: np.random.Generator) -> np.ndarray:
    """Accuracies in percent on so many items, of which those of an arm stand together."""
    return 100 * rng.binomial(items, 0.6, (seeds * arms, 1)) / items


@pytest.mark.parametrize(
    ("scores", "num_arms", "pasted"),
    [
        (np.array([60.1, 60.2, 60.32, 60.051, 63.69, 64.02, 63.69, 64.02]), 2, [("f", "b")]),
        (np.array([3.141592, 3.1328, 3.1512, 3.1328, 3.2014, 3.1992, 3.1875, 3.2101]), 2, [("f", "a")]),
        # each arm alone may be chance, all together are not
        (np.tile([[60.1, 61.2, 60.7], [62.4, 61.9, 62.8]], 2).ravel(), 2, [("f", "a"), ("f", "b")]),
        (np.array([61.0, 60.5, 61.0, 60.0, 63.5, 64.0, 63.5, 64.5]), 2, []),  # halves of a point
        (np.array([60.0, 60.0, 60.0, 61.02, 61.37, 61.12]), 2, []),  # one answer to everything
        (shares(277, 5, 6, np.random.default_rng(0)), 6, []),
        (shares(1821, 10, 4, np.random.default_rng(0)), 4, []),
        (shares(100, 10, 4, np.random.default_rng(0)).round(1) / 100, 4, []),
    ],
)
def test_seeds_that_were_copied_repeat_more_than_rounding_does(scores, num_arms, pasted):
    arms = np.repeat(range(num_arms), len(scores) // num_arms)
    rows = rows_of_runs(scores.reshape(-1, 1), arms)
    assert data_checks.find_pasted(rows) == pasted
    assert [data_checks.PASTED in note for note in data_checks.clean_rows(rows)[1]] == [True] * bool(pasted)


def test_collapsed_runs_are_no_pasted_ones():
    rng, arms = np.random.default_rng(1), np.repeat(range(4), 5)
    for share in (0.6, 0.8, 1.0):
        for _ in range(30):
            scores = rng.normal(60, 2, (20, 2)).round(2)
            scores[rng.random(20) < share] = 50.0
            assert data_checks.find_pasted(rows_of_runs(scores, arms)) == []
    scores = rng.normal(60, 2, (20, 2)).round(2)
    scores[[0, 1, 5, 6, 10]] = 50.0
    scores[[3, 8, 12]] = scores[[2, 7, 11]]
    assert data_checks.find_pasted(rows_of_runs(scores, arms))


@pytest.mark.parametrize("decimals", [(2,), (1, 2)])
def test_equal_scores_of_rounded_ones_are_rarely_taken_for_copies(decimals):
    rng, arms = np.random.default_rng(0), np.repeat(range(4), 5)
    found = []
    for _ in range(200):
        level = rng.normal(60, 0.3, 20)  # metrics of a run go together
        scores = np.column_stack([level.round(n) for n in decimals])
        found.append(data_checks.find_pasted(rows_of_runs(scores, arms)))
    assert sum(map(bool, found)) <= 2
    scores[[3, 4, 13, 14]] = scores[[2, 2, 12, 12]]
    assert {("f", "a"), ("f", "c")} <= {*data_checks.find_pasted(rows_of_runs(scores, arms))}


@pytest.mark.parametrize(
    ("benchmark", "means", "named"),
    [
        ("val_loss", [3.19, 3.17, 22.8], "f c has 22.8, .* perplexities"),
        ("val_loss", [3.19, 23.9], "f b has 23.9, .* perplexities"),
        ("val_loss", [3.19, 3.2, 4.6], "f c has 4.6, .* bits"),
        ("perplexity", [24.1, 23.8, 31.0], None),
        ("val_loss", [3.1, 3.6, 7.2], None),
        ("accuracy", [43.3, 62.4, 60], None),
        ("brier", [0.305, 0.205], None),
    ],
)
def test_an_arm_in_another_unit_is_named(benchmark: str, means: list[float], named: str | None):
    rows = [
        {"benchmark": benchmark, "family": "f", "variant": variant, "score": mean + delta}
        for variant, mean in zip("abc", means, strict=False)
        for delta in (-0.01, 0.01)
    ]
    notes = data_checks.unit_notes(pd.DataFrame(rows))
    assert len(notes) == (named is not None)
    assert named is None or re.search(named, notes[0])


@pytest.mark.parametrize(
    ("means", "is_named"), [((983.0, 1.1), True), ((983.0, 97.0), False), ((45.0, 0.2), False)]
)
def test_arms_that_differ_a_hundredfold_are_named(means: tuple[float, float], is_named: bool):
    rows = pd.DataFrame({"benchmark": "tps", "family": "f", "variant": ["a", "b"], "score": means})
    notes = data_checks.notes_on_scores(rows.assign(seed=1), "a")
    assert any("tps: arms of f are between 1.1 and 983" in note for note in notes) == is_named


def test_a_misspelt_variant_is_asked_for():
    scores = pd.DataFrame(
        [("f", v, seed, "blimp", 1.0) for v, seeds in {"swiglu": (1, 3), "swglu": (2,), "swigl": (3,)}.items()
         for seed in seeds], columns=["family", "variant", "seed", "benchmark", "score"]
    )  # fmt: skip
    (note,) = (x for x in data_checks.balance_notes(scores, "swiglu") if x.startswith("one run"))
    assert "swglu, did you mean swiglu? (blimp)" in note
    assert "f swigl (blimp)" in note  # which has a seed that swiglu has too


def test_lost_data_is_told_before_how_names_were_read():
    notes = ("not read as scores: lr", "far from the others", "left out: x", "--axis a: far too narrow")
    assert data_checks.gravest_first(*notes) == notes[::-1]
