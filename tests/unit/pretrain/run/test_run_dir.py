"""The run folder: its name, the configuration in it, and its marks."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import pytest

from base.errors import UsageError
from pretrain.config import ResolvedConfig, RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import (
    RESULT_NEUTRAL,
    check_same_config,
    config_hash,
    read_run,
    run_dir,
    write_config,
)


def test_name():
    config = load_config(None, ["--family", "roberta", "--ffn", "relu", "--seed", "7", "--study", "s"])
    path = run_dir(config)
    assert path.parts[:-1] == ("runs", "s", "roberta", "relu")
    assert path.name == f"seed7-{config_hash(config)}"
    assert run_dir(load_config(None, ["--run-name", "mine"])).name == "mine"


def other_value(value: Any, annotation: Any = None) -> Any:
    """Another value of the same type; of a field that allows certain words, another of them."""
    if get_origin(annotation) is Literal:
        return next(word for word in get_args(annotation) if word != value)
    if value is None:
        return 1
    return value + 1 if isinstance(value, int | float) else f"{value}x" if isinstance(value, str) else ("x",)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # any other value will do
def test_hash_covers_every_field_that_can_change_the_result_and_nothing_else():
    """Walks over all fields, so that a new one is either hashed or named as neutral."""
    config = load_config(None)
    plain = config_hash(config)
    for section in RunConfig.model_fields:
        part = getattr(config, section)
        fields = type(part).model_fields if hasattr(part, "model_copy") else [None]
        for field in fields:
            if field is None:
                changed = config.model_copy(
                    update={section: "roberta" if section == "family" else other_value(part)}
                )
            else:
                value = other_value(getattr(part, field), type(part).model_fields[field].annotation)
                changed = config.model_copy(update={section: part.model_copy(update={field: value})})
            neutral = RESULT_NEUTRAL.get(section, set())
            expected_same = neutral is True or field in neutral
            assert (config_hash(changed) == plain) == expected_same, f"{section}.{field}"


def test_hashes_never_change():
    """Runs that stand on somebody's disk must be found again."""
    flags = {
        "63189f86": [],
        "06c2c4dc": ["--ffn", "kan", "--seed", "3"],
        "b07f57b3": ["--ffn", "kan", "--splines.knot-updates", "0", "0.1"],
        "0e8de225": ["--train.batch-size", "8"],
    }
    assert {config_hash(load_config(None, given)): given for given in flags.values()} == flags


def test_a_field_that_a_later_version_adds_leaves_the_hashes_as_they_are():
    class Later(ResolvedConfig):
        novelty: float = 0.5

    config = load_config(None)
    later = Later(**dict(config))
    assert config_hash(later) == config_hash(config) != config_hash(Later(**dict(config), novelty=0.6))


def test_read_run(tmp_path):
    config = load_config(None, ["--ffn", "swish"])
    write_config(tmp_path / "run", config)
    assert read_run(tmp_path / "run") == config
    with pytest.raises(UsageError, match=r"is no run folder \(it has no config.yaml\)"):
        read_run(tmp_path)


def test_another_config_is_refused_naming_the_field(tmp_path):
    write_config(tmp_path, load_config(None))
    check_same_config(tmp_path, load_config(None, ["--train.logging-steps", "3", "--runs-dir", "x"]))
    with pytest.raises(UsageError, match=r"another config \(optim.learning_rate 0.0005, now 0.001\); pass"):
        check_same_config(tmp_path, load_config(None, ["--optim.learning-rate", "1e-3"]))
    write_config(tmp_path / "kan", load_config(None, ["--ffn", "kan"]))
    flags = ["--ffn", "kan", "--model.ffn-options", "grid_size", "3"]
    with pytest.raises(UsageError, match=r"model.ffn_options None, now \{'grid_size': 3\}"):
        check_same_config(tmp_path / "kan", load_config(None, flags))
