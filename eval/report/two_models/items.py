"""How one model did on every item: of a run of this project, or of what lm-eval logged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from base.errors import UsageError
from eval.report.readers.lm_eval import RESULTS, SAMPLES, read_items, read_results, task_of
from eval.report.scores.item_outcomes import ID_COLUMNS
from eval.results.rows import read_table, some_of
from eval.results.store import items_damage
from eval.suites.lm_eval_metrics import PERCENT_METRICS, is_number, row_metric, row_score
from eval.suites.registry import HARNESS_PREFIX
from pretrain.run.folders import RunFolder

ITEM_KEY = ("benchmark", "metric", "task", "item")
ITEM_COLUMNS = (*ITEM_KEY, "group", "score", "weight", "is_share", "text")
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class ModelItems:
    """One model's items.

    Attributes:
        name: As a reader knows it.
        path: Where they are from.
        items: Columns ``ITEM_COLUMNS``: ``score`` in percent, or in the unit of the metric; ``weight`` of an
            item within its benchmark; ``is_share`` whether it is right or wrong; ``text`` what tells one item
            from another of the same id.
        training: Family, variant and seed of a run; empty where that is not known.
    """

    name: str
    path: Path
    items: pd.DataFrame
    training: tuple[str, ...] = ()


def read_model_items(path: Path) -> ModelItems:
    """Read the items of one model.

    Args:
        path: A run's folder, or the folder (or one file) with the ``samples_*.jsonl`` of one model.

    Raises:
        UsageError: If there are none, those of several models, or they are damaged.
    """
    run = RunFolder(path)
    if run.is_run or run.is_scored:
        return _of_run(run)
    files = [path] if path.is_file() else sorted(path.rglob(SAMPLES.patterns[0]))
    if not files:
        raise UsageError(
            f"{path} holds no items; give a run that was scored (ffn-ablations eval RUN), or the folder that "
            "lm-eval --log_samples wrote"
        )
    folders = {file.parent for file in files}
    if len(folders) > 1:
        names = some_of(sorted(str(folder) for folder in folders), SHOWN)
        raise UsageError(f"{path} holds items of {len(folders)} models; give one of them: {names}")
    items = pd.concat([_of_samples(file) for file in _newest(files)], ignore_index=True)
    return ModelItems(name=files[0].parent.name, path=path, items=_checked(items, path))


def _of_run(run: RunFolder) -> ModelItems:
    files = sorted(run.items_dir.glob("*.parquet"))
    tables = []
    for file in files:
        if wrong := items_damage(run, file.stem):
            raise UsageError(f"{file} {wrong}; score the run again: ffn-ablations eval {run.path}")
        tables += list(_of_table(file))
    if not tables:
        raise UsageError(f"{run.path} has no items; score it first: ffn-ablations eval {run.path}")
    family, variant, name = run.run_id.split("/")
    seed = name.partition("-")[0]
    return ModelItems(
        name=f"{family} {variant} {seed}",
        path=run.path,
        items=_checked(pd.concat(tables, ignore_index=True), run.path),
        training=(family, variant, seed),
    )


def _of_table(file: Path) -> Iterator[pd.DataFrame]:
    """Yield each metric of a file of items: right or wrong, odds of pairs in nats, bits per byte of texts."""
    table = read_table(file).to_pandas()
    if {"label", "prediction"} <= set(table.columns):
        table = _classified(table)
    table = table.assign(
        benchmark=file.stem,
        task=table["task"].astype(str),
        item=_ids(table),
        group=table["phenomenon"] if "phenomenon" in table.columns else "",
        text="",
        is_share=False,
    )
    if "head" in table.columns:
        table["benchmark"] = file.stem + " (" + table["head"].astype(str) + ")"
    if "correct" in table.columns:
        share = bool(table["correct"].isin([0.0, 1.0]).all())
        right = 100 * table["correct"]
        yield table.assign(metric="accuracy", score=right, is_share=share, weight=_macro(table))
    if {"margin", "score_good"} <= set(table.columns):
        yield table.assign(metric="log_odds", score=table["margin"], weight=_macro(table))
    if {"log_likelihood", "num_bytes"} <= set(table.columns):
        bits = -table["log_likelihood"] / (math.log(2) * table["num_bytes"])
        yield table.assign(metric="bits_per_byte", score=bits, weight=table["num_bytes"].astype(float))


def _classified(table: pd.DataFrame) -> pd.DataFrame:
    """Return how often each example was right, over the seeds of fine-tuning."""
    table = table.assign(correct=(table["label"] == table["prediction"]).astype(float))
    keys = [name for name in ("task", "idx", "head") if name in table.columns]
    return table.groupby(keys, sort=False)["correct"].mean().reset_index().rename(columns={"idx": "item_id"})


def _ids(table: pd.DataFrame) -> pd.Series:
    named = next((name for name in ID_COLUMNS if name in table.columns), None)
    ids = table[named].astype(str) if named else pd.Series("", table.index)
    # Ids of one task may repeat: then its items pair up in the order of the file.
    return ids + "#" + table.assign(_id=ids).groupby(["task", "_id"]).cumcount().astype(str)


def _macro(table: pd.DataFrame) -> pd.Series:
    """Weigh items so that each task of a benchmark counts the same."""
    return 1.0 / table.groupby(["benchmark", "task"])["task"].transform("size")


def _newest(files: Iterable[Path]) -> list[Path]:
    """Keep the last file of each task, as names end with dates."""
    return list({task_of(file): file for file in files}.values())


def _of_samples(file: Path) -> pd.DataFrame:
    task, benchmark = task_of(file), _benchmark(file)
    rows = [
        (
            benchmark,
            row_metric(metric, item.get("filter", "none")),
            task,
            str(item["doc_id"]),
            "",
            row_score(metric, float(item[metric])),
            1.0,
            metric in PERCENT_METRICS and item[metric] in (0, 1),
            f"{item.get('doc_hash', '')}{item.get('target_hash', '')}",
        )
        for item in read_items(file)
        for metric in item["metrics"]
        if is_number(item[metric])
    ]
    if not rows:
        raise UsageError(f"{file} has no metric that is a mean over items; compare another task")
    return pd.DataFrame(rows, columns=list(ITEM_COLUMNS))


def _benchmark(file: Path) -> str:
    """Find the group of a task in the results that lie beside its samples; the task without them."""
    task = task_of(file)
    for results in sorted(file.parent.glob(RESULTS.patterns[0]), reverse=True):
        for result in read_results(results) or ():
            if result.task == task:
                return result.benchmark
    return HARNESS_PREFIX + task


def _checked(items: pd.DataFrame, path: Path) -> pd.DataFrame:
    items = items[list(ITEM_COLUMNS)]
    of_metric = items.groupby(["benchmark", "metric"])
    # Samples of several tasks come file by file: weigh them only when all are there.
    sizes = items.groupby(["benchmark", "metric", "task"])["task"].transform("size")
    items = items.assign(
        weight=items["weight"].where(items["metric"] == "bits_per_byte", 1.0 / sizes),
        is_share=of_metric["is_share"].transform("all"),
    )
    if items["score"].isna().any():
        raise UsageError(f"{path}: an item of {items['task'][items['score'].isna()].iloc[0]} has no score")
    if (twice := items.duplicated(list(ITEM_KEY))).any():
        first = items[twice].iloc[0]
        raise UsageError(f"{path}: item {first['item']} of {first['task']} is there twice")
    return items
