"""What transformers' tests are told of a family: small configs, inputs, and the classes to test."""

from __future__ import annotations

import unittest
from pkgutil import resolve_name
from typing import Any

import torch

from ffn_variants import FAMILIES, build_config
from tests.stock_models import stock_class, stock_config

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
}
OF_FAMILY: dict[str, dict[str, Any]] = {
    "gpt_neo": {"window_size": 7},
    "roberta": {"max_position_embeddings": 65},
}


class Tester:
    """Makes configs and inputs, by the names that the tests have for them."""

    batch_size, is_training = 3, True
    seq_length = encoder_seq_length = decoder_seq_length = 7
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 4

    def __init__(self, family: str, variant: str | None):
        self.family, self.variant = family, variant

    def get_config(self) -> Any:
        """A config of this project, or the stock one with the same values where there is no variant."""
        sizes = SIZES | OF_FAMILY.get(self.family, {})
        config = build_config(self.family, self.variant or FAMILIES[self.family].stock_ffn, **sizes)
        return config if self.variant else stock_config(config)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, torch.Tensor]]:
        ids = torch.randint(3, SIZES["vocab_size"], (self.batch_size, self.seq_length))
        ids[:, -1] = 2  # of T5, the stock class classifies by the last of these
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.family == "t5":
            inputs |= {"decoder_input_ids": ids.clone(), "decoder_attention_mask": torch.ones_like(ids)}
        return self.get_config(), inputs


def make_case(common: Any, family: str, is_classifier: bool, variant: str | None) -> type[unittest.TestCase]:
    """The tests of a family's backbone and language model, or of its classifier alone.

    Args:
        common: The module with the tests.
        family: A name in ``FAMILIES``.
        is_classifier: Which of them: a test stops at the first class that it fails on.
        variant: A name in ``FFN_VARIANTS``; None for the stock classes.
    """
    spec = FAMILIES[family]
    places = [spec.classifier_class] if is_classifier else [spec.backbone_class, spec.model_class]
    classes = [resolve_name(place) for place in places]
    writes = any(each.can_generate() for each in classes)

    class Case(
        common.ModelTesterMixin, *([common.GenerationTesterMixin] if writes else []), unittest.TestCase
    ):
        all_model_classes = tuple(classes if variant else map(stock_class, classes))
        is_encoder_decoder = family == "t5"

        def setUp(self) -> None:
            self.model_tester = Tester(family, variant)

    return Case
