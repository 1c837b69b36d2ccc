"""What people write in tables: means with spreads, capitals, names of seeds, and scales of their own."""

from pathlib import Path
from typing import Any

import pytest

from base.errors import UsageError
from report.inputs.sources import Source, read_source
from report.request import Request
from tests.cases import listed
from tests.unit.report.studies import analysed


def source(tmp_path: Path, text: str, **request: Any) -> Source:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    return read_source(tmp_path / "a.csv", Request(**request))


@pytest.mark.parametrize(("cell", "is_mean"), listed(__file__, "cells with spreads"))
@pytest.mark.parametrize(
    "header", ["model,seed,MyBench,n", "model,seed,accuracy,params", "model,seed,score,benchmark"]
)
def test_a_mean_with_its_spread_is_no_run(cell: str, is_mean: bool, header: str, tmp_path: Path):
    name = header.split(",")[2]
    is_found = name == "score" or (name == "accuracy" and is_mean)
    flags = {} if is_found else {"scores": (name,)}
    with pytest.raises(UsageError, match="is not a number") as told:
        source(tmp_path, f"{header}\ngelu,1,{cell},3\nkan,1,{cell},3\n", **flags)
    assert ("one row a run" in str(told.value)) == is_mean


@pytest.mark.parametrize("cells", [("1", "2"), ("seed1", "seed2"), ("Seed 1", "Seed 2"), ("s1", "run_2")])
@pytest.mark.parametrize("separator", [",", "|", "\t"])
def test_seeds_by_number_or_name_under_a_line_of_comment(cells, separator, tmp_path):
    rows = [["Variant", "SEED", "Acc"], ["gelu", cells[0], "70"], ["gelu", cells[1], "71"]]
    found = source(tmp_path, "# of May\n" + "\n".join(map(separator.join, rows)))
    assert list(zip(found.rows.seed, found.rows.score, strict=True)) == [(1, 70), (2, 71)]


MIXED = "variant,seed,acc,blimp\n" + "".join(
    f"{v},{s},{(level + s) / 100},{level + s}\n"
    for v, level in (("gelu", 70), ("kan", 60))
    for s in (1, 2, 3)
)


def test_a_scale_may_be_said_of_one_metric(tmp_path: Path):
    (tmp_path / "a.csv").write_text(MIXED)
    with pytest.raises(UsageError, match="--scale acc=fraction"):
        analysed(tmp_path / "a.csv")
    for scale in (("acc=fraction",), ("fraction", "blimp=percent")):
        runs = analysed(tmp_path / "a.csv", scale=scale).runs
        means = runs.groupby([runs.benchmark.astype(str), "variant"]).score.mean()
        assert means.to_dict() == pytest.approx(
            {(b, v): x for b in ("acc", "blimp") for v, x in MEANS.items()}
        )


MEANS = {"gelu": 72.0, "kan": 62.0}
