"""How the runs of a study were trained, as their configurations say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from eval.report.analysis import Analysis
from pretrain.run.folders import RunFolder

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "data": ("source", "vocab_size", "block_size"),
    "model": ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    "optim": (
        *("optimizer", "learning_rate", "weight_decay", "lr_scheduler_type", "warmup_ratio", "warmup_steps"),
        *("max_grad_norm", "num_train_epochs", "max_steps"),
    ),
    "train": ("batch_size", "mixed_precision"),
}
"""Fields of a run's configuration that a paper states, by section."""


def training_settings(analysis: Analysis) -> dict[str, list[Any]]:
    """Return the values of each field over all runs that are compared, in order; empty for a table."""
    found: dict[str, list[Any]] = {}
    if analysis.source.kind != "study folder":
        return found
    for run_id in dict.fromkeys(x.run_id for x in analysis.facts):
        try:
            config = read_yaml(RunFolder(analysis.source.path / run_id).config_file)
        except UsageError:  # a damaged one is named in the report's checks
            continue
        for section, names in SETTINGS.items():
            for name in names:
                value = mapping(config.get(section)).get(name)
                values = found.setdefault(name, [])
                if value is not None and value not in values:
                    values.append(value)
    return {name: values for name, values in found.items() if values}
