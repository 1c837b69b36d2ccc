"""What is wrong with a table of scores, said in sentences that name its rows.

``clean_rows`` takes out what would be counted twice; everything else is pointed out and kept.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from scipy import special

from base.printing import first_few
from report.significance.axes import Level
from report.statistics.welch import NO_SPREAD
from scores.column_words import column_words
from scores.metrics import is_known_score, looks_like_a_loss
from scores.rows import RunKey, run_name
from scores.suites import HELD_OUT, is_percentage

RUN = ["family", "variant", "seed"]
SCORE = ["benchmark", "task", "metric", "head"]
KEY = [*RUN, *SCORE]
ARM = ["family", "variant"]
FEWEST_DIGITS = 6
"""Of the scores that two runs share before one is taken for a copy."""
MAX_DECIMALS = 8
DETERMINED = 0.9
"""Correlation within arms of losses of which one determines the other, but for rounding."""
OUTLIER_LEVEL = 0.05
PASTED_LEVEL = 0.002
FEWEST_COLLAPSED = 4
MOST_ITEMS = 100_000
"""Of a test set that scores may be shares of."""
_OF_FEW_VALUES = re.compile(r"(?i)f1|mcc|matthews|corr|auc")
"""Metrics that take few values on a small test set, and no multiples of a share."""
_FROM_OTHER_UNITS = {"perplexities": np.log, "bits": lambda bits: bits * np.log(2)}
"""What makes nats of a loss in another unit."""
NEAR_IN_NATS = 0.05
"""Share of the lowest loss by which that of an arm in the same unit may differ."""
_NOT_IN_NATS = re.compile(r"(?i)(?<![a-z])(brier|err|ece|r?m[as]p?e|[wct]er(?![a-z]))")
MOST_TIMES = 100
"""By which the mean of an arm may differ from that of another."""
MOSTLY = 0.8
"""Share of an arm's runs that are alike in a column which goes with the variants."""
_OF_COST, _OF_RECIPE, _OF_PLACE, _OF_FFN = map(column_words, ("cost of an FFN", "recipe", "place", "FFN"))
SHOWN = 4
EQUAL_ARMS = (
    "the same scores at every seed, judged as if they were independent; is one a copy, or do they not differ?"
)
ONE_RUN = "the same scores throughout, of one arm counted as one run; was it copied?"
SAME = "runs of different models with the same scores, kept; was one copied?"
PASTED = "the same scores at several seeds, more often than by rounding, kept; were rows copied?"
SAME_BY_CHANCE = "different runs with the same scores, kept, as it may be chance; remove what was copied"


def clean_rows(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Count every score and every run once.

    Args:
        rows: What ``normalise_rows`` returns.

    Returns:
        The rows without repeated keys and copied runs, and sentences that name what was left out. Keys with
        several different scores are left out altogether, as nothing says which one is right.
    """
    rows, repeated = _without_repeated_keys(rows)
    rows, copied = _without_copies(rows)
    pasted = _names(" ".join(map(str, arm)) for arm in find_pasted(rows))
    return rows, [*repeated, *copied, *[f"{PASTED}: {pasted}"][: len(pasted)]]


def _without_repeated_keys(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    notes = []
    repeated = rows[rows.duplicated(KEY, keep=False)].groupby(KEY)["score"].transform("nunique")
    in_conflict = repeated.reindex(rows.index, fill_value=1) > 1
    same = rows.duplicated([*KEY, "score"]) & ~in_conflict
    if same.any():
        notes.append(f"repeated rows, counted once: {_names(map(_row_name, _rows(rows[same])))}")
    if in_conflict.any():
        names = dict.fromkeys(map(_row_name, _rows(rows[in_conflict])))
        notes.append(
            "duplicates with different scores, all left out; keep one of each, number runs in a column seed, "
            f"or name the column that tells them apart (--axis COLUMN): {_names(names)}"
        )
    return rows[~same & ~in_conflict].reset_index(drop=True), notes


def _without_copies(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    extra: list[RunKey] = []
    twins = find_equal_arms(rows)
    names = {EQUAL_ARMS: [_names([" ".join(map(str, arm)) for arm in arms], "and") for arms in twins]}
    for runs, is_sure in find_equal_runs(rows).items():
        if tuple(dict.fromkeys(run[:2] for run in runs)) in twins:
            continue
        first_of_arms = list({run[:2]: run for run in reversed(runs)}.values())
        again = [run for run in runs if run not in first_of_arms]
        extra += again if is_sure else []
        sentence = SAME_BY_CHANCE if not is_sure else ONE_RUN if again else SAME
        names.setdefault(sentence, []).append(_names(map(run_name, runs), "and"))
    notes = [
        f"{sentence}: {_names(of_runs, separator='; ')}" for sentence, of_runs in names.items() if of_runs
    ]
    if not extra:
        return rows, notes
    return rows[~rows.set_index(RUN).index.isin(extra)].reset_index(drop=True), notes


def find_equal_arms(rows: pd.DataFrame) -> list[tuple[tuple[str, str], ...]]:
    """Find variants of a family that score the same at each of several seeds, and not the same at all."""
    table = rows.set_index([*RUN, *SCORE])["score"].unstack(["seed", *SCORE])
    scores = table.fillna(np.inf).apply(tuple, axis=1)
    equal = scores.groupby([scores.index.get_level_values(0), scores]).groups.values()
    return [tuple(arms) for arms in equal if len(arms) > 1 and len({*scores[arms[0]]} - {np.inf}) > 1]


def find_equal_runs(rows: pd.DataFrame) -> dict[tuple[RunKey, ...], bool]:
    """Find runs with the same scores throughout: whether these have so many digits that one was copied.

    A percentage counts as one digit, as it may be a share of a few items; another score counts its decimals,
    unless it is a loss that another one determines, as it does its perplexity.
    A run that scores zero in everything gives one answer to everything, and is taken for no copy. One rounded
    score alone is the same in two runs too often to be worth a word.

    Args:
        rows: What ``normalise_rows`` returns, each key once.
    """
    # Each training tells its own held-out loss, whoever's scores lie beside it.
    scored = rows[rows.benchmark != HELD_OUT] if (rows.benchmark != HELD_OUT).any() else rows
    table = scored.set_index([*RUN, *SCORE])["score"].unstack(SCORE).sort_index()
    table = table[(table.fillna(0.0) != 0).any(axis=1)]
    counted = _not_determined(table)
    is_percent = np.array([is_percentage(name) for name in table.columns.get_level_values("metric")], bool)
    equal_runs: dict[tuple[RunKey, ...], bool] = {}
    for _, equal in table.groupby(list(table.columns), dropna=False, sort=False):
        if len(equal) < 2:
            continue
        scores = equal.iloc[0]
        digits = sum(
            1 if share else len(f"{score:.{MAX_DECIMALS}f}".rstrip("0").partition(".")[2])
            for score, share, is_counted in zip(scores, is_percent, counted, strict=True)
            if is_counted and not np.isnan(score)
        )
        # An arm that has no other run would be left with one.
        others = {run[:2] for run in table.index.difference(equal.index)}
        is_sure = digits >= FEWEST_DIGITS and not others.isdisjoint(run[:2] for run in equal.index)
        if is_sure or scores.count() > 1:
            equal_runs[tuple(equal.index)] = is_sure
    return dict(sorted(equal_runs.items()))


def _not_determined(table: pd.DataFrame) -> np.ndarray:
    """Whether each column is no loss that goes with a finer one within arms."""
    finest = table.nunique().argsort(kind="stable")[::-1].to_numpy()
    within = (table - table.groupby(ARM).transform("mean")).iloc[:, finest]
    is_loss = np.array([any(map(looks_like_a_loss, map(str, place))) for place in within.columns], bool)
    alike = np.tril(within.corr().abs().to_numpy() > DETERMINED, -1) & is_loss & is_loss[:, None]
    is_counted = np.ones(len(finest), bool)
    for place in range(len(finest)):
        is_counted[place] = not (alike[place] & is_counted).any()
    return is_counted[np.argsort(finest)]


def find_pasted(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Find arms in whose runs all scores come again, as of rows that were pasted twice.

    In the order of seeds the equal pairs at each distance are held against a Poisson law: two normal scores
    of standard deviation s, in steps of d, are equal with probability d / (2 sqrt(pi) s); several are all
    equal with no more than the least of theirs, for which the first few are looked at. The level of 0.2%
    is over all distances, each arm and all arms together (Bonferroni). Left out are runs of which each score
    is that of a quarter of all: they collapsed, as to one answer for every question.

    Args:
        rows: What ``normalise_rows`` returns, each key once.
    """
    table = rows.set_index([*RUN, *SCORE])["score"].unstack(SCORE).sort_index().dropna(axis=1)
    times = table.apply(lambda scores: scores.map(scores.value_counts()))
    table = table[~(times >= max(FEWEST_COLLAPSED, len(table) / 4)).all(axis=1)]
    arms = table.groupby(ARM)
    shares = [
        _step(table[place].to_numpy()) / np.sqrt(square)
        for place, square in [*arms.var().mean().items()][:SHOWN]
        if square > NO_SPREAD**2 and not _OF_FEW_VALUES.search(str(place))
    ]
    if not shares:
        return []
    chance = min(shares) / (2 * np.sqrt(np.pi))

    def are_pasted(*several: np.ndarray) -> bool:
        lags = range(1, max(map(len, several)))
        equal = {lag: np.concatenate([(x[lag:] == x[:-lag]).all(axis=1) for x in several]) for lag in lags}
        p = [special.pdtrc(x.sum() - 1, len(x) * chance) for x in equal.values() if x.any()]
        return min(p, default=1.0) * len(lags) * (arms.ngroups + 1) < PASTED_LEVEL

    uneven = {arm: x.to_numpy() for arm, x in arms if (np.ptp(x.to_numpy(), 0) > NO_SPREAD).any()}
    pasted = [arm for arm, x in uneven.items() if are_pasted(x)]
    return pasted or (list(uneven) if uneven and are_pasted(*uneven.values()) else [])


def _step(scores: np.ndarray) -> float:
    """Return the steps that scores come in: of their last decimal, or of one item of a test set."""
    whole, values = (1.0 if scores.max() <= 1 else 100.0), np.unique(scores)[:50]
    step = 10.0 ** -max(len(f"{x:.{MAX_DECIMALS}f}".rstrip("0").partition(".")[2]) for x in values)
    items = np.arange(1, min(MOST_ITEMS, whole / (2 * step)) + 1)
    shares = values[:, None] * items / whole
    fits = items[(np.abs(shares - shares.round()) * whole / items < 0.51 * step).all(axis=0)]
    return max(step, whole / fits[0]) if fits.size else step


def find_confounds(rows: pd.DataFrame, columns: Iterable[str], places: list[str], level: str) -> list[str]:
    """Name further columns of a table that go with what is compared, such as ``steps``.

    A level has a value where four of five of its runs or more do. Of a column that names a recipe, two levels
    with different ones are enough. Of all others, which may agree by chance, each level must have one, over
    several runs; whole numbers are then compared to two digits, too. Left out are, by their names, properties
    of an FFN and what it costs, and texts that rename the levels.

    Args:
        rows: One a run and place.
        columns: Those of it that may be named; what is empty says nothing.
        places: Columns within which runs are compared.
        level: The column whose levels are compared.
    """
    found = {column: _values_of_levels(rows, column, places, level) for column in columns}
    what = "FFN" if level == "variant" else level
    return [
        f"`{column}` differs between {level}s ({_names(levels + ' ' + levels.index)}): what it does and what "
        f"the {what} does cannot be told apart"
        for column, levels in found.items()
        if not levels.empty
    ]


def _values_of_levels(rows: pd.DataFrame, column: str, places: list[str], level: str) -> pd.Series:
    """Return the levels of the first place in which they differ, by their values; none where they do not."""
    name, nothing = _snake(column), pd.Series(dtype=object)
    is_recipe = bool(_OF_RECIPE.search(name))
    if _OF_COST.search(name) or not (is_recipe or _OF_PLACE.search(name) or _is_unknown(column, name)):
        return nothing
    texts = rows[column].astype(str).str.strip()[rows[column].notna()]
    numbers = pd.to_numeric(texts := texts[texts != ""], errors="coerce")
    are_numbers = bool(numbers.notna().all())
    are_whole = are_numbers and bool((numbers % 1 == 0).all())
    for digits in (9, 2) if are_whole else (9,):
        written = numbers.map(lambda x, n=digits: f"{float(f'{x:.{n}g}'):,.9g}") if are_numbers else texts
        runs = rows.loc[texts.index].groupby([*places, level, written.rename("value")]).size()
        most, several = (runs.groupby([*places, level]).transform(x) for x in ("max", "sum"))
        alike = runs[(runs == most) & (runs >= MOSTLY * several)].reset_index()
        in_place = alike.groupby(places)
        is_found = in_place["value"].transform("nunique") > 1
        if not is_recipe or digits == 2:
            num_levels = rows.loc[texts.index].groupby(places)[level].nunique().rename("levels")
            is_whole = in_place["value"].transform("size") == alike.join(num_levels, on=places)["levels"]
            is_found &= is_whole & (several.min() > 1)
        for _, first in [*alike[is_found].groupby(places)][:1]:
            is_name = not are_numbers and not first["value"].duplicated().any()
            if is_recipe or _OF_PLACE.search(name) or not is_name:
                return first.groupby("value", sort=False)[level].agg(lambda x: _names(map(str, x), "and"))
    return nothing


def _is_unknown(column: str, name: str) -> bool:
    return not is_known_score(column) and not _OF_FFN.search(name)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.rpartition(".")[2]).lower()


def gravest_first(*notes: str) -> tuple[str, ...]:
    """Put warnings of what may be counted falsely first, then of lost data, and last how names were read."""
    gravest = (
        "far too narrow|as one variant|contradict each other|told apart|different ways|percent, as|one unit|"
        "more often",
        "left out|not scored|counted once",
        "^(?!.*(by the name|read))",
    )
    return tuple(sorted(notes, key=lambda note: [not re.search(pattern, note) for pattern in gravest]))


def notes_on_scores(runs: pd.DataFrame, baseline: Level) -> Iterator[str]:
    """Point out what is kept, in the order of the page; a warning of one's own is a function and a line here.

    Args:
        runs: What ``mean_scores`` returns of them: one score a run and benchmark.
        baseline: The variant that all others are compared with.
    """
    yield from balance_notes(runs, baseline)
    yield from outlier_notes(find_outliers(runs))
    yield from flat_notes(runs)
    yield from unit_notes(runs)
    yield from magnitude_notes(runs)


def balance_notes(scores: pd.DataFrame, baseline: Level) -> list[str]:
    """Name arms with one run, and arms with more or fewer runs than the baseline of their family.

    Args:
        scores: What ``run_scores`` returns.
        baseline: The variant that all others are compared with.
    """
    counts = scores.groupby(["benchmark", *ARM]).size().to_dict()
    notes: dict[str, dict[str, list[str]]] = {}
    for (benchmark, family, variant), n in counts.items():
        base = counts.get((benchmark, family, baseline), 0)
        if n == 1:
            text, arm = "one run only, so nothing can be inferred", f"{family} {variant}"
            arm += _misspelt(scores[(scores.benchmark == benchmark) & (scores.family == family)], variant)
        elif base > 1 and n != base:
            text = f"runs that differ in number from {baseline}'s"
            arm = f"{family} {variant} {n} against {base}"
        else:
            continue
        notes.setdefault(text, {}).setdefault(arm, []).append(str(benchmark))
    where = {text: [f"{arm} ({', '.join(x)})" for arm, x in arms.items()] for text, arms in notes.items()}
    return [f"{text}: {_names(names)}" for text, names in sorted(where.items())]


def _misspelt(scores: pd.DataFrame, variant: Level) -> str:
    """Ask for a variant that is called nearly so and lacks the seed of the only run of this one."""
    is_own = scores["variant"] == variant
    having = scores["variant"][scores["seed"].isin(scores["seed"][is_own])]
    close = difflib.get_close_matches(str(variant), map(str, {*scores["variant"]} - {*having}), 1, 0.85)
    return f", did you mean {close[0]}?" if close else ""


def flat_notes(scores: pd.DataFrame) -> list[str]:
    """Name arms whose runs all scored the same: often models that give one answer to everything."""
    arms = scores.groupby(["benchmark", *ARM])["score"].agg(["count", "mean", "std"]).reset_index()
    flat = arms[(arms["count"] > 1) & (arms["std"] < NO_SPREAD)]
    return [
        f"{benchmark}: all runs of {family} {', '.join(map(str, group.variant))} score exactly {mean:.4g}, "
        "so these arms add no uncertainty to an interval; was one score copied, or do the models not tell "
        "the answers apart?"
        for (benchmark, family, mean), group in flat.groupby(["benchmark", "family", "mean"])
    ]


def unit_notes(scores: pd.DataFrame) -> list[str]:
    """Name arms of a loss whose mean is that of the lowest arm, once it is taken for one in another unit."""
    losses = scores[
        scores["benchmark"].map(lambda x: looks_like_a_loss(str(x)) and not _NOT_IN_NATS.search(str(x)))
    ]
    means = losses.groupby(["benchmark", *ARM])["score"].mean()
    means = means[means > 0]
    lowest = means.groupby(["benchmark", "family"]).transform("min")
    return [
        f"{benchmark}: {family} {variant} has {mean:.4g}, like the {low:.4g} of the lowest if one is in "
        f"{unit} and one in nats; write all in one unit"
        for unit, in_nats in _FROM_OTHER_UNITS.items()
        for (benchmark, family, variant), mean, low in zip(means.index, means, lowest, strict=True)
        if abs(in_nats(mean) - low) < NEAR_IN_NATS * low
    ]


def magnitude_notes(scores: pd.DataFrame) -> list[str]:
    """Name outcomes, beside percentages, whose arms differ more than a hundredfold."""
    means = scores.groupby(["benchmark", *ARM])["score"].mean().abs()
    ends = means.groupby(["benchmark", "family"]).agg(["min", "max"])
    return [
        f"{benchmark}: arms of {family} are between {low:.4g} and {high:.4g}; are all in one unit, did "
        "runs diverge, or was a point one between thousands?"
        for (benchmark, family), low, high in ends.itertuples(name=None)
        if high > MOST_TIMES * max(low, 1)
    ]


def find_outliers(scores: pd.DataFrame) -> pd.DataFrame:
    """Find runs that lie extremely far from the others of their arm.

    A run's distance to the mean of its arm's other runs is held against the spread within all arms of its
    family and benchmark, itself left out (the externally studentized residual; Cook and Weisberg 1982), at
    a level of 5% over all runs of the benchmark (Bonferroni).

    Args:
        scores: What ``run_scores`` returns.

    Returns:
        Its rows that are outliers, with the column ``others``: the mean of the arm without the run.
    """
    arm = scores.groupby(["benchmark", *ARM])["score"]
    n, mean = arm.transform("size"), arm.transform("mean")
    residual = scores["score"] - mean
    squares = (residual**2).groupby([scores.benchmark, scores.family]).transform("sum")
    df = (1 - 1 / n).groupby([scores.benchmark, scores.family]).transform("sum") - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt((squares - residual**2 * n / (n - 1)).clip(lower=0) / df)
        t = residual.abs() * np.sqrt(n / (n - 1)) / scale
        p = 2 * special.stdtr(df, -t)
    runs = scores.groupby("benchmark")["score"].transform("size")
    is_outlier = (n > 2) & (df > 0) & (residual.abs() > NO_SPREAD) & (p * runs < OUTLIER_LEVEL)
    return scores.assign(others=mean - residual / (n - 1))[is_outlier]


def outlier_notes(outliers: pd.DataFrame) -> list[str]:
    """Name what ``find_outliers`` found."""
    if outliers.empty:
        return []
    names = [
        f"{row.benchmark} {run_name((row.family, row.variant, row.seed))} "
        f"({row.score:.4g}, the others {row.others:.4g})"
        for row in _rows(outliers)
    ]
    return [f"far from the other runs of their arm, kept (see Sensitivity): {_names(names)}"]


def _rows(table: pd.DataFrame) -> list:
    return list(table.itertuples(index=False))


def _row_name(row) -> str:
    task = "" if row.task == "all" else f" {row.task}"
    head = f" under {row.head}" if row.head else ""
    return f"{run_name((row.family, row.variant, row.seed))} {row.benchmark}{task}{head}"


def _names(names: Iterable[str], word: str = "", separator: str = ", ") -> str:
    """List names, not more of them than are read; ``word`` goes before the last."""
    names = list(names)
    if len(names) > SHOWN:
        return first_few(names, SHOWN, separator)
    if not word or len(names) == 1:
        return separator.join(names)
    return f"{separator.join(names[:-1])} {word} {names[-1]}"
