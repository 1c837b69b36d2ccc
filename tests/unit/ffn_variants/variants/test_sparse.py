"""The mixture of experts and the memory against loops over tokens in float64, counts, and the balance."""

import copy
import re

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from transformers import Trainer, TrainingArguments

from ffn_variants import FFN_VARIANTS, UsageError, build_ffn, build_model, matching_width
from ffn_variants.variants.sparse import MoEFFN
from tests.cases import listed
from tests.references import gelu_tanh

D, F, E = 6, 5, 4
WIDTH = 16
"""Of what the memory reads and writes."""


def chosen(ffn, x):
    """The experts of each token."""
    scores = expit(x @ ffn.router.weight.detach().double().numpy().T)
    return np.argsort(-(scores + ffn.balance_rate * ffn.shifts.numpy()))[:, : ffn.top_k], scores


def mixture(ffn, x):
    """Token by token and expert by expert."""
    p = {key: value.detach().double().numpy() for key, value in ffn.named_parameters()}
    first, first_bias = p["c_fc.weight"].reshape(ffn.experts, -1, D), p["c_fc.bias"].reshape(ffn.experts, -1)
    second, second_bias = (p[f"c_proj.{key}"].reshape(ffn.experts, D, -1) for key in ("weight", "bias"))
    y = np.zeros_like(x)
    for n, (experts, scores) in enumerate(zip(*chosen(ffn, x), strict=True)):
        for e in experts:
            hidden = gelu_tanh(first[e] @ x[n] + first_bias[e])
            y[n] += scores[e] * (second[e] @ hidden + second_bias[e][:, 0])
    return y


def drawn(**options):
    ffn = build_ffn("moe", D, F, **{"experts": E, **options})
    assert isinstance(ffn, MoEFFN)
    ffn.shifts.copy_(torch.randint(-300, 300, (ffn.experts,)))
    return ffn


@pytest.mark.parametrize(
    ("top_k", "dtype", "limit"),
    [(2, "float64", 1e-12), (1, "float32", 1e-6), (4, "float32", 1e-6), (2, "bfloat16", 1e-2)],
)
@pytest.mark.parametrize("way", ["visited", "all"])
def test_value_of_experts(top_k, dtype, limit, way, error, monkeypatch):
    torch.manual_seed(0)
    ffn = drawn(top_k=top_k).to(getattr(torch, dtype))
    if way == "all":  # as on a GPU
        monkeypatch.setattr(ffn, "_visited", ffn._all)
    x = torch.randn(50, D).to(getattr(torch, dtype))
    y = ffn(x)
    assert y.dtype == x.dtype
    assert error(y, mixture(ffn, x.double().numpy())) < limit


def test_under_autocast_the_choice_is_that_of_float32(error):
    torch.manual_seed(3)
    ffn, x = drawn(), torch.randn(500, D)
    exact = ffn(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = ffn(x)
    assert y.dtype == torch.bfloat16
    assert error(y, exact.detach()) < 1e-2


def test_counts_of_experts_are_of_what_a_token_meets():
    spec = FFN_VARIANTS["moe"]
    sizes = {"hidden_size": 64, "intermediate_size": 32}
    expert = 2 * 64 * 32 + 32 + 64
    assert spec.num_params(**sizes) == 8 * expert + 8 * 64
    assert spec.num_active_params(**sizes) == 2 * expert + 8 * 64
    assert spec.num_active_params(**sizes, experts=3, top_k=3) == spec.num_params(**sizes, experts=3)
    snake = FFN_VARIANTS["snake"]
    assert snake.num_active_params(**sizes) == snake.num_params(**sizes) == expert + 32


def test_more_chosen_than_there_are_is_a_usage_error():
    with pytest.raises(UsageError, match="top_k must be at most experts, 3, got 4"):
        build_ffn("moe", D, F, experts=3, top_k=4)


# The balance


def test_numbers_move_towards_the_experts_with_fewer_tokens():
    ffn = build_ffn("moe", D, F, experts=4)
    ffn.load.copy_(torch.tensor([10, 0, 5, 5]))
    ffn.after_update(lambda load: load)
    assert ffn.shifts.tolist() == [-1, 1, 0, 0]
    assert not ffn.load.any()
    ffn.load.copy_(torch.tensor([9, 0, 0, 0]))
    ffn.after_update(lambda load: load + torch.tensor([0, 5, 1, 0]))  # another process
    assert ffn.shifts.tolist() == [-2, 0, 1, 1]


def test_only_training_counts_and_nothing_else_of_the_module_changes():
    torch.manual_seed(5)
    ffn, x = drawn(), torch.randn(7, D)
    before = copy.deepcopy(ffn.state_dict())
    ffn.eval()(x)
    assert all(torch.equal(value, before[key]) for key, value in ffn.state_dict().items())
    ffn.train()(x)
    experts, _ = chosen(ffn, x.double().numpy())
    assert ffn.load.tolist() == np.bincount(experts.ravel(), minlength=E).tolist()
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


@pytest.mark.ci
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
    batches = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "num_train_epochs": 1}
    quiet = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    settings = TrainingArguments(str(tmp_path), **batches, **quiet)
    Trainer(model, settings, train_dataset=rows, callbacks=[names["AfterUpdate"]()]).train()
    whole = torch.stack(loads[1::2])  # two batches make an update
    assert whole.sum(1).tolist() == [2 * 2 * 6 * ffn.top_k] * 4
    assert torch.equal(ffn.shifts, (whole.double().mean(1, keepdim=True) - whole).sign().sum(0).long())
    assert ffn.shifts.any()
    assert not ffn.load.any()


@pytest.mark.parametrize(("ffn", "times"), [("moe", 3.9), ("product-key-memory", 50)])
def test_total_and_active_parameters_can_both_be_matched(ffn, times):
    spec, target = FFN_VARIANTS[ffn], FFN_VARIANTS["gelu"].num_params(64, 256)
    total, active = (matching_width(ffn, None, 64, 256, budget) for budget in ("params", "active-params"))
    assert spec.num_params(64, total) == pytest.approx(target, rel=0.05)
    assert spec.num_active_params(64, active) == pytest.approx(target, rel=0.05)
    assert spec.num_params(64, active) > times * target


def recall(memory, x):
    """Score every key of every head, and take the best."""
    weight, bias, keys, values = (
        t.detach().double().numpy()
        for t in (memory.query.weight, memory.query.bias, memory.keys, memory.values)
    )
    heads, _, _, channels = keys.shape
    top = memory.sizes.values_read
    y = np.zeros_like(x)
    for row, token in enumerate(x):
        query = (weight @ token + bias).reshape(heads, 2, channels)
        for head in range(heads):
            halves = keys[head, 0] @ query[head, 0], keys[head, 1] @ query[head, 1]
            scores = (halves[0][:, None] + halves[1]).ravel()
            best = np.argsort(-scores)[:top]
            y[row] += softmax(scores[best]) @ values[best % len(values)]
    return y


@pytest.mark.parametrize(("size", "options", "dtype", "limit"), listed(__file__, "memories"))
def test_value_of_the_memory(size, options, dtype, limit, error):
    torch.manual_seed(0)
    memory = build_ffn("product-key-memory", WIDTH, size, **options).to(getattr(torch, dtype))
    x = torch.randn(40, WIDTH).to(getattr(torch, dtype))
    y = memory(x)
    assert y.dtype == x.dtype
    assert error(y, recall(memory, x.double().numpy())) < limit


def test_under_autocast_the_places_of_the_memory_are_those_of_float32(error):
    torch.manual_seed(2)
    memory, x = build_ffn("product-key-memory", WIDTH, 400), torch.randn(300, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        y = memory(x)
    assert error(y, memory(x).detach()) < 1e-2


@pytest.mark.parametrize(("size", "half_keys"), [(1, 1), (2, 2), (4, 2), (5, 3), (1025, 33)])
def test_half_keys_are_the_square_root_of_the_values_and_all_values_can_be_read(size, half_keys):
    memory = build_ffn("product-key-memory", WIDTH, size)
    assert memory.keys.shape == (4, 2, half_keys, 2)
    assert memory.values.shape == (size, WIDTH)
    assert half_keys**2 >= size


def test_counts_of_the_memory_are_of_what_a_token_meets():
    spec = FFN_VARIANTS["product-key-memory"]
    assert spec.num_params(64, 1000) == 64 * 64 + 64 + 64 * 32 + 1000 * 64
    active = 64 * 64 + 64 + 64 * 32 + 4 * 8 * 64
    assert spec.num_active_params(64, 1000) == active
    assert spec.flops_per_token(64, 1000) == 2 * (active - 64)


def test_keys_and_values_start_as_those_of_the_paper():
    torch.manual_seed(3)
    memory = build_ffn("product-key-memory", 64, 4000)
    assert memory.values.std().item() == pytest.approx(1 / 8, rel=0.01)
    assert memory.keys.abs().max().item() == pytest.approx(8**-0.5, rel=0.01)
