"""Equal budgets: the width and its way through config, plan, provenance and report; counts of FLOPs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ffn_variants import (
    FAMILIES,
    FFN_VARIANTS,
    FFNSpec,
    UsageError,
    build_ffn,
    build_model,
    count_flops,
    count_parameters,
    matching_width,
)
from ffn_variants.budget import TOLERANCE
from ffn_variants.list_variants import TableArgs, main, table_rows
from ffn_variants.models.layers import ffn_modules
from pretrain.config import RunConfig
from pretrain.model.build import build, cost_facts
from pretrain.resolution import load_config, resolve
from pretrain.run.run_folder import read_run, run_dir, write_config
from pretrain.training.dry_run import describe_run
from pretrain.training.training_run import train
from report.inputs.sources import read_source
from report.write import write_report
from scores.rows import ROW_COLUMNS, write_rows
from slurm.study.study import load_study
from tests.cases import diagonal_is_fast

D, F = 64, 128
WIDTHLESS = "spline-kan"
NOT_MATCHABLE = (WIDTHLESS, "no-ffn")
"""Their cost does not depend on the width."""
MATCHABLE = [name for name in FFN_VARIANTS if name not in NOT_MATCHABLE]
# All that these do is elementwise, in no matrix product: the parameters that a token is multiplied with.
ELEMENTWISE = {
    "spline-kan": ("coefficients",),
    "wav-kan": ("weight",),
    "mlp-edge": ("inner_weight", "outer_weight"),
}

each_matchable = pytest.mark.parametrize("ffn", MATCHABLE)
each_family = pytest.mark.parametrize("family", FAMILIES)


def parameters(ffn: str, width: int, **options) -> int:
    """Learnable values of the module itself, not of its spec."""
    return sum(p.numel() for p in build_ffn(ffn, D, width, **options).parameters())


def counted_flops(run: Callable[[], object]) -> int:
    """What torch sees of matrix products."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops()


def ffn_flops(ffn: str, width: int, **options) -> int:
    """FLOPs per token of one FFN by torch's counter, over seven tokens; by its spec where that sees none."""
    if ffn in ELEMENTWISE:
        return FFN_VARIANTS[ffn].flops_per_token(D, width, **options)
    module, x = build_ffn(ffn, D, width, **options), torch.randn(7, D)
    return counted_flops(lambda: module(x)) // 7


# The width


@pytest.mark.parametrize("options", [{}, {"grid_size": 3, "spline_order": 2}, {"layers": "first"}])
@pytest.mark.ci
def test_options_decide_the_width_of_kan(options):
    width = matching_width("kan", options, D, F, "params")
    miss = [abs(parameters("kan", w, **options) - parameters("gelu", F)) for w in range(1, 2 * F)]
    assert width == 1 + miss.index(min(miss))


@each_matchable
@pytest.mark.parametrize(("budget", "cost"), [("params", parameters), ("flops", ffn_flops)])
@pytest.mark.ci
def test_no_other_width_is_nearer_to_the_baseline(ffn, budget, cost):
    width = matching_width(ffn, None, D, F, budget)
    target = cost("gelu", F)
    miss = abs(cost(ffn, width) - target)
    assert miss <= TOLERANCE * target
    for other in {*range(max(1, width - 3), width + 4), 1, F, 2 * F} - {width}:
        assert abs(cost(ffn, other) - target) >= miss, other


@pytest.mark.parametrize("budget", ["width", "params", "flops"])
def test_the_baseline_matches_itself(budget):
    assert matching_width("gelu", None, 48, 37, budget) == 37
    assert matching_width("gelu", None, 48, 37, budget, biases=False) == 37


def test_a_family_without_biases_is_matched_without_them():
    """T5's own FFN has 2 D F parameters."""
    assert matching_width("geglu", None, 48, 60, "params", biases=False) == 40  # 3 D F of its own, no bias
    torch.manual_seed(0)
    model = build(load_config(None, ["--family", "t5", "--ffn", "swish", "--ffn-budget", "params"]), 300)
    assert model.config.intermediate_size == 1023  # with the 1,023 factors of the activation


def test_a_budget_of_width_leaves_every_variant_alone():
    assert {matching_width(name, None, D, 77, "width") for name in FFN_VARIANTS} == {77}


@pytest.mark.parametrize(("budget", "number"), [("params", "2,560 parameters"), ("flops", "2,560 FLOPs")])
def test_a_variant_without_a_width_cannot_be_matched(budget, number):
    with pytest.raises(UsageError) as error:
        matching_width(WIDTHLESS, None, D, F, budget)
    message = str(error.value)
    assert message.startswith(f"FFN variant 'spline-kan' has {number}")
    assert "at any intermediate_size" in message
    assert message.endswith("set its ffn_budget to width")
    assert "\n" not in message


def test_a_baseline_below_the_smallest_width_cannot_be_matched():
    options = {"grid_size": 200}
    with pytest.raises(UsageError) as error:
        matching_width("kan", options, D, F, "params")
    nearest = f"comes no nearer than {parameters('kan', 1, **options):,} (intermediate_size 1)"
    assert nearest in str(error.value)
    assert "more than 5% off; choose other ffn_options" in str(error.value)


def test_unknown_names_are_told():
    with pytest.raises(UsageError, match="did you mean 'kan'"):
        matching_width("kann", None, D, F, "params")
    with pytest.raises(
        UsageError, match=r"unknown FFN budget 'parameters'; .*Available: width, params, active-params, flops"
    ):
        matching_width("kan", None, D, F, "parameters")  # pyrefly: ignore
    with pytest.raises(UsageError, match="did you mean 'grid_size'"):
        matching_width("kan", {"gridsize": 3}, D, F, "params")


class Grouped(nn.Module):
    """Three times the weights of a linear layer each way, in six groups of channels."""

    def __init__(self, hidden_size: int, intermediate_size: int):
        super().__init__()
        if intermediate_size % 6:
            raise UsageError(f"intermediate_size {intermediate_size} is no multiple of 6")
        self.weight = nn.Parameter(torch.zeros(3, hidden_size, intermediate_size))


@pytest.mark.parametrize("budget", ["params", "flops"])
def test_channels_in_groups_keep_the_width_a_multiple(monkeypatch, budget):
    spec = FFNSpec(
        name="grouped",
        kind="block",
        build=Grouped,
        formula="-",
        reference="-",
        multiply_adds=lambda d, f: 3 * d * f,
    )
    monkeypatch.setitem(FFN_VARIANTS, "grouped", spec)
    # 2 D 128 / (3 D) = 85.3, of which 84 is the nearest multiple of 6.
    assert matching_width("grouped", None, D, F, budget) == 84


# FLOPs


@pytest.mark.parametrize("ffn", FFN_VARIANTS)
def test_ffn_flops_are_those_torch_counts(ffn):
    expected = FFN_VARIANTS[ffn].flops_per_token(D, F)
    if ffn in ELEMENTWISE:
        # A token meets each of them once, in a product and a sum, but torch counts matrix products alone.
        named = build_ffn(ffn, D, F).named_parameters()
        multiplied = [p for name, p in named if name.rpartition(".")[2] in ELEMENTWISE[ffn]]
        assert expected == 2 * sum(p.numel() for p in multiplied) > 0
        module = build_ffn(ffn, D, F)
        assert counted_flops(lambda: module(torch.randn(7, D))) == 0
    assert ffn_flops(ffn, F) == expected


@pytest.mark.parametrize("options", [{"grid_size": 3, "spline_order": 2}, {"layers": "first"}])
def test_ffn_flops_follow_options(options):
    assert ffn_flops("kan", F, **options) == FFN_VARIANTS["kan"].flops_per_token(D, F, **options)


@each_family
@pytest.mark.parametrize("ffn", FFN_VARIANTS)
@pytest.mark.ci
def test_model_flops_are_those_torch_counts(family, ffn):
    # GPT-Neo's second layer is local: it too multiplies with the whole row, and masks what is too far away.
    rows, length = 2, 24
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": length + 1}
    model = build_model(
        family, ffn, hidden_size=D, intermediate_size=F, vocab_size=61, **sizes,
        **({"window_size": 8} if family == "gpt_neo" else {}),
    ).eval()  # fmt: skip
    model.set_attn_implementation("eager")
    ids = torch.randint(3, 61, (rows, length))
    # What T5's decoder reads is counted by the tokens of the encoder: a quarter of them here.
    decoder = {"decoder_input_ids": ids[:, : length // 4]} if family == "t5" else {}
    flops = count_flops(model, length, length // 4)
    seen = flops["total"] - (flops["ffn"] if ffn in ELEMENTWISE else 0)
    assert counted_flops(lambda: model(ids, **decoder)) == rows * length * seen
    num_ffns = 2 * (1 + 1 / 4) if family == "t5" else 2
    assert flops["ffn"] == num_ffns * FFN_VARIANTS[ffn].flops_per_token(D, F)
    # T5's decoder looks at its own tokens and at the encoder's.
    num_pairs = 2 * (length + (length / 4 + length) / 4) if family == "t5" else 2 * length
    assert flops["attention"] == num_pairs * 4 * D
    assert flops["total"] == flops["ffn"] + flops["attention"] + flops["other"]


# The configuration

YAML = """
model: {ffn: gelu, hidden_size: 64, intermediate_size: 128}
variants:
  kan: {model: {intermediate_size: 20}}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.yaml"
    path.write_text(YAML)
    return path


@each_matchable
@pytest.mark.parametrize("budget", ["params", "flops"])
@pytest.mark.ci
def test_resolved_config_holds_the_width_and_resolves_to_itself(base, tmp_path, ffn, budget):
    config = load_config(base, ["--ffn", ffn, "--ffn-budget", budget])
    width = matching_width(ffn, None, 64, 128, budget)
    assert config.model.intermediate_size == width
    assert config.model.paired_intermediate_size == (128 if width != 128 else None)
    assert resolve(config) == config
    write_config(tmp_path / "run", config)
    assert read_run(tmp_path / "run") == config


def test_the_base_width_is_that_of_the_baseline(base):
    def width(*flags: str) -> int:
        return load_config(base, ["--ffn", "kan", *flags]).model.intermediate_size

    budget = ("--ffn-budget", "params")
    assert width() == 20  # the YAML's own for kan
    assert width(*budget) == matching_width("kan", None, 64, 128, "params")
    wider = matching_width("kan", None, 64, 256, "params")
    assert width(*budget, "--model.paired-intermediate-size", "256") == wider > width(*budget)
    flags = ["--ffn", "fourier-kan", *budget, "--model.intermediate-size", "256"]
    expected = matching_width("fourier-kan", None, 64, 256, "params")
    assert load_config(base, flags).model.intermediate_size == expected


def test_a_flag_for_the_width_that_would_have_no_effect_is_refused(base):
    flag = "--model.intermediate-size"
    with pytest.raises(UsageError, match=r"size 9 has no effect: .*_size 128; give --model.pair") as error:
        load_config(base, ["--ffn", "kan", "--ffn-budget", "flops", f"{flag}=9"])
    assert "\n" not in str(error.value)
    assert load_config(base, ["--ffn", "kan", f"{flag}=9"]).model.intermediate_size == 9


def test_mistakes_in_flags_are_one_line():
    with pytest.raises(UsageError, match="'flop'; did you mean 'flops'"):
        load_config(None, ["--ffn-budget", "flop"])
    with pytest.raises(UsageError, match="'spline-kan' has 20,480 parameters at any intermediate_size"):
        load_config(None, ["--ffn", "spline-kan", "--ffn-budget", "params"])


def test_one_width_is_one_run_however_it_was_chosen(base):
    budget = load_config(base, ["--ffn", "kan", "--ffn-budget", "params"])
    width = str(budget.model.intermediate_size)
    given = load_config(base, ["--ffn", "kan", "--model.intermediate-size", width])
    assert run_dir(budget) == run_dir(given)
    assert run_dir(budget) != run_dir(load_config(base, ["--ffn", "kan"]))
    for ffn in ("gelu", "relu"):  # as many parameters as the baseline at its own width: the plain run
        assert run_dir(load_config(base, ["--ffn", ffn, "--ffn-budget", "params"])) == run_dir(
            load_config(base, ["--ffn", ffn])
        )


def test_a_study_sets_the_budget_for_all_variants_or_for_one(repository, tmp_path):
    content = {
        "name": "budget",
        "families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")},
        "variants": ["gelu", "kan", "fourier-kan", "spline-kan"],
        "seeds": [1],
        "config": {
            "model": {"ffn_budget": "params"},
            "variants": {
                "spline-kan": {"model": {"ffn_budget": "width"}},
                "fourier-kan": {"model": {"ffn_budget": "flops"}},
            },
        },
    }
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(content))
    models = {cell.config.model.ffn: cell.config.model for cell in load_study(file).cells}
    assert {name: model.intermediate_size for name, model in models.items()} == {
        "gelu": 128,
        "kan": matching_width("kan", None, 64, 128, "params"),
        "fourier-kan": matching_width("fourier-kan", None, 64, 128, "flops"),
        "spline-kan": 128,
    }
    del content["config"]["variants"]
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match="'spline-kan' has 2,560 parameters"):
        load_study(file)


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(list(FAMILIES), MATCHABLE))
@pytest.mark.ci
def test_all_weights_outside_the_ffn_are_the_baselines(base, family, ffn):
    def outside(name: str) -> dict[str, torch.Tensor]:
        flags = ["--family", family, "--ffn", name, "--ffn-budget", "params"]
        torch.manual_seed(3)
        model = build(load_config(base, flags), vocab_size=300)
        inside = {id(p) for m in model.modules() for part in ffn_modules(m) for p in part.parameters()}
        return {key: p for key, p in model.named_parameters() if id(p) not in inside}

    ours, baseline = outside(ffn), outside("gelu")
    assert ours.keys() == baseline.keys()
    assert len(ours) > 10
    assert all(torch.equal(ours[key], baseline[key]) for key in ours)


# The table, the plan, the provenance


def test_table_shows_the_width_of_each_variant():
    header, *rows = table_rows(TableArgs(ffn_budget="flops"))
    assert header[3:6] == ("F", "parameters", "FLOPs/token")
    for name, *_, width, params, flops, _ in rows:
        if name in NOT_MATCHABLE:
            assert (width, params, flops) == ("-", "-", "-")
            continue
        expected = matching_width(name, {}, 512, 1024, "flops")
        assert int(width.replace(",", "")) == expected
        assert params == f"{FFN_VARIANTS[name].num_params(512, expected):,}"
        assert flops == f"{FFN_VARIANTS[name].flops_per_token(512, expected):,}"


def test_table_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ffn_variants", "--ffn-budget", "params"])
    main()
    kan = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("kan "))
    assert re.search(r" 103 +1,054,720 +1,898,496  Liu", kan)


def test_plan_says_what_was_matched_and_how_well(repository, tmp_path):
    flags = ["--ffn", "kan", "--ffn-budget", "params", "--runs-dir", str(tmp_path)]
    plan = describe_run(load_config(repository / "configs" / "gpt-neo.yaml", flags))
    assert (
        "FFN              kan, intermediate_size 103 (params budget): 1,054,720 parameters a layer "
        "(gelu at 1024: 1,050,112, +0.4%)"
    ) in plan
    # 2 (512 x 103 x 2 x 9) in each of two FFNs; 2 (4 x 512^2) and 4 x 512 x 512 in attention; the head.
    total = 2 * 2 * 512 * 103 * 2 * 9 + 2 * 2 * 4 * 512**2 + 2 * 4 * 512 * 512 + 2 * 512 * 10_000
    assert (
        f"forward FLOPs    {total / 1e6:.2f} M a token; FFN 1.898 M a layer (gelu at 1024: 2.097 M, -9.5%)"
        in (plan)
    )
    as_given = describe_run(load_config(repository / "configs" / "gpt-neo.yaml", flags[:2] + flags[4:]))
    assert "kan, intermediate_size 256 (as given): 2,621,440 parameters a layer (gelu at 1024: " in as_given


def test_a_run_records_what_it_costs(tmp_path):
    flags = [
        *("--data.num-stories", "60", "--data.vocab-size", "300", "--data.block-size", "32"),
        *("--model.hidden-size", "32", "--model.intermediate-size", "100", "--model.num-hidden-layers", "1"),
        *("--ffn", "fourier-kan", "--ffn-budget", "params", "--optim.max-steps", "1"),
        *("--train.no-torch-compile", "--runs-dir", str(tmp_path)),
    ]
    config = load_config(None, flags)
    path = train(config)
    record = json.loads((path / "provenance.json").read_text())
    network = build(config, vocab_size=json.loads((path / "model" / "config.json").read_text())["vocab_size"])
    assert record["parameters"] == count_parameters(network)
    assert record["flops_per_token"] == count_flops(network, 32)
    width = matching_width("fourier-kan", None, 32, 100, "params")
    assert record["ffn"] == {
        "budget": "params",
        "intermediate_size": width,
        "baseline_intermediate_size": 100,
        "parameters_per_layer": FFN_VARIANTS["fourier-kan"].num_params(32, width),
        "active_parameters_per_layer": FFN_VARIANTS["fourier-kan"].num_params(32, width),
        "flops_per_token_per_layer": FFN_VARIANTS["fourier-kan"].flops_per_token(32, width),
    }
    assert record["parameters"]["ffn"] == record["ffn"]["parameters_per_layer"]
    assert read_run(path) == config


# The report


def write_run(study: Path, config: RunConfig, score: float, facts: bool) -> None:
    """A scored run folder with the provenance of its real model, or with that of before budgets."""
    ffn, seed = config.model.ffn, config.seed
    run_id = f"{config.family}/{ffn}/seed{seed}-0a1b2c3d"
    row = (run_id, config.family, ffn, seed, "embedded-pairs", "order", "syntax", "accuracy", score, 100, "")
    write_rows(pd.DataFrame([row], columns=list(ROW_COLUMNS[:-1])), study / run_id / "eval" / "rows.parquet")
    network = build(config, vocab_size=300)
    costs = cost_facts(config, network) if facts else {"parameters": count_parameters(network)}
    (study / run_id / "provenance.json").write_text(json.dumps(costs))


@pytest.fixture
def study(base: Path, tmp_path: Path) -> Callable[[bool], Path]:
    def _study(facts: bool) -> Path:
        folder = tmp_path / f"study-{facts}"
        for ffn in ("gelu", "kan"):
            for seed in (1, 2):
                config = load_config(base, ["--ffn", ffn, "--ffn-budget", "flops", "--seed", str(seed)])
                write_run(folder, config, 60.0 + seed + (ffn == "kan"), facts)
        return folder

    return _study


def test_report_shows_budgets(study, tmp_path):
    out = tmp_path / "out"
    write_report(study(True), out)
    text = (out / "report.md").read_text()
    params, flops = FFN_VARIANTS["kan"].num_params(64, 14), FFN_VARIANTS["kan"].flops_per_token(64, 14)
    assert matching_width("kan", None, 64, 128, "flops") == 14
    rows = {
        line.split("|")[2].strip(" `"): line
        for line in text.split("Cost: ")[1].split("</details>")[0].splitlines()
        if "| GPT" in line
    }
    assert f" | {2 * params:,} | 14 | " in rows["kan"]
    assert rows["kan"].endswith("FLOPs |")
    assert " | 33,152 | 128 | " in rows["gelu"]
    report = json.loads((out / "report.json").read_text())
    kan = next(run for run in report["training"] if run["variant"] == "kan")
    assert (kan["intermediate_size"], kan["ffn_budget"], kan["ffn_flops_per_token"]) == (
        14,
        "flops",
        2 * flops,
    )


@pytest.mark.ci
def test_runs_of_before_budgets_and_tables_report_without(study, tmp_path):
    old = study(False)
    write_report(old, tmp_path / "old")
    text = (tmp_path / "old" / "report.md").read_text()
    assert "<summary>Cost: " in text
    facts = read_source(old).facts[0]
    assert facts.num_ffn_parameters
    assert facts.intermediate_size is facts.ffn_budget is facts.flops_per_token is None
    csv = tmp_path / "scores.csv"
    read_source(study(True)).rows.to_csv(csv, index=False)
    write_report(csv, tmp_path / "csv")
    assert "<summary>Cost: " not in (tmp_path / "csv" / "report.md").read_text()
