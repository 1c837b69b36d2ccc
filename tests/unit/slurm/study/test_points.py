"""Levels of fields: their texts, and what they set."""

from __future__ import annotations

import pytest

from slurm.study.ffn_levels import canonical_level, field_point, find, leaves, settings


@pytest.mark.parametrize(
    ("name", "value", "level", "read"),
    [
        ("optim.learning_rate", "3e-4", "0.0003", 3e-4),
        ("optim.learning_rate", 1, "1", 1.0),
        ("optim.learning_rate", 0.1 + 0.2, "0.30000000000000004", 0.1 + 0.2),
        ("train.batch_size", 8.0, "8", 8),
        ("optim.lr_scheduler_type", "cosine", "cosine", "cosine"),
        ("optim.max_grad_norm", None, "none", None),
        ("splines.knot_updates", [0, 0.1], "0 0.1", (0.0, 0.1)),
    ],
)
def test_a_level_is_text_and_sets_the_value(name: str, value: object, level: str, read: object) -> None:
    point = field_point(name, value)
    assert (point.axis, point.level, find(point.values, name)) == (name, level, read)


def test_levels_are_found_however_they_are_written() -> None:
    assert canonical_level("optim.learning_rate", "3e-3") == "0.003"
    assert canonical_level("tokens", "1000k") == "1M"
    assert canonical_level("size", "0.1M") == "0.1M"
    assert canonical_level("optim.learning_rate", "fast") == "fast"


def test_what_a_configuration_sets_is_named_with_and_without_its_variant() -> None:
    values = {"optim": {"learning_rate": 1}, "variants": {"kan": {"model": {"hidden_size": 3, "x": {}}}}}
    assert list(leaves(values)) == [
        "optim.learning_rate",
        "variants.kan.model.hidden_size",
        "variants.kan.model.x",
    ]
    assert dict(settings(values))["model.hidden_size"] == "variants.kan.model.hidden_size"
