"""What a family's entry says is what transformers' classes of that architecture are."""

from dataclasses import fields
from pkgutil import resolve_name
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification
from transformers.pipelines import check_task

import ffn_variants
from base.errors import UsageError
from base.families import AUTO_CLASSES, FAMILIES, PIPELINES, FamilySpec, family_label, family_of, get_family
from ffn_variants.models.layers import ffn_modules

each_family = pytest.mark.parametrize("spec", FAMILIES.values(), ids=FAMILIES)


@each_family
def test_the_auto_classes_build_what_the_entry_names(spec: FamilySpec) -> None:
    config = ffn_variants.build_config(spec.name, "relu", hidden_size=8, intermediate_size=8, vocab_size=20)
    assert spec.rotates_pairs or spec.check_heads(8, 8) is None  # heads of one channel
    assert type(config) is resolve_name(spec.config_class)
    language_model = getattr(transformers, AUTO_CLASSES[spec.objective])
    with torch.device("meta"):
        for auto, name in (
            (AutoModel, spec.backbone_class),
            (AutoModelForSequenceClassification, spec.classifier_class),
            (language_model, spec.model_class),
        ):
            model = auto.from_config(config)
            assert type(model) is resolve_name(name)
            assert model.config_class is type(config)
    if task := PIPELINES.get(spec.objective):
        _, about, _ = check_task(task)
        assert about["pt"] == (language_model,)


def stock_of(config_class: type) -> Any:
    """The config of transformers that ours adds to."""
    return next(each for each in config_class.__mro__ if each.__module__.startswith("transformers."))


@each_family
def test_the_stock_architecture_has_the_same_name_and_dropout(spec: FamilySpec) -> None:
    config_class = resolve_name(spec.config_class)
    stock = stock_of(config_class)
    assert (stock.model_type, config_class.model_type) == (spec.name, f"ffn_{spec.name}")
    assert family_of(stock.model_type) is family_of(config_class.model_type) is spec
    known = {field.name for field in fields(config_class)}
    assert {name for names in spec.config_fields.values() for name in names} <= known
    named = (*spec.config_fields.get("hidden_dropout", ()), *spec.config_fields["attention_dropout"])
    assert {getattr(stock(), name) for name in named} == {spec.dropout}


@each_family
def test_the_stock_model_counts_positions_and_has_biases_as_told(spec: FamilySpec) -> None:
    ours = ffn_variants.build_config(spec.name, "gelu", hidden_size=8, intermediate_size=8, vocab_size=20)
    stock = stock_of(type(ours))
    model = AutoModel.from_config(stock(**{field.name: getattr(ours, field.name) for field in fields(stock)}))
    biases = [
        part.bias is not None
        for module in model.modules()
        for ffn in ffn_modules(module)
        for part in ffn.modules()
        if isinstance(part, nn.Linear)
    ]
    assert set(biases) == {spec.has_ffn_biases}
    seen: list[int] = []
    for name, module in model.named_modules():
        if name.endswith(("wpe", "position_embeddings")):
            module.register_forward_hook(lambda _, inputs, __: seen.append(int(inputs[0].flatten()[0])))
    ids = torch.tensor([[5, 6, 7]])
    model(input_ids=ids, **({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}))
    assert seen == ([] if spec.name in ("t5", "llama") else [spec.first_position()])


def test_an_unknown_family_is_refused_and_a_foreign_one_keeps_its_name() -> None:
    with pytest.raises(UsageError, match="unknown family 'gptneo'; did you mean 'gpt_neo'"):
        get_family("gptneo")
    assert family_of("bert") is None
    assert list(map(family_label, (*FAMILIES, "bert"))) == ["GPT-Neo", "RoBERTa", "T5", "Llama", "bert"]
