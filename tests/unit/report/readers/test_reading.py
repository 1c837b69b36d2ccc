"""Names of runs: what in them is the variant, and what the seed."""

from __future__ import annotations

import pytest

from report.readers.reading import split_names


@pytest.mark.parametrize(
    ("names", "template", "expected"),
    [
        (["gelu-seed1", "kan-seed12"], None, [("gelu", "1"), ("kan", "12")]),
        (["out/gelu_s1", "out/kan_s2"], None, [("gelu", "1"), ("kan", "2")]),
        (["relus3", "kan"], None, [("relus3", ""), ("kan", "")]),
        (["runs/a/gpt_neo/gelu/seed1-0a1b2c3d/model"], None, [("gelu", "1")]),
        (["x/learnable-gelu/seed_7"], None, [("learnable-gelu", "7")]),
        (["a/b", "c/b"], None, [("a/b", ""), ("c/b", "")]),
        (["me/9m-learnable-gelu.3"], "9m-{variant}.{seed}", [("learnable-gelu", "3")]),
        (["a_b_3_x", "c_4_y"], "{variant}_{seed}_{_}", [("a_b", "3"), ("c", "4")]),
        (["x/1M/kan/2"], "{size}/{variant}/{seed}", [("kan", "2")]),
    ],
)
def test_names(names: list[str], template: str | None, expected: list[tuple[str, str]]):
    read, _ = split_names(names, template, ["size"], "x")
    seeds = read.seed if "seed" in read else [""] * len(read)
    assert list(zip(read.variant, seeds, strict=True)) == expected
