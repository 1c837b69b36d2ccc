"""The configuration: precedence of its sources, its errors in one line, and its round trip."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from base.errors import UsageError
from pretrain.config import ResolvedConfig, RunConfig
from pretrain.resolution import load_config, resolve
from pretrain.run.run_folder import read_run, write_config


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return path

    return _write


def test_flags_win_over_overrides_over_yaml_over_defaults(write):
    path = write("optim: {learning_rate: 3e-4, weight_decay: 0.2, adam_beta1: 0.8}\n")
    config = load_config(
        path, ["--optim.adam-beta1", "0.6"], {"optim": {"weight_decay": 0.3, "adam_beta1": 0.7}}
    )
    assert config.optim.adam_beta2 == RunConfig().optim.adam_beta2
    assert config.optim.learning_rate == 3e-4  # PyYAML reads this as a string
    assert config.optim.weight_decay == 0.3
    assert config.optim.adam_beta1 == 0.6


@pytest.mark.parametrize(
    ("train", "flags", "rows"),
    [
        ("per_device_train_batch_size: 4", [], 16),
        ("per_device_train_batch_size: 4", ["--train.batch-size", "8"], 8),
        ("batch_size: 8", ["--train.per-device-train-batch-size", "2"], 8),
    ],
)
def test_rows_of_a_step_are_not_those_of_a_pass(write, train, flags, rows):
    assert load_config(write(f"train: {{{train}}}"), flags).train.batch_size == rows


def test_passes_of_a_step_are_not_given(write):
    path = write("train: {batch_size: 32, gradient_accumulation_steps: 2}")
    with pytest.raises(UsageError, match=r"train.gradient_accumulation_steps follows from train.batch_size"):
        load_config(path)


VARIANTS = """
model: {ffn: gelu, intermediate_size: 64, hidden_size: 32}
variants:
  kan:
    model: {intermediate_size: 16, ffn_options: {grid_size: 3}}
    optim: {learning_rate: 0.1}
    splines: {knot_updates: [0, 0.1]}
"""


def test_settings_of_a_variant_apply_to_it_only_and_win_over_the_base(write):
    path = write(VARIANTS)
    base = load_config(path)
    assert (base.model.intermediate_size, base.splines) == (64, RunConfig().splines)
    for config in (load_config(path, ["--ffn", "kan"]), load_config(path, None, {"model": {"ffn": "kan"}})):
        assert config.model.intermediate_size == 16
        assert config.model.ffn_options == {"grid_size": 3}
        assert (config.splines.knot_updates, config.splines.prune_below) == ((0.0, 0.1), None)
        assert config.optim.learning_rate == 0.1
        assert config.model.hidden_size == 32
    wider = load_config(path, None, {"model": {"ffn": "kan", "intermediate_size": 128}, "seed": 5})
    assert (wider.model.intermediate_size, wider.seed) == (16, 5)
    assert load_config(path, ["--ffn=kan", "--model.intermediate-size", "8"]).model.intermediate_size == 8


def test_a_variant_with_another_width_stays_paired_with_the_base(write):
    path = write(VARIANTS)
    assert load_config(path, ["--ffn", "kan"]).model.paired_intermediate_size == 64
    assert load_config(path, ["--ffn", "relu"]).model.paired_intermediate_size is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--splines.penalty 0.1",
            r"splines.penalty has no effect with model.ffn 'gelu', which has no splines",
        ),
        ("--ffn fourier-kan --splines.knot-updates 0.1", "splines.knot_updates has no effect"),
        ("--ffn kan --splines.prune-below 0.1", "splines.prune_below needs model.ffn_options splines sparse"),
        (
            "--ffn kan --model.ffn-options splines sparse --splines.prune-below 0.1 "
            "--splines.knot-updates 0 0.9",
            r"splines.knot_updates 0.9 is after splines.prune_at 0.75: .* move them before",
        ),
        ("--ffn kan --splines.knot-updates 1.0", "splines.knot-updates|splines.knot_updates"),
        (
            "--ffn kan --splines.knot-updates 0.5 --train.compile-model",
            "train.compile_model compiles the layers as they are",
        ),
    ],
)
def test_spline_settings_without_effect_are_errors(flags, message):
    with pytest.raises((UsageError, SystemExit), match=message):
        load_config(None, flags.split())


def test_what_runs_is_another_type_than_what_was_written():
    written = RunConfig.model_validate({"family": "roberta", "data": {"block_size": 64}})
    runs = resolve(written)
    assert (written.model.max_position_embeddings, written.model.attention_dropout) == (None, None)
    assert (runs.model.max_position_embeddings, runs.model.attention_dropout) == (65, 0.1)
    assert isinstance(runs, ResolvedConfig)
    assert not isinstance(written, ResolvedConfig)
    with pytest.raises(ValidationError, match="max_position_embeddings"):
        ResolvedConfig(**dict(runs) | {"model": dict(written.model)})


@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "t5", "llama"])
def test_saved_config_is_a_valid_input_and_reads_back_the_same(write, tmp_path, family):
    config = load_config(write(VARIANTS), ["--ffn", "kan", "--family", family])
    write_config(tmp_path / "run", config)
    saved = tmp_path / "run" / "config.yaml"
    assert load_config(saved) == config
    assert read_run(saved.parent) == config
    assert "variants" not in yaml.safe_load(saved.read_text())


def test_shipped_configs_load(repository):
    for path in (repository / "configs").glob("*.yaml"):
        assert load_config(path).family in path.stem.replace("-", "_") or path.stem.startswith("tiny")


def test_every_field_has_help():
    def sections(model):
        yield model
        for field in model.model_fields.values():
            if hasattr(field.annotation, "model_fields"):
                yield from sections(field.annotation)

    for section in sections(RunConfig):
        for name, field in section.model_fields.items():
            assert field.description or hasattr(field.annotation, "model_fields"), (
                f"{section.__name__}.{name}"
            )


def test_a_configuration_without_flags_is_read_without_looking_for_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pretrain.resolution.read_flags", None)  # a study reads hundreds
    assert load_config(None, overrides={"seed": 3}).seed == 3
