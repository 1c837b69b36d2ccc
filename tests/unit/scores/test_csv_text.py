"""Tables that a spreadsheet opens without computing anything."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pytest

from report.inputs.sources import read_source
from scores.rows import to_csv, unmark

TEXTS = ["=1+1", "+a", "-b", "@c", "\tx", "'=1", "'plain", "plain", "", "a=b", "relu - gelu"]


def test_what_a_spreadsheet_would_compute_is_marked_and_read_back_equal():
    table = pd.DataFrame({"text": TEXTS, "number": [-1.5 * i for i in range(len(TEXTS))]})
    written = to_csv(table)
    cells = list(csv.reader(io.StringIO(written)))[1:]
    assert not [text for text, _ in cells if text[:1] in tuple("=+-@\t")]
    assert [float(number) for _, number in cells] == table["number"].tolist()
    again = pd.read_csv(io.StringIO(written), dtype={"text": str}, keep_default_na=False)
    assert unmark(again)["text"].tolist() == TEXTS


def test_a_column_of_numbers_with_gaps_stays_one():
    table = pd.DataFrame({"low": pd.Series([-0.25, None], dtype=object)})
    assert to_csv(table) == pd.DataFrame({"low": [-0.25, None]}).to_csv(index=False)


@pytest.mark.parametrize("name", ["=relu", "@relu"])
def test_a_table_of_ours_is_a_source_again(tmp_path, name):
    rows = [("gpt_neo", v, s, "blimp", 50.0 + s) for v in ("gelu", name) for s in (1, 2)]
    table = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    (tmp_path / "scores.csv").write_text(to_csv(table), encoding="utf-8")
    assert set(read_source(tmp_path / "scores.csv").rows["variant"]) == {"gelu", name}
