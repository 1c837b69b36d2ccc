"""Benchmarks compare like with like: the same pairs and decisions, the same parameters."""

import re
import subprocess
import sys

import pytest


def run(*words: str) -> tuple[str, dict[str, list[str]]]:
    """What a benchmark prints, and the cells of each case in its table."""
    command = [sys.executable, "-m", *words]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    rows = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("| ")]
    return out, {case: cells for case, *cells in rows[2:]}


@pytest.mark.ci
@pytest.mark.usefixtures("shared_data")
def test_the_whole_job_is_done_by_both_and_scores_alike() -> None:
    cases = ["gelu", "trainer@no"]
    out, table = run("benchmarks.whole_job", "--smoke", "--rounds", "1", "--cases", *cases)
    ((apart, others),) = re.findall(
        r"134 pairs, by both: (\S+) nats apart at most, other decisions: (\d+)", out
    )
    assert float(apart) < 1e-3
    assert others == "0"
    assert list(table) == cases
    for *spent, total, _, _, peak_mb, blimp, glue in (map(float, cells) for cells in table.values()):
        assert sum(spent) == pytest.approx(total, abs=0.1)
        assert min(*spent[1:], peak_mb / 100) > 0.1
        assert 30 < blimp < 70 < glue + 70 < 170


@pytest.mark.ci
def test_a_step_of_t5_has_a_stock_model_beside_it() -> None:
    words = ("configs/tiny-t5.yaml", "--rounds", "1", "--cases", "trainer-packed", "gelu")
    _, table = run("benchmarks.pretrain", *words)
    stock, ours = table.values()
    assert stock[0] == ours[0]
    assert min(float(cells[-1]) for cells in table.values()) > 0
