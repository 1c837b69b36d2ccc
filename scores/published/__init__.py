"""The published tables that own scores are set beside: small CSV files that ship with the package.

All have one schema, in this project's names and units: ``family`` (a model type of transformers, or what the
source calls a model that is none), ``variant`` and ``head`` (empty: the source has one, whichever it is),
``benchmark``, ``task`` (``all``: a mean over the benchmark's tasks), ``metric``, ``seed`` (empty: not
printed), and ``score``, in percent unless the metric says otherwise. README.md beside them says where each is
from.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from base.errors import UsageError, unknown_name

PublishedSource = Literal["thesis", "fr-kan", "swipe"]
"""Sources whose tables ship."""
COMPARED: Mapping[PublishedSource, tuple[str, ...]] = {
    "thesis": ("all-seeds", "table5"),
    "fr-kan": ("table3", "table6", "table4", "table5", "notebooks"),
    "swipe": ("table6", "table2", "table4", "table5", "table3"),
}
"""Tables of a source whose scores stand beside own ones; of what several have, the first counts."""
CITED: Mapping[PublishedSource, str] = {
    "thesis": "the source study's public notebook and its Table 5 (Ignijić 2024)",
    "fr-kan": "Al Imran and Ishmam 2024 (arXiv:2408.08803) and their notebooks",
    "swipe": "Wang et al. 2023 (arXiv:2304.01638)",
}
FOLDER = Path(__file__).parent
_OF_RUNS: PublishedSource = "thesis"
"""The source whose tables of scores have a row for each run."""
_COLUMNS = ["family", "variant", "head", "benchmark", "task", "metric", "seed", "score"]


def shipped_table(source: Path) -> Path:
    """Return the file of a shipped table named as ``thesis:table5``; any other path as it is.

    Raises:
        UsageError: For a table of a known source that does not ship, or has no scores of single runs.
    """
    name, colon, table = str(source).partition(":")
    if not colon or name not in get_args(PublishedSource) or source.exists():
        return source
    if name != _OF_RUNS:
        raise UsageError(
            f"{source}: this source printed no single runs, so no report can be made of it; set own scores "
            f"beside it: ffn-ablations report SOURCE --published {name}"
        )
    if table not in COMPARED[_OF_RUNS]:
        raise unknown_name("published table", str(source), [f"{name}:{each}" for each in COMPARED[_OF_RUNS]])
    return FOLDER / f"{name}-{table}.csv"


@lru_cache
def read_published(source: str) -> pd.DataFrame:
    """Return the scores of a source that own ones can stand beside, each of one table only.

    Returns:
        Columns family, variant, head, benchmark, task, metric, seed, score, table.

    Raises:
        UsageError: For an unknown source.
    """
    if source not in COMPARED:
        raise unknown_name("published source", source, get_args(PublishedSource))
    tables = [read_table(source, table).assign(table=table) for table in COMPARED[source]]
    rows = pd.concat(tables, ignore_index=True)
    key = ["family", "variant", "head", "benchmark", "task", "metric"]
    return rows[rows["table"] == rows.groupby(key)["table"].transform("first")].reset_index(drop=True)


def read_table(source: str, table: str) -> pd.DataFrame:
    """Return one shipped table; text but for ``score``."""
    rows = pd.read_csv(FOLDER / f"{source}-{table}.csv", dtype=str, keep_default_na=False)
    return rows[_COLUMNS].astype({"score": float})
