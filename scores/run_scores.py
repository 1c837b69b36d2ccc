"""From rows to the one number per run and benchmark that is compared, and what a table must satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from base.errors import UsageError, shown
from scores import suites
from scores.head_descriptions import DEFAULT_HEAD
from scores.rows import LARGEST, NO_HEAD, NO_METRIC, ROW_COLUMNS, check_axis, of_each, with_primary
from scores.spreads import cure_of_cell

REQUIRED_COLUMNS = ("family", "variant", "seed", "benchmark", "score")
SEED_NAME = r"(?i:seed|run|s)[\W_]*\d+"
"""How a seed is written by its name, ``seed_1``."""
SINGLE_TASK = "all"  # task of a table that has one score per run and benchmark


def is_percent(metrics: pd.Series) -> pd.Series:
    """Say of each metric's name whether its scores are percentages."""
    return pd.Series(of_each(metrics, suites.is_percentage), metrics.index, bool)


def decimals(metric: str) -> int:
    """Return how many decimals to show of a metric: perplexities and bits need more than percentages."""
    return 1 if is_percent(pd.Series([metric])).item() else 3


def normalise_rows(frame: pd.DataFrame, origin: str = "rows", axes: Sequence[str] = ()) -> pd.DataFrame:
    """Check a table of scores and give it every column of the rows schema.

    Args:
        frame: At least family, variant, seed, benchmark, score (percent); the rest of the schema is optional.
            Errors name a row by its label where the index has a name, such as ``row``.
        origin: Where the table comes from, named in errors.
        axes: Further columns that tell runs apart, of texts.

    Returns:
        The columns of ``ROW_COLUMNS`` and the axes, scores as float64, sorted so that the order of rows is
        irrelevant.

    Raises:
        UsageError: For missing columns, no rows, an empty name, a score or seed that is no number, or two
            runs of one family, variant and seed.
    """
    required = (*REQUIRED_COLUMNS, *(check_axis(name, origin) for name in axes))
    missing = [name for name in required if name not in frame.columns]
    if missing:
        raise UsageError(
            f"{origin}: missing column(s) {', '.join(missing)}; needed are {', '.join(required)} "
            f"(found: {', '.join(map(str, frame.columns)) or 'none'})"
        )
    if frame.empty:
        raise UsageError(f"{origin}: holds no rows; score runs first with: ffn-ablations eval RUN...")
    rows = frame.copy()
    for name in axes:
        rows[name] = _level_texts(rows[name])
    for name in ("family", "variant", "benchmark", *axes):
        rows[name] = _names(rows[name], name, origin)
    rows["score"] = _numbers(rows["score"], "score", origin)
    rows["seed"] = _seeds(rows["seed"], origin)
    derived_id = rows.family + "/" + rows.variant + "/seed" + rows.seed.astype(str)
    for name in axes:
        derived_id += f" {name}=" + rows[name]
    texts = {"run_id": derived_id, "task": SINGLE_TASK, "group": "", "metric": NO_METRIC, "head": NO_HEAD}
    for name, default in texts.items():
        column = rows[name].astype(object) if name in rows.columns else pd.Series(None, rows.index, object)
        rows[name] = column.where(column.notna(), default).astype(str)
    rows["group"] = pd.Series(of_each(rows["group"], suites.phenomenon_name), rows.index).astype(str)
    items = rows["n_items"] if "n_items" in rows.columns else pd.Series(0, rows.index)
    rows["n_items"] = _numbers(items, "n_items", origin).astype(int)
    _refuse_second_runs(rows, origin, axes)
    rows = with_primary(rows, origin)
    order = ["benchmark", "family", *axes, "variant", "seed", "group", "task", "metric", "head"]
    return rows.sort_values(order, kind="stable")[[*ROW_COLUMNS, *axes]].reset_index(drop=True)


def _level_texts(column: pd.Series) -> pd.Series:
    """Write numbers as people do, 1000000 and 0.003."""
    return column.map("{:.15g}".format, na_action="ignore") if column.dtype.kind in "iuf" else column


def _names(column: pd.Series, name: str, origin: str) -> pd.Series:
    text = column.astype(str).str.strip()
    empty = np.flatnonzero(column.isna() | (text == ""))
    if empty.size:
        raise UsageError(
            f"{origin}: {_place(column, empty[0])} has no {name}; write it in every row (a merged cell has "
            "it in its first only)"
        )
    return text


def _place(column: pd.Series, number: int) -> str:
    """Say where a cell stands."""
    name, label = column.index.name, column.index[number]
    place = f"{name} {label}" if name else f"data row {number + 1}"
    # In a wide table the label names a column of scores before the row.
    return place if column.name == "score" else place.rpartition(", ")[2]


def _numbers(column: pd.Series, name: str, origin: str) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    bad = np.flatnonzero(~(numbers.abs() < LARGEST))
    if bad.size:
        raise UsageError(
            f"{origin}: {name} {shown(str(column.iloc[bad[0]]))} in {_place(column, bad[0])} is not a number "
            f"({bad.size} such cell(s)); {cure_of_cell(str(column.iloc[bad[0]]))}"
        )
    return numbers


def _seeds(column: pd.Series, origin: str) -> pd.Series:
    """Read seeds; those of other projects may be larger than ours."""
    texts = column.astype(str).str.strip()
    if not pd.api.types.is_numeric_dtype(column) and texts.str.fullmatch(SEED_NAME).all():
        column = texts.str.replace(r"\D+", "", regex=True)
    numbers = _numbers(column, "seed", origin)
    if column.dtype.kind == "i" and numbers.min() >= 0:
        return column.astype("int64")
    texts = column.astype(str).str.strip()
    # As numbers with a point, neighbours above 2 ** 53 would be one seed.
    seeds = [int(text) if text.isdecimal() else number for text, number in zip(texts, numbers, strict=True)]
    bad = [place for place, seed in enumerate(seeds) if not 0 <= seed < 2**63 or seed % 1 != 0]
    if bad:
        raise UsageError(
            f"{origin}: seed {column.iloc[bad[0]]} in {_place(column, bad[0])} is not a whole number from 0 "
            f"to {2**63 - 1} ({len(bad)} such cell(s)); correct or remove it"
        )
    return pd.Series([int(seed) for seed in seeds], column.index, dtype="int64")


def _refuse_second_runs(rows: pd.DataFrame, origin: str, axes: Sequence[str]) -> None:
    key = ["family", *axes, "variant", "seed"]
    runs = rows.drop_duplicates([*key, "run_id"])
    twice = runs[runs.duplicated(key, keep=False)]
    if len(twice):
        first = twice.iloc[0]
        same = twice[(twice[key] == first[key]).all(axis=1)].run_id
        at = " ".join([first.family, *(f"{name} {first[name]}" for name in axes), first.variant])
        cure = "a report compares runs of one configuration: "
        of_frame = f"keep one, as scores[scores.run_id != {same.iloc[-1]!r}]"
        cure += of_frame if origin == "the data frame" else "move the others out of the folder"
        raise UsageError(f"{origin}: {at} seed {first.seed} has {len(same)} runs ({', '.join(same)}); {cure}")


def task_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep each task's primary metric, so that (run, benchmark, task, head) is unique.

    Where runs or heads differ in what is primary, it is what most of them say, so that one task's scores are
    always of one metric. What is no percentage may have a metric in each family, as perplexities have.
    """
    in_percent = is_percent(rows["metric"]).to_numpy(bool)
    parts = [_headlines(rows[in_percent], []), _headlines(rows[~in_percent], ["family"])]
    return pd.concat([part for part in parts if len(part)] or parts[:1]).sort_index().reset_index(drop=True)


def _headlines(rows: pd.DataFrame, within: list[str]) -> pd.DataFrame:
    """Keep what most runs say of each task, within each family or over all."""
    keys = ["benchmark", "task", *within, "metric"]
    votes = rows[rows["primary"]].groupby(keys).size().reset_index(name="count")
    votes = votes.sort_values(["count", "metric"], ascending=[False, True], kind="stable")
    headlines = votes.drop_duplicates(["benchmark", "task", *within])[keys]
    marked = rows[keys].merge(headlines.assign(is_headline=True), how="left", on=keys)
    return rows[marked["is_headline"].notna().to_numpy()]


def run_scores(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Average each run's tasks of what ``normalise_rows`` returns, as ``mean_scores`` does."""
    return mean_scores(comparable_scores(rows))


def comparable_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the primary metric of every task that has a unit.

    Tasks of lm-eval and its like may have several: of those of one benchmark the percentages, where it has
    any.
    """
    scores = task_scores(
        rows[of_each(rows["metric"], lambda metric: suites.unit_of(metric) is not None).astype(bool)]
    )
    in_percent = is_percent(scores["metric"])
    is_foreign = of_each(
        scores["benchmark"], lambda name: str(name).startswith(suites.HARNESS_PREFIX)
    ).astype(bool)
    has_percent = in_percent.groupby(scores["benchmark"]).transform("any") if len(scores) else in_percent
    return scores[in_percent | ~(has_percent & is_foreign)].reset_index(drop=True)


def mean_scores(scores: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Average each run's tasks, unweighted, into one score per benchmark.

    A mean over other tasks is another quantity. So a task counts when more than half of the benchmark's runs
    have it, and a run counts when it has all of those tasks; whatever is left out is named.

    Args:
        scores: What ``comparable_scores`` returns.

    Returns:
        A table of run_id, family, variant, seed, benchmark, score, and sentences that name what was
        left out.
    """
    notes: list[str] = []
    means = [pd.DataFrame(columns=["family", "variant", "seed", "run_id", "score", "benchmark"])]
    for benchmark, of_benchmark in scores.groupby("benchmark", sort=True):
        table = of_benchmark.pivot_table(
            index=["family", "variant", "seed", "run_id"], columns="task", values="score"
        )
        # 4 of 5 runs have task x, one has y: the mean is over x, and the run without x is left out.
        common = table.columns[table.notna().mean() > 0.5]
        if common.empty:
            notes.append(f"{benchmark}: left out, most of its runs share no task")
            continue
        if len(rare := table.columns.difference(common)):
            notes.append(f"{benchmark}: task(s) {', '.join(rare)} left out of the mean, most runs lack them")
        complete = table[common].notna().all(axis=1)
        notes += [
            f"{benchmark}: run {run} left out, it has no score for {lacking}"
            for run, lacking in _lacking(table, table.loc[~complete, common])
        ]
        mean = table.loc[complete, common].mean(axis=1).rename("score").reset_index()
        means.append(mean.assign(benchmark=benchmark))
    return pd.concat(means[1:] or means, ignore_index=True), notes


def _lacking(table: pd.DataFrame, left_out: pd.DataFrame) -> Iterable[tuple[str, str]]:
    """Name runs, with their variant where several variants are those of one run, and the tasks they lack."""
    run_ids = left_out.index.get_level_values("run_id")
    if not table.index.get_level_values("run_id").is_unique:
        run_ids = run_ids + " (" + left_out.index.get_level_values("variant").map(str) + ")"
    for run, gaps in zip(run_ids, left_out.isna().to_numpy(), strict=True):
        yield str(run), ", ".join(left_out.columns[gaps])


def suite_means(rows: pd.DataFrame, items: pd.DataFrame | None = None) -> dict[str, float]:
    """Average one run's tasks of one benchmark, in percent, into the means that its suite's spec names.

    Args:
        rows: The rows of one run and one benchmark.
        items: The items of its tasks, for means over paradigms where a task has several.

    Returns:
        Name to value, the headline first; empty where nothing has a percentage, as for perplexity, and for
        tasks that no benchmark groups.
    """
    (benchmark,) = rows["benchmark"].unique()
    in_percent = rows[is_percent(rows["metric"])]
    if in_percent["task"].nunique() < 2 or benchmark == suites.UNGROUPED:
        return {}
    means = suites.SUITES[benchmark].means if benchmark in suites.SUITES else (suites.MEAN_OF_TASKS,)
    averaged = ((mean.of, _averaged(mean, in_percent, items)) for mean in means)
    return {f"mean of {len(part)} {of}": float(part.mean()) for of, part in averaged if len(part)}


def _averaged(mean: suites.MeanSpec, rows: pd.DataFrame, items: pd.DataFrame | None) -> pd.Series:
    """Return what a mean is over, in percent; nothing where that is not known."""
    if mean.over == "paradigm":
        if items is None:
            return pd.Series(dtype=float)
        counted = items if mean.tasks is None else items[items["task"].isin(mean.tasks)]
        return 100 * counted.groupby("paradigm")["correct"].mean()
    scores = task_scores(rows)
    if mean.tasks is not None:
        scores = scores[scores["task"].isin(mean.tasks)]
    return scores.groupby("group")["score"].mean() if mean.over == "group" else scores["score"]


def summary(tables: Sequence[pd.DataFrame]) -> str:
    """Return a table for each benchmark: tasks down, runs across, a suite's means below its tasks.

    Where one run was scored under several heads, they stand across; of several runs, each head has a table.
    A task's headline metric comes first.

    Args:
        tables: The rows of each run, in the order in which tasks and heads are to stand.
    """
    rows = pd.concat(tables)
    return "\n".join(
        f"{title}\n{_table(part, across)}\n"
        for benchmark in rows["benchmark"].unique()
        for title, part, across in _parts(benchmark, rows[rows["benchmark"] == benchmark])
    )


def _parts(benchmark: str, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Split a benchmark's rows into tables: title, rows, and the column that stands across."""
    heads, runs = rows["head"].unique(), rows["run_id"].unique()
    if len(heads) > 1 and len(runs) == 1:
        yield f"{benchmark}, {runs[0]}", rows, "head"
        return
    for head in heads:
        title = benchmark if heads.tolist() in ([NO_HEAD], [DEFAULT_HEAD]) else f"{benchmark}, head {head}"
        yield title, rows[rows["head"] == head], "run_id"


def _table(rows: pd.DataFrame, across: str) -> str:
    columns = list(rows[across].unique())
    table = rows.pivot(index=["task", "metric"], columns=across, values="score")
    table = table.loc[_headline_first(rows), columns]
    means = pd.DataFrame({name: suite_means(of_one) for name, of_one in rows.groupby(across, sort=False)})
    means.index = pd.MultiIndex.from_tuples([(name, "") for name in means.index], names=table.index.names)
    table = pd.concat([table, means]).rename_axis(columns=None)
    digits = table.index.get_level_values("metric").map(decimals)
    texts = [
        ["-" if pd.isna(score) else f"{score:.{places}f}" for score in scores]
        for places, scores in zip(digits, table.to_numpy(), strict=True)
    ]
    return pd.DataFrame(texts, index=table.index, columns=table.columns).to_string()


def _headline_first(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """List every task and metric in the order of the rows, but each task's headline metric first."""
    headlines = task_scores(rows).drop_duplicates("task").set_index("task")["metric"]
    keys = list(dict.fromkeys(zip(rows["task"], rows["metric"], strict=True)))
    tasks = {task: place for place, task in enumerate(rows["task"].unique())}
    return sorted(keys, key=lambda key: (tasks[key[0]], key[1] != headlines[key[0]]))
