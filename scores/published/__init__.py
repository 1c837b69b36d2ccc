"""What sources published: tables that own scores are set beside, and claims that are asked of own runs.

**Tables** are small CSV files that ship with the package. All have one schema, in this project's names and
units: ``family`` (a model type of transformers, or what the source calls a model that is none), ``variant``
and ``head`` (empty: the source has one, whichever it is), ``benchmark``, ``task`` (``all``: a mean over the
benchmark's tasks), ``metric``, ``seed`` (empty: not printed), and ``score``, in percent unless the metric
says otherwise. README.md beside them says where each is from.

**Claims** are in one YAML file a source, with its recipe, which tables it has, and which study asks each
claim again. ``ffn-ablations replicate`` shows them (``report.claims``).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import pandas as pd
from pydantic import Field

from base.config_input import read_config
from base.errors import UsageError, unknown_name
from base.sections import Section

PublishedSource = Literal["thesis", "fr-kan", "swipe", "space", "kat5", "kan-lm-study"]
"""Sources whose claims and tables ship."""
FOLDER = Path(__file__).parent
_COLUMNS = ["family", "variant", "head", "benchmark", "task", "metric", "seed", "score"]
Verdict = Literal["reproduces", "contradicts", "cannot tell", "not run here"]


class Answer(Section):
    """What asks a claim again: a study of this project, or a command whose result is recorded here."""

    study: str = ""
    """Empty for another command."""
    outcomes: tuple[str, ...] = ()
    """Of the study's report, each of which answers by itself."""
    contrast: str = ""
    """As the study names the levels, where that is not as the source's tables do."""
    command: str = ""
    """What brings it, where that is not ``ffn-ablations study run STUDY``."""
    text: str = ""
    """Of another command: numbers and where they stand, or what it needs."""
    verdict: Verdict | None = None
    """The same: what these say."""


class Claim(Section):
    """One claim of a source."""

    claim: str
    where: str
    """Table, figure or section."""
    says: Literal["better", "worse", "equal", "at chance"] | None = None
    """What the first group of the contrast is; None for a claim that is about no difference of scores."""
    contrast: str = ""
    """Variants or heads, ``a+b - c+d``, as the source's tables name them."""
    rows: dict[str, str] = Field(default_factory=dict)
    """Column of the tables to the value that rows must have; ``table`` is one of the columns."""
    printed: float | None = None
    """The difference as the source has it, in the unit of the scores; None where it prints scores alone."""
    answers: tuple[Answer, ...] = Field(min_length=1)


class SourceFile(Section):
    """What the YAML file of a source says."""

    cited: str
    code: str
    """Where the authors' code was read, and when."""
    recipe: tuple[str, ...]
    """What was trained on what, and how; a fact each."""
    tables: tuple[str, ...] = ()
    """Those whose scores stand beside own ones; of what several have, the first counts."""
    runs: tuple[str, ...] = ()
    """Tables with a row for each run, of which a report can be made."""
    claims: tuple[Claim, ...]


@lru_cache
def read_source_file(source: str) -> SourceFile:
    """Read the claims of a source.

    Raises:
        UsageError: For an unknown source.
    """
    if source not in get_args(PublishedSource):
        raise unknown_name("published source", source, get_args(PublishedSource))
    return read_config(FOLDER / f"{source}.yaml", SourceFile)


def shipped_table(source: Path) -> Path:
    """Return the file of a shipped table named as ``thesis:table5``; any other path as it is.

    Raises:
        UsageError: For a table of a known source that does not ship, or has no scores of single runs.
    """
    name, colon, table = str(source).partition(":")
    if not colon or name not in get_args(PublishedSource) or source.exists():
        return source
    runs = read_source_file(name).runs
    if not runs:
        raise UsageError(
            f"{source}: this source printed no single runs, so no report can be made of it; set own scores "
            f"beside it: ffn-ablations report SOURCE --published {name}"
        )
    if table not in runs:
        raise unknown_name("published table", str(source), [f"{name}:{each}" for each in runs])
    return FOLDER / f"{name}-{table}.csv"


@lru_cache
def read_published(source: str) -> pd.DataFrame:
    """Return the scores of a source that own ones can stand beside, each of one table only.

    Returns:
        Columns family, variant, head, benchmark, task, metric, seed, score, table.

    Raises:
        UsageError: For an unknown source.
    """
    tables = [read_table(source, table).assign(table=table) for table in read_source_file(source).tables]
    if not tables:
        return pd.DataFrame(columns=[*_COLUMNS, "table"])
    rows = pd.concat(tables, ignore_index=True)
    key = ["family", "variant", "head", "benchmark", "task", "metric"]
    return rows[rows["table"] == rows.groupby(key)["table"].transform("first")].reset_index(drop=True)


def read_table(source: str, table: str) -> pd.DataFrame:
    """Return one shipped table; text but for ``score``."""
    rows = pd.read_csv(FOLDER / f"{source}-{table}.csv", dtype=str, keep_default_na=False)
    return rows[_COLUMNS].astype({"score": float})
