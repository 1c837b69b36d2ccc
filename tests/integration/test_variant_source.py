"""A variant that is edited after its runs were trained: what every command says."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest

from base.errors import UsageError
from base.records import peek_record
from ffn_variants import FFN_VARIANTS
from ffn_variants.source_fingerprint import source_fingerprint
from ffn_variants.variants.activations import PerChannel, thesis_swish
from pretrain.resolution import load_config
from pretrain.training.dry_run import describe_run
from pretrain.training.training_run import train

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64", "--ffn", "swish"),
    *("--model.hidden-size", "16", "--model.intermediate-size", "32", "--model.num-hidden-layers", "1"),
    *("--optim.max-steps", "4", "--train.save-steps", "2", "--train.no-torch-compile"),
]


@pytest.fixture
def other_formula(monkeypatch):
    """Have ``swish`` compute something else from now on."""

    def change(**fields) -> None:
        spec = dataclasses.replace(
            FFN_VARIANTS["swish"], build=lambda width, init: PerChannel(thesis_swish, width, init), **fields
        )
        monkeypatch.setitem(FFN_VARIANTS, "swish", spec)

    return change


@pytest.mark.ci
def test_a_finished_run_is_not_passed_off_as_the_new_formula_s(tmp_path, other_formula, capsys):
    config = load_config(None, [*TINY, "--runs-dir", str(tmp_path)])
    path, before = train(config), source_fingerprint("swish")
    for name in ("provenance.json", "COMPLETED"):
        assert peek_record(path / name)["variant_source"] == before
    assert json.loads((path / "model/config.json").read_text())["ffn_source"] == before
    capsys.readouterr()
    assert train(config) == path
    assert "is finished; nothing to do" in capsys.readouterr().out

    other_formula()
    now = source_fingerprint("swish")
    with pytest.raises(UsageError) as refused:
        train(config)
    assert str(refused.value) == (
        f"{path} was trained through another 'swish' (source {before}, now {now}); remove the folder to "
        "train it anew, restore that source, register the new formula under another name, or, if both "
        f"compute the same, add '{before}' to earlier_sources of its spec"
    )

    assert f"{path} (was trained through another 'swish'" in describe_run(config)

    other_formula(earlier_sources=(before,))
    assert train(config) == path  # each cure helps
    other_formula()
    shutil.rmtree(path)
    train(config)
    assert peek_record(path / "provenance.json")["variant_source"] == now


def test_an_unfinished_run_is_not_continued_with_another_formula(tmp_path, other_formula):
    config = load_config(None, [*TINY, "--runs-dir", str(tmp_path)])
    path = train(config)
    (path / "COMPLETED").unlink()
    shutil.rmtree(path / "model")
    before = sorted(path.rglob("*"))
    other_formula()
    with pytest.raises(UsageError, match="was trained through another 'swish'"):
        train(config)
    assert sorted(path.rglob("*")) == before


@pytest.mark.ci
def test_a_run_of_another_formula_is_not_scored_and_the_others_are(make_run, evaluate, other_formula, capsys):
    swish, gelu = make_run(), make_run(ffn="gelu")
    before = source_fingerprint("swish")
    pairs = ("--suites", "embedded-pairs", "--max-pairs", "4")
    assert evaluate(swish, *pairs) == 0
    rows = (swish / "eval/rows.parquet").read_bytes()
    other_formula()
    capsys.readouterr()
    assert evaluate(swish, *pairs) == 0
    told = capsys.readouterr()
    assert f"was trained through another 'swish' (source {before}, now" in told.out + told.err
    # In this process, as another one would not know of the changed formula.
    one_process = ("--suites", "embedded-pairs", "--max-pairs", "5", "--workers", "1")
    assert evaluate(swish, gelu, *one_process) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert line.startswith(f"error: {swish} was trained through another 'swish'")
    assert (swish / "eval/rows.parquet").read_bytes() == rows
    assert (gelu / "eval/rows.parquet").is_file()


@pytest.mark.slow
def test_a_study_names_the_cells_of_another_formula_and_goes_on_with_the_others(
    tmp_path, write_study, run_study, other_formula, capsys
):
    file = write_study(tmp_path, variants=["gelu", "swish"], config={"optim": {"max_steps": 2}})
    assert run_study(file, "--no-report") == 0  # the command below writes one
    other_formula()
    capsys.readouterr()
    assert run_study(file) == 1
    told = capsys.readouterr().out.splitlines()
    assert "4 cells in" in told[0]
    assert told[0].endswith("2 done, 2 failed")
    (line,) = (line for line in told if line.startswith("not done"))
    assert line.startswith(
        "not done: gpt_neo/swish/seed1 and 1 more: failed: was trained through another 'swish'"
    )
    assert "2 of 4 cells done" in told
    assert run_study(file, "--dry-run") == 0
    assert capsys.readouterr().out.count("  failed    gpt_neo/swish/") == 2
