"""Equal budgets: the width and its way through config, plan, provenance and report; counts of FLOPs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from base.records import read_json
from base.text.corruption import corrupted_lengths
from benchmarks import known_costs
from ffn_variants import FAMILIES, FFN_VARIANTS, UsageError, build_ffn, matching_width
from ffn_variants.budget import TOLERANCE
from ffn_variants.known_costs import FILE
from ffn_variants.list_variants import TableArgs, table_rows
from pretrain.model.build import build
from pretrain.model.costs import cost_facts
from pretrain.resolution import load_config, resolve
from pretrain.run.run_folder import read_run, run_dir, write_config
from pretrain.training.dry_run import describe_run
from tests.cases import KINDS, own_spec
from tests.references import count_parameters

D, F = 64, 128
WIDTHLESS = "spline-kan"
NOT_MATCHABLE = (WIDTHLESS, "no-ffn")
"""Their cost does not depend on the width."""
MATCHABLE = [name for name in FFN_VARIANTS if name not in NOT_MATCHABLE]
# All that these do is elementwise, in no matrix product: the parameters that a token is multiplied with.
ELEMENTWISE = {"spline-kan": ["coefficients"], "wav-kan": ["weight"]}
ELEMENTWISE["mlp-edge"] = ["inner_weight", "outer_weight"]


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


@pytest.mark.parametrize(
    ("ffn", "budget", "options"),
    [
        *((ffn, budget, {}) for ffn in KINDS if ffn in MATCHABLE for budget in ("params", "flops")),
        ("kan", "params", {"grid_size": 3, "spline_order": 2}),
        ("kan", "flops", {"layers": "first"}),
    ],
)
def test_no_other_width_is_nearer_to_the_baseline(ffn, budget, options):
    cost = {"params": parameters, "flops": ffn_flops}[budget]
    width, target = matching_width(ffn, options, D, F, budget), cost("gelu", F)
    miss = abs(cost(ffn, width, **options) - target)
    assert miss <= TOLERANCE * target
    for other in {*range(max(1, width - 3), width + 4), 1, F, 2 * F} - {width}:
        assert abs(cost(ffn, other, **options) - target) >= miss, other


@pytest.mark.parametrize("budget", ["params", "flops"])
def test_the_baseline_matches_itself(budget):
    assert matching_width("gelu", None, 48, 37, budget) == 37
    assert matching_width("gelu", None, 48, 37, budget, biases=False) == 37
    assert matching_width("kan", None, 48, 37, "width") == 37


def test_a_family_without_biases_is_matched_without_them():
    """T5's own FFN has 2 D F parameters."""
    assert matching_width("geglu", None, 48, 60, "params", biases=False) == 40  # 3 D F of its own, no bias
    torch.manual_seed(0)
    model = build(load_config(None, ["--family", "t5", "--ffn", "swish", "--ffn-budget", "params"]), 300)
    assert model.config.intermediate_size == 1023  # with the 1,023 factors of the activation


@pytest.mark.parametrize(("budget", "number"), [("params", "2,560 parameters"), ("flops", "2,560 FLOPs")])
def test_a_variant_without_a_width_cannot_be_matched(budget, number):
    told = rf"^FFN variant 'spline-kan' has {number} .*; use \(config.\)intermediate_size .* to width$"
    with pytest.raises(UsageError, match=told):
        matching_width(WIDTHLESS, None, D, F, budget)


def test_a_baseline_below_the_smallest_width_cannot_be_matched():
    options = {"grid_size": 200}
    nearest = f"no nearer than {parameters('kan', 1, **options):,} .intermediate_size 1. .* more than 5% off"
    with pytest.raises(UsageError, match=nearest):
        matching_width("kan", options, D, F, "params")


def test_unknown_names_are_told():
    with pytest.raises(UsageError, match=r"unknown FFN budget 'parameters'; .* params, active-params, flops"):
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
    spec = own_spec("grouped", Grouped, kind="block", multiply_adds=lambda d, f: 3 * d * f)
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


@pytest.mark.parametrize(("ffn", "budget"), [("gelu", "params"), ("swiglu", "params"), ("kan", "flops")])
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
    with pytest.raises(UsageError, match=r"size 9 has no effect: .*_size 128; give --model.pair"):
        load_config(base, ["--ffn", "kan", "--ffn-budget", "flops", f"{flag}=9"])
    assert load_config(base, ["--ffn", "kan", f"{flag}=9"]).model.intermediate_size == 9


def test_one_width_is_one_run_however_it_was_chosen(base):
    budget = load_config(base, ["--ffn", "kan", "--ffn-budget", "params"])
    width = str(budget.model.intermediate_size)
    given = load_config(base, ["--ffn", "kan", "--model.intermediate-size", width])
    assert run_dir(budget) == run_dir(given)
    assert run_dir(budget) != run_dir(load_config(base, ["--ffn", "kan"]))
    for ffn in ("gelu", "relu"):  # as many parameters as the baseline at its own width: the plain run
        budget = load_config(base, ["--ffn", ffn, "--ffn-budget", "params"])
        assert run_dir(budget) == run_dir(load_config(base, ["--ffn", ffn]))


def test_what_ships_of_the_costs_is_what_the_registry_counts():
    """After a change: python -m benchmarks.known_costs."""
    assert read_json(FILE) == known_costs.computed()


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


def test_plan_says_what_was_matched_and_how_well(repository, tmp_path):
    flags = ["--ffn", "kan", "--ffn-budget", "params", "--runs-dir", str(tmp_path)]
    plan = describe_run(load_config(repository / "configs" / "gpt-neo.yaml", flags))
    assert "  kan, intermediate_size 103 (params budget): 1,054,720 parameters a layer" in plan
    assert " (gelu at 1024: 1,050,112, +0.4%)" in plan
    # 2 (512 x 103 x 2 x 9) in each of two FFNs; 2 (4 x 512^2) and 4 x 512 x 512 in attention; the head.
    total = 2 * 2 * 512 * 103 * 2 * 9 + 2 * 2 * 4 * 512**2 + 2 * 4 * 512 * 512 + 2 * 512 * 10_000
    assert f"  {total / 1e6:.2f} M a token; FFN 1.898 M a layer (gelu at 1024: 2.097 M, -9.5%)" in plan


SMALL = ["--model.hidden-size", "24", "--model.intermediate-size", "40", "--data.block-size", "33"]
SMALL += ["--model.num-hidden-layers", "3", "--model.num-attention-heads", "2"]
PADS = {"roberta": 7, "llama": 0, "gpt_neo": 0, "t5": 0}  # ids of <pad>


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.ci
def test_costs_without_a_model_are_those_of_the_model(family):
    flags = [*SMALL, "--family", family, *(["--model.tie-word-embeddings", "False"] * (family == "llama"))]
    for ffn in FFN_VARIANTS:
        config, pad = load_config(None, [*flags, "--ffn", ffn]), PADS[family]
        model = build(config, 301, {"pad_token_id": pad, "bos_token_id": 1, "eos_token_id": 2}).eval()
        model.set_attn_implementation("eager")
        facts = cost_facts(config, 301, pad)
        assert facts["parameters"] == count_parameters(model), ffn
        length, decoder, num_ffns, rounding = 33, {}, 33, 0
        if family == "t5":
            span = config.train.mean_noise_span_length
            length, of_decoder = corrupted_lengths(33, config.train.mlm_probability, span)
            decoder = {"decoder_input_ids": torch.ones(1, of_decoder, dtype=torch.long)}
            num_ffns, rounding = length + of_decoder, 2
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(torch.full((1, length), 9), **decoder)
        flops, ffn_flops = facts["flops_per_token"], FFN_VARIANTS[ffn].flops_per_token(24, 40)
        seen = flops["total"] - (flops["ffn"] if ffn in ELEMENTWISE else 0)
        assert seen == pytest.approx(counter.get_total_flops() / 33, abs=rounding), ffn
        assert flops["ffn"] == pytest.approx(3 * ffn_flops * num_ffns / 33, abs=rounding), ffn
        if ffn == "gelu":  # which has no product of batches
            products = counter.get_flop_counts()["Global"][torch.ops.aten.bmm]
            assert flops["attention"] == pytest.approx(products / 33, abs=rounding)
        assert flops["total"] == flops["ffn"] + flops["attention"] + flops["other"]


def test_a_run_records_what_its_ffn_costs():
    flags = ["--model.hidden-size", "32", "--model.intermediate-size", "100"]
    config = load_config(None, [*flags, "--ffn", "fourier-kan", "--ffn-budget", "params"])
    record = cost_facts(config, vocab_size=300)
    width = matching_width("fourier-kan", None, 32, 100, "params")
    assert record["ffn"] == {
        "budget": "params",
        "intermediate_size": width,
        "baseline_intermediate_size": 100,
        "parameters_per_layer": FFN_VARIANTS["fourier-kan"].num_params(32, width),
        "active_parameters_per_layer": FFN_VARIANTS["fourier-kan"].num_params(32, width),
        "flops_per_token_per_layer": FFN_VARIANTS["fourier-kan"].flops_per_token(32, width),
    }
