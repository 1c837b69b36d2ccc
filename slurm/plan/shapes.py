"""What a run's cost depends on: its model, the length of its rows, and how many tokens it reads."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import ffn_variants
from base.errors import AbsentError
from eval.classification.cost import CHARACTERS_PER_TOKEN
from pretrain.config import RunConfig
from pretrain.data import corpus
from pretrain.data.prepare import read_text
from pretrain.model.build import build
from pretrain.model.costs import cost_facts
from pretrain.resolution import resolve
from pretrain.training.dry_run import hub_budget, vocab_size

# Forward and backward pass: twice the forward's operations go back.
TRAINING_OVER_FORWARD = 3

Shape = tuple[str, str, int]


class Counts(NamedTuple):
    """Of one model, reading rows of one length."""

    parameters: int
    flops: dict[str, int]
    """Of a forward pass for one token, as ``forward_flops`` has them."""


_LETTERS: dict[str, int] = {}
_COUNTS: dict[tuple[Shape, int, int | None], Counts] = {}


def shape_of(config: RunConfig) -> Shape:
    """Return what configurations of the same speed have in common: family, model, tokens of a row."""
    resolved = resolve(config)
    return config.family, resolved.model.model_dump_json(), resolved.data.block_size


def num_tokens(config: RunConfig) -> int | None:
    """Return about how many tokens a run trains on; None for text that is not here, or a part of the hub's.

    They are told by the config and the text alone, prepared or not: those of full rows where the number of
    steps is given, else by the letters.
    """
    if corpus.is_whole_hub(config.data):
        return hub_budget(config)
    if steps := config.optim.max_steps:
        return steps * config.train.batch_size * config.data.block_size
    with suppress(AbsentError):
        if config.data.source == "embedded" or corpus.files(config.data)["train"]:
            return round(config.optim.num_train_epochs * _letters(config) / CHARACTERS_PER_TOKEN)
    return None


def is_guess(config: RunConfig) -> bool:
    """Whether a run's tokens are told by the letters of its text."""
    return config.optim.max_steps is None and not corpus.is_whole_hub(config.data)


def _letters(config: RunConfig) -> int:
    key = config.data.model_dump_json()
    if key not in _LETTERS:
        _LETTERS[key] = read_text(config).characters
    return _LETTERS[key]


def training_flops(config: RunConfig) -> float:
    """Floating-point operations of training on one token, forward and backward."""
    return TRAINING_OVER_FORWARD * forward_flops(config)["total"]


def num_parameters(config: RunConfig) -> int:
    """Parameters of a run's model, all of them; a token meets fewer of experts and product keys.

    The vocabulary is taken to be as large as was asked for, also where a small text yields fewer.
    """
    return _counts(config, None).parameters


def forward_flops(config: RunConfig, length: int | None = None) -> dict[str, int]:
    """Floating-point operations of a forward pass for one token.

    Args:
        config: The run.
        length: Tokens of a row; None for those of its training.

    Returns:
        ``total``, its parts ``ffn``, ``attention`` and ``other``, and of ``other`` the part ``head``: the
        projection to the vocabulary, which classifiers do not have.
    """
    return _counts(config, length).flops


def _counts(config: RunConfig, length: int | None) -> Counts:
    size, _ = vocab_size(config, None)
    key = (shape_of(config), size, length)
    if key not in _COUNTS:
        network: Any = build(config, size)
        facts = cost_facts(config, network)
        flops = facts["flops_per_token"] if length is None else ffn_variants.count_flops(network, length)
        head = 2 * network.config.hidden_size * size
        _COUNTS[key] = Counts(facts["parameters"]["total"], flops | {"head": head})
    return _COUNTS[key]
