"""Every linear layer of a variant is called: adapters are trained and merged, int8 counts, hooks run."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor, nn

from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants.models.family_models import build_model
from tests.cases import KINDS

LINEAR = [name for name in FFN_VARIANTS if any(type(m) is nn.Linear for m in build_ffn(name, 8, 6).modules())]
SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


class Adapted(nn.Module):
    """A linear layer and a product of two thin matrices beside it."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.first = nn.Parameter(torch.randn(2, layer.in_features))
        self.second = nn.Parameter(torch.randn(layer.out_features, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + x @ self.first.t() @ self.second.t()

    def merged(self) -> nn.Linear:
        layer = copy.deepcopy(self.layer)
        layer.weight.data += (self.second @ self.first).detach()
        return layer


def replaced(module: nn.Module, kind: type, by) -> nn.Module:
    for name, child in module.named_children():
        module.register_module(name, by(child)) if type(child) is kind else replaced(child, kind, by)
    return module


@pytest.mark.parametrize("name", LINEAR)
def test_adapters_get_gradients_and_merging_them_changes_nothing(name):
    torch.manual_seed(0)
    ffn, x = replaced(build_ffn(name, 8, 6), nn.Linear, Adapted), torch.randn(5, 3, 8)
    y = ffn(x)
    y.square().sum().backward()
    adapters = {n: p for n, p in ffn.named_parameters() if n.endswith((".first", ".second"))}
    assert adapters
    assert not [n for n, p in adapters.items() if p.grad is None or not p.grad.any()]
    merged = replaced(copy.deepcopy(ffn), Adapted, Adapted.merged)
    torch.testing.assert_close(merged(x), y, rtol=1e-4, atol=1e-4)


def test_experts_called_as_layers_are_those_that_tokens_visit():
    torch.manual_seed(0)
    ffn, x = build_ffn("moe", 8, 6, experts=5, top_k=3).double(), torch.randn(11, 8).double()
    results = []
    for mix in (ffn._visited, ffn._all, ffn._called):
        ffn._mix = lambda _, mix=mix: mix
        ffn.zero_grad()
        y = ffn(x)
        y.square().sum().backward()
        results.append([y, *(p.grad for p in ffn.parameters())])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.ci
def test_peft_trains_and_merges_all_linear_layers(name):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    base = build_model("gpt_neo", name, intermediate_size=8, max_position_embeddings=8, **SIZES)
    config = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base, config)
    ids = torch.randint(40, (3, 8))
    model.train()(input_ids=ids, labels=ids).loss.backward()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert not [n for n, p in trained.items() if p.grad is None or not p.grad.any()]
    model.eval()
    before = model(input_ids=ids).logits
    torch.testing.assert_close(model.merge_and_unload()(input_ids=ids).logits, before, rtol=1e-3, atol=1e-4)
