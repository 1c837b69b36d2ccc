"""The published tables that ship, against the files that they were taken from and against the text."""

from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from base.errors import UsageError
from eval.classification.heads import count_parameters
from ffn_variants import FFN_VARIANTS
from scores.head_descriptions import head_name, parse_head
from scores.published import FOLDER, PublishedSource, read_published, read_table, shipped_table
from tests.cases import listed

COLUMNS = ["family", "variant", "head", "benchmark", "task", "metric", "seed", "score"]
SOURCES = get_args(PublishedSource)
TABLES = sorted(path.stem for path in FOLDER.glob("*.csv"))
NOT_HEADS = ("random", "lime", "attention", "supervised")  # ways to choose or label segments
TASKS = {name: f"{name.lower()}-pooled" for name in ("DBpedia", "IMDb", "TREC-50", "YELP-full")}
OTHERS = {"AgNews": "ag-news", "Papluca": "language-identification", "SST-5": "sst5"}
TASKS |= {name: f"{task}-pooled" for name, task in OTHERS.items()}


def table(name: str) -> pd.DataFrame:
    source = next(source for source in SOURCES if name.startswith(f"{source}-"))
    return read_table(source, name.removeprefix(f"{source}-"))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_one_schema_and_this_projects_names(name: str) -> None:
    rows = table(name)
    assert list(rows.columns) == COLUMNS
    assert not rows.duplicated(COLUMNS[:-1]).any()
    assert rows.score.notna().all()
    assert set(rows.variant) <= {"", "grouped-chebyshev", *FFN_VARIANTS}
    heads = {head for head in rows["head"] if head and head.split()[0] not in NOT_HEADS}
    assert heads == {head_name(head) for head in heads}
    assert name.rpartition("-")[0] in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert (FOLDER / f"{name}.csv").stat().st_size < 15_000


@pytest.mark.parametrize(("name", "file"), [("table5", "table5"), ("all-seeds", "all_seeds")])
def test_the_source_studys_scores_are_those_of_the_shared_files_in_their_order(shared_data, name, file):
    found = read_table("thesis", name)
    expected = pd.read_csv(shared_data / "thesis" / f"{file}.csv", keep_default_na=False)
    names = {"swish": "thesis-swish", "kan": "thesis-kan"}
    assert list(found.variant) == list(expected.variant.replace(names))
    assert list(found.benchmark) == list(expected.benchmark.replace("blimp", "babylm23"))
    for column in ("family", "seed", "score"):
        assert list(found[column].astype(str)) == list(expected[column].astype(str))


@pytest.mark.parametrize(
    ("name", "metrics"), [("3", ("accuracy", "macro_f1")), ("6", ("micro_f1", "cohen_kappa"))]
)
def test_fr_kans_scores_are_those_of_the_shared_files(shared_data: Path, name: str, metrics: tuple) -> None:
    expected = pd.read_csv(shared_data / "sources" / f"fr-kan-table{name}.csv")
    found = read_table("fr-kan", f"table{name}").set_index(["family", "head", "task", "metric"]).score
    assert len(found) == 2 * len(expected) == 196
    for row in expected.to_dict("records"):
        for metric in metrics:
            place = row["model"].lower(), f"{row['head']} frozen", TASKS[row["dataset"]], metric
            assert found[place] == pytest.approx(100 * row[metric])


def test_fr_kans_notebooks_print_its_tables_and_what_no_table_has(shared_data: Path) -> None:
    shared = pd.read_csv(shared_data / "sources" / "fr-kan-notebooks.csv").dropna(subset="test")
    found = read_table("fr-kan", "notebooks")
    assert sorted(found.score) == sorted((100 * shared.test).round())
    place = ["family", "head", "task", "metric"]
    notebooks = rest = found.set_index(place).score
    for name, count in {"table3": 97, "table4": 14, "table5": 35}.items():
        table = read_table("fr-kan", name).set_index(place).score
        both = pd.concat([table, notebooks], axis=1, join="inner")
        assert len(both) == count
        assert ((both.iloc[:, 0] - both.iloc[:, 1]).abs() < 0.51).all()
        rest = rest.drop(both.index, errors="ignore")
    heads = [head.split()[1] for _, head, _, _ in rest.index]
    assert sorted(heads) == ["activation=none"] * 7 + ["grid_size=7", "grid_size=9"]


def test_the_space_models_scores_are_those_of_the_shared_file_and_its_heads_as_large_as_ours(shared_data):
    expected = pd.read_csv(shared_data / "sources" / "space-results.csv")
    found = pd.concat([read_table("space", table) for table in ("results", "epochs15")])
    for metric, column in (("accuracy", "accuracy"), ("macro_f1", "f1_macro")):
        assert sorted(found[found.metric == metric].score) == pytest.approx(sorted(100 * expected[column]))
    for row in found[(found.metric == "parameters") & found["head"].str.startswith("space")].itertuples():
        assert count_parameters(parse_head(row.head), 768, 3 if row.task == "hatexplain" else 2) == row.score


def test_a_score_stands_once_and_the_later_table_of_the_source_study_goes_first() -> None:
    rows = read_published("thesis")
    gelu = rows[(rows.family == "roberta") & (rows.variant == "gelu") & (rows.benchmark == "glue")]
    assert set(gelu.table) == {"all-seeds"}
    assert float(gelu[gelu.seed == "42"].score.iloc[0]) == 56.2  # Table 5 prints 49.22
    kan = rows[rows.variant == "thesis-kan"]
    assert set(kan[kan.family == "roberta"].table) == {"table5"}
    assert set(kan[kan.family == "gpt_neo"].table) == {"all-seeds"}
    for source in SOURCES:
        one = read_published(source)
        assert not one.duplicated(COLUMNS[:-1]).any()


def test_a_shipped_table_has_a_name_and_other_paths_stay(tmp_path: Path) -> None:
    assert shipped_table(Path("thesis:table5")) == FOLDER / "thesis-table5.csv"
    for path in (tmp_path / "thesis", Path("thesis-table5.csv"), Path("other:table5")):
        assert shipped_table(path) == path
    with pytest.raises(UsageError, match="unknown published source 'thesi'; did you mean 'thesis'"):
        read_published("thesi")


@pytest.mark.parametrize(("name", "message"), listed(__file__, "refused tables"))
def test_a_table_that_is_no_source_of_a_report_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        shipped_table(Path(name))
