"""Models that are made on the meta device, given memory, and initialised then."""

from __future__ import annotations

import pytest
import torch

from base.families import FAMILIES
from ffn_variants import FFN_VARIANTS
from ffn_variants.models.family_models import build_model
from tests.cases import KINDS, in_turn

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def made(family: str, name: str):
    torch.manual_seed(3)
    return build_model(family, name, intermediate_size=8, **SIZES)


def tensors(model) -> dict[str, torch.Tensor]:
    return dict((*model.named_parameters(), *model.named_buffers()))


@pytest.mark.parametrize(("family", "name"), in_turn(list(FAMILIES), list(FFN_VARIANTS), fast=KINDS))
def test_initial_values_are_those_of_the_constructor_at_the_same_seed(family, name):
    with torch.device("meta"):
        model = made(family, name)
    model.to_empty(device="cpu")
    for tensor in tensors(model).values():
        tensor.data.fill_(1)
    torch.manual_seed(3)
    model.init_weights()
    wanted = tensors(made(family, name))
    found = tensors(model)
    assert found.keys() == wanted.keys()
    assert not [key for key, value in wanted.items() if not torch.equal(found[key], value)]


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_what_has_values_keeps_them(family):
    model = made(family, "kan")
    before = {key: value.clone() for key, value in tensors(model).items()}
    model.init_weights()
    assert all(torch.equal(value, before[key]) for key, value in tensors(model).items())


def test_an_ffn_alone_can_be_initialised_anew():
    model = made("gpt_neo", "kan")
    before = {key: value.clone() for key, value in tensors(model).items()}
    for value in model.parameters():
        value.data.fill_(1)
    for layer in model.transformer.h:
        for module in layer.mlp.modules():
            module._is_hf_initialized = False
    torch.manual_seed(3)
    model.init_weights()
    for key, value in model.named_parameters():
        assert torch.equal(value, before[key] if ".mlp." in key else torch.ones_like(value)), key
