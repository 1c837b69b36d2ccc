"""The configuration: its sources, errors in one line, several seeds, and checks before anything is built."""

import contextlib
import json
from pathlib import Path

import pytest
import torch
import yaml
from pydantic import ValidationError

from base.command_line import describe_fields, read_flags
from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.sections import leaf_fields
from pretrain.config import ModelConfig, ResolvedConfig, RunConfig
from pretrain.config_sources import load_own_variant
from pretrain.resolution import load_config, resolve
from pretrain.run.run_folder import read_run, run_dir, sole_writer, write_config
from pretrain.train import TrainArgs
from pretrain.training.dry_run import check_usable, describe_run, describe_runs
from pretrain.training.seeds import configs_of_seeds, train_in_turn
from pretrain.training.training_run import train
from pretrain.training.update import build_scheduler
from tests.cases import listed, small_run


# The configuration: precedence of its sources, its errors in one line, and its round trip.
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


@pytest.mark.parametrize(("flags", "steps"), [((), 7), (("--epochs=5",), None), (("--max-steps=3",), 3)])
def test_typed_epochs_go_before_the_steps_of_a_file(write, flags, steps):
    path = write("optim: {max_steps: 7, num_train_epochs: 1}\n")
    assert load_config(path, flags).optim.max_steps == steps


@pytest.mark.parametrize(("train", "flags", "rows"), listed(__file__, "rows of a step"))
def test_rows_of_a_step_are_not_those_of_a_pass(write, train, flags, rows):
    assert load_config(write(f"train: {{{train}}}"), flags).train.batch_size == rows


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


SPLINE_SETTINGS = yaml.safe_load(Path(__file__).with_name("spline_settings.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("flags", "message"), SPLINE_SETTINGS.items())
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
    (tmp_path / "run" / "seed1").mkdir()
    with pytest.raises(UsageError, match=r"is no run folder \(it has no config.yaml\)"):
        read_run(tmp_path / "run" / "seed1")
    with pytest.raises(UsageError, match=r"no such folder; did you mean .*/run/seed1\? give runs/"):
        read_run(tmp_path / "rum" / "seed1")
    with pytest.raises(UsageError, match=r"no such folder; give runs/"):
        read_run(tmp_path / "rum" / "seed2")
    assert "variants" not in yaml.safe_load(saved.read_text())


def test_shipped_configs_load(repository):
    for path in (repository / "configs").glob("*.yaml"):
        assert load_config(path).family in path.stem.replace("-", "_") or path.stem.startswith("tiny")


def test_every_field_has_help():
    describe_fields(RunConfig)
    assert [".".join(path) for path, field in leaf_fields(RunConfig) if not field.description] == []


# Which runs a command means, checks before anything is built, and that each seed is what it is alone.
# Several seeds in one command: which runs it means, and that each is what it is alone.
@pytest.fixture
def small(runs_dir, tmp_path) -> Path:
    """The file of a small run; each test has a study of its own."""
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_run(runs_dir, output={"study": tmp_path.name})))
    return path


@pytest.fixture
def seeds(small):
    """Make configurations as a command line does."""

    def _seeds(numbers: str, *flags: str) -> list[ResolvedConfig]:
        return configs_of_seeds(read_flags(TrainArgs, [str(small), "--seeds", numbers, *flags]))

    return _seeds


@pytest.mark.parametrize("given", ["1,2,3", "1 2 3", "1, 2,3", "1-3", "1-2,3"])
def test_seeds_are_read_among_other_flags(given):
    flags = ["--ffn", "kan", "--seeds", *given.split(), "--study", "s"]
    configs = configs_of_seeds(read_flags(TrainArgs, flags))
    assert [config.seed for config in configs] == [1, 2, 3]
    assert {(config.model.ffn, config.output.study) for config in configs} == {("kan", "s")}


def test_they_are_the_runs_of_seed(seeds, small):
    both = seeds("1,3", "--ffn", "kan")
    alone = [load_config(small, ["--ffn", "kan", "--seed", seed]) for seed in ("1", "3")]
    assert both == alone
    plan = describe_runs(both)
    assert plan.startswith(f"{describe_run(both[0])}\nseed 3           {run_dir(both[1])} (new)\n\nfamily: ")


@pytest.mark.ci
def test_failed_ones_stop_no_others(seeds, capsys):
    """One that diverged before, one that another process trains, one that meets a defect."""
    configs = seeds("1,2,3,4")
    diverged, locked, broken, _ = map(run_dir, configs)
    for path in (diverged, broken):
        path.mkdir(parents=True)
    record = {"step": 2, "problem": "the loss is nan", "last_good_checkpoint": None}
    (diverged / "FAILED").write_text(json.dumps(record))
    (broken / "provenance.json").write_text('{"sessions": 3}')
    with (
        sole_writer(locked),
        pytest.raises(UsageError, match=r"^3 of 4 seeds failed, .* above: 1, 2, 3; the"),
    ):
        train_in_turn(configs, train)
    told = capsys.readouterr().err
    assert f"error: {diverged} failed: the loss is nan at step 2; lower" in told
    assert f"error: {locked}: another process" in told
    assert "TypeError" in told
    assert [config.seed for config in configs if RunFolder(run_dir(config)).has_marker] == [4]


def test_of_several_processes_the_first_failure_ends_all_and_of_several_layers_each_is_named(
    seeds, monkeypatch
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    trained = []

    def fail(config: RunConfig) -> None:
        trained.append(config.seed)
        raise UsageError("diverged")

    with pytest.raises(UsageError, match=r"^diverged$"):
        train_in_turn(seeds("1,2"), fail)
    assert trained == [1]
    monkeypatch.delenv("WORLD_SIZE")
    layers = [*seeds("1", "--ffn", "relu"), *seeds("1", "--ffn", "kan")]
    with pytest.raises(UsageError, match=r"^2 of 2 runs failed, .* above: relu seed 1, kan seed 1; the"):
        train_in_turn(layers, fail)


@pytest.mark.parametrize("text", ["42", "2", "1", "0", "1-3", "1,3"])
def test_one_number_is_a_seed_and_not_how_many(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    configs_of_seeds(read_flags(TrainArgs, ["--seeds", text]))
    note = f"note: --seeds {text} is seed {text} alone; --seeds 1-{text} are {text} seeds\n"
    assert capsys.readouterr().out == (note if text in ("42", "2") else "")


# Checks of a run before anything is built.
@pytest.mark.parametrize(
    ("warmup", "steps", "share"), [(50, 6, "10%"), (7, 7, "86%"), (6, 7, None), (0, 1, None), (0.05, 1, "0%")]
)
def test_a_warm_up_that_outlasts_the_run_is_refused(warmup, steps, share):
    """The last rate by torch's own scheduler, too."""
    given = {"warmup_ratio" if isinstance(warmup, float) else "warmup_steps": warmup, "max_steps": steps}
    config = load_config(None, overrides={"optim": {"learning_rate": 1.0, **given}})
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
    scheduler = build_scheduler(optimizer, config.optim, steps)
    rates = []
    for _ in range(steps):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert (max(rates) < 1) is (share is not None)
    told = pytest.raises(UsageError, match=f"ends at {max(rates):.0%} of optim.learning_rate; give --optim")
    with told if share else contextlib.nullcontext():
        check_usable(config)
    assert share in (None, f"{max(rates):.0%}")


def test_the_variant_of_a_stored_configuration_is_not_run_without_consent(tmp_path: Path):
    (tmp_path / "mine.py").write_text("raise AssertionError('somebody ran it')\n")
    with pytest.raises(UsageError, match="then consent to run it"):
        load_own_variant(ModelConfig(ffn="mine", ffn_file=f"{tmp_path}/mine.py:MINE"))
