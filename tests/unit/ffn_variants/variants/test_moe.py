"""The mixture of experts against a loop over tokens in float64, its counts, and its balance."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import torch
from scipy.special import expit
from transformers import Trainer, TrainingArguments

from ffn_variants import FFN_VARIANTS, UsageError, build_ffn, build_model, matching_width
from ffn_variants.variants.sparse import MoEFFN

D, F, E = 6, 5, 4


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def formula(ffn, x):
    """Token by token and expert by expert."""
    p = {key: value.detach().double().numpy() for key, value in ffn.named_parameters()}
    first, first_bias = p["c_fc.weight"].reshape(ffn.experts, -1, D), p["c_fc.bias"].reshape(ffn.experts, -1)
    second, second_bias = (p[f"c_proj.{key}"].reshape(ffn.experts, D, -1) for key in ("weight", "bias"))
    y = np.zeros_like(x)
    for n, token in enumerate(x):
        scores = expit(p["router.weight"] @ token)
        ranked = np.argsort(-(scores + ffn.balance_rate * ffn.shifts.numpy()))
        for e in ranked[: ffn.top_k]:
            hidden = gelu_tanh(first[e] @ token + first_bias[e])
            y[n] += scores[e] * (second[e] @ hidden + second_bias[e][:, 0])
    return y


def drawn(**options):
    ffn = build_ffn("moe", D, F, **{"experts": E, **options})
    assert isinstance(ffn, MoEFFN)
    ffn.shifts.copy_(torch.randint(-300, 300, (ffn.experts,)))
    return ffn


@pytest.mark.parametrize("top_k", [1, 2, 4])
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-12), ("float32", 1e-6), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("way", ["visited", "all"])
def test_value(top_k, dtype, limit, way, error, monkeypatch):
    torch.manual_seed(0)
    ffn = drawn(top_k=top_k).to(getattr(torch, dtype))
    if way == "all":  # as on a GPU
        monkeypatch.setattr(ffn, "_visited", ffn._all)
    x = torch.randn(50, D).to(getattr(torch, dtype))
    y = ffn(x)
    assert y.dtype == x.dtype
    assert error(y, formula(ffn, x.double().numpy())) < limit


def test_all_and_the_visited_experts_have_the_same_gradients(monkeypatch):
    torch.manual_seed(1)
    ffn, x = drawn().double(), torch.randn(40, D, dtype=torch.float64, requires_grad=True)
    gradients = []
    for _ in range(2):
        y = ffn(x)
        gradients.append(torch.autograd.grad(y.square().sum(), [x, *ffn.parameters()]))
        monkeypatch.setattr(ffn, "_visited", ffn._all)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_single_chosen_expert_teaches_the_router_too():
    torch.manual_seed(2)
    ffn = drawn(top_k=1)
    ffn(torch.randn(20, D)).square().sum().backward()
    assert ffn.router.weight.grad.any()


def test_under_autocast_the_choice_is_that_of_float32(error):
    torch.manual_seed(3)
    ffn, x = drawn(), torch.randn(500, D)
    exact = ffn(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = ffn(x)
    assert y.dtype == torch.bfloat16
    assert error(y, exact.detach()) < 1e-2


def test_counts_are_of_what_a_token_meets():
    spec = FFN_VARIANTS["moe"]
    sizes = {"hidden_size": 64, "intermediate_size": 32}
    expert = 2 * 64 * 32 + 32 + 64
    assert spec.num_params(**sizes) == 8 * expert + 8 * 64
    assert spec.num_active_params(**sizes) == 2 * expert + 8 * 64
    assert spec.num_active_params(**sizes, experts=3, top_k=3) == spec.num_params(**sizes, experts=3)
    gelu = FFN_VARIANTS["gelu"]
    assert gelu.num_active_params(**sizes) == gelu.num_params(**sizes)


def test_total_and_active_parameters_can_both_be_matched():
    spec, target = FFN_VARIANTS["moe"], FFN_VARIANTS["gelu"].num_params(64, 256)
    total, active = (matching_width("moe", None, 64, 256, budget) for budget in ("params", "active-params"))
    assert spec.num_params(64, total) == pytest.approx(target, rel=0.05)
    assert spec.num_active_params(64, active) == pytest.approx(target, rel=0.05)
    assert spec.num_params(64, active) > 3.9 * target


def test_more_chosen_than_there_are_is_a_usage_error():
    with pytest.raises(UsageError, match="top_k must be at most experts, 3, got 4"):
        build_ffn("moe", D, F, experts=3, top_k=4)


# The balance


def loads(ffn, x):
    """Shares of the tokens that each expert has."""
    ffn.load.zero_()
    ffn.train()(x)
    return (ffn.load / ffn.load.sum()).numpy()


def test_numbers_move_towards_the_experts_with_fewer_tokens():
    ffn = build_ffn("moe", D, F, experts=4)
    ffn.load.copy_(torch.tensor([10, 0, 5, 5]))
    ffn.after_update(lambda load: load)
    assert ffn.shifts.tolist() == [-1, 1, 0, 0]
    assert not ffn.load.any()
    ffn.load.copy_(torch.tensor([9, 0, 0, 0]))
    ffn.after_update(lambda load: load + torch.tensor([0, 5, 1, 0]))  # another process
    assert ffn.shifts.tolist() == [-2, 0, 1, 1]


def test_a_router_with_favourites_is_balanced_and_without_a_rate_it_is_not():
    torch.manual_seed(4)
    x = torch.randn(2000, D) + 1
    for rate, worst in ((0.01, 0.27), (0.0, 0.5)):
        ffn = build_ffn("moe", D, F, experts=4, top_k=1, balance_rate=rate)
        ffn.router.weight.data[0] += 1.0
        before = loads(ffn, x)
        assert before.max() > 0.6
        for _ in range(300):
            ffn.train()(x)
            ffn.after_update(lambda load: load)
        after = loads(ffn, x)
        assert (after.max() < worst) == (rate > 0), (before, after)


def test_only_training_counts_and_nothing_else_of_the_module_changes():
    torch.manual_seed(5)
    ffn, x = drawn(), torch.randn(7, D)
    before = copy.deepcopy(ffn.state_dict())
    ffn.eval()(x)
    assert all(torch.equal(value, before[key]) for key, value in ffn.state_dict().items())
    ffn.train()(x)
    assert ffn.load.sum() == 2 * 7
    assert all(torch.equal(value, before[key]) for key, value in ffn.state_dict().items() if key != "load")


def test_the_numbers_travel_with_the_model_and_keep_their_dtype(tmp_path):
    sizes = {"hidden_size": 8, "intermediate_size": 4, "vocab_size": 20, "num_attention_heads": 2}
    model = build_model("gpt_neo", "moe", num_hidden_layers=1, **sizes)
    (ffn,) = [m for m in model.modules() if isinstance(m, MoEFFN)]
    ffn.shifts.fill_(1001)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    (ffn,) = [m for m in again.modules() if isinstance(m, MoEFFN)]
    assert ffn.shifts.dtype == torch.int64
    assert ffn.shifts.tolist() == [1001] * 8


def test_the_callback_of_the_page_balances_under_a_trainer(repository, tmp_path):
    """By hand: an expert rises by one with each update in which it had fewer tokens than the mean."""
    page = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    (code,) = re.findall(
        r"^```python\n(from transformers import TrainerCallback\n.*?)^```", page, re.DOTALL | re.M
    )
    names: dict = {}
    exec(code, names)
    torch.manual_seed(0)
    model = build_model(
        "gpt_neo", "moe", vocab_size=20, hidden_size=8, intermediate_size=8, num_attention_heads=2
    )
    ffn = model.transformer.h[0].mlp.ffn
    loads = []
    ffn.register_forward_hook(lambda *_: loads.append(ffn.load.clone()))
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(3, 20, (16, 6))]
    settings = TrainingArguments(
        str(tmp_path),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        num_train_epochs=1,
    )
    Trainer(model, settings, train_dataset=rows, callbacks=[names["AfterUpdate"]()]).train()
    whole = torch.stack(loads[1::2])  # two batches make an update
    assert whole.sum(1).tolist() == [2 * 2 * 6 * ffn.top_k] * 4
    assert torch.equal(ffn.shifts, (whole.double().mean(1, keepdim=True) - whole).sign().sum(0).long())
    assert ffn.shifts.any()
    assert not ffn.load.any()
