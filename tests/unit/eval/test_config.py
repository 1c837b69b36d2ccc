"""What may be evaluated and how, equal errors in one line, and models that are not as training left them."""

import hashlib
from pathlib import Path

import pytest
import yaml

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from eval.command import study_config
from eval.config import EvalConfig
from eval.evaluate import Failure, failure_lines
from eval.finetuning import PRESETS, FinetuneConfig
from eval.identity import weights_hash
from tests.cases import listed

# What may be evaluated and how: settings, presets of fine-tuning, and what a study's file says.


def test_a_study_section_is_read_as_yaml_gives_it(tmp_path):
    finetune = {"tasks": ["rte"], "learning_rate": "3e-4"}
    config = EvalConfig.model_validate({"glue_dir": str(tmp_path), "finetune": finetune})
    assert (config.glue_dir, config.finetune.tasks) == (tmp_path, ("rte",))
    assert config.finetune.learning_rate == 3e-4
    assert EvalConfig.model_validate(config.model_dump(mode="json")) == config


# Presets of fine-tuning: what each of them says, and that what is given explicitly wins.


RECIPES = yaml.safe_load(Path(__file__).with_name("recipes.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("preset", "tasks", "expected"),
    [(preset, *each) for preset in RECIPES["presets"] for each in RECIPES["presets"][preset]],
)
def test_a_preset_is_the_recipe_that_it_is_called_after(preset, tasks, expected):
    for task in tasks.split():
        found = FinetuneConfig(preset=preset).resolve(task).model_dump(mode="json")
        assert {name: found[name] for name in expected} == expected


def test_fr_kan_drops_out_before_heads_of_this_project_only():
    config = FinetuneConfig(preset="fr-kan", head=("linear", "fourier-kan", "default"))
    rates = {head.name: config.resolve("rte", head).head_dropout for head in config.heads}
    assert rates == {"linear": 0.1, "fourier-kan": 0.1, "default": 0.0}
    tasks = FinetuneConfig(preset="babylm25").task_names
    assert sorted(tasks) == ["boolq", "mnli", "mrpc", "multirc", "qqp", "rte", "wsc"]


def test_younger_settings_leave_older_protocols_as_they_were():
    config = FinetuneConfig(head=("linear frozen",))
    before = RECIPES["linear frozen"]
    assert config.resolve("rte").record() == before
    dropped = FinetuneConfig(head=("linear frozen",), head_dropout=0.2)
    assert dropped.resolve("rte").record() == {**before, "head_dropout": 0.2}


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_given_wins_over_the_preset_and_its_tasks(preset):
    given = {"learning_rate": 1e-3, "lr_scheduler_type": "constant", "per_device_train_batch_size": 7}
    given |= {"num_train_epochs": 3, "patience": 2, "metric_for_best_model": "micro_f1", "seeds": (1, 2)}
    config = FinetuneConfig(preset=preset, tasks=("rte", "rte"), **given)
    for task in ("wsc", "boolq", "mnli", "mrpc"):
        found = config.resolve(task).model_dump()
        assert {name: found[name] for name in given} == given
    assert config.task_names == ("rte",)


# What a study's file may have evaluated.
def test_task_files_of_a_study_need_the_flag_of_whoever_runs_them(tmp_path):
    (tmp_path / "study.yaml").write_text("evaluation: {tasks: [mine], include_path: [tasks]}")
    with pytest.raises(UsageError, match=r"may run code; if you trust them, add --include-path tasks"):
        study_config([tmp_path])
    assert study_config([tmp_path], [Path("tasks")]).include_path == (Path("tasks"),)


def test_what_archived_studies_asked_can_be_asked_again(repository: Path):
    for file in (repository / "docs").rglob("study.yaml"):
        assert study_config([file.parent]).protocol.preset == "native"


@pytest.mark.parametrize(("failures", "lines"), listed(__file__, "equal errors"))
def test_equal_errors_are_one_line(failures, lines) -> None:
    found = [Failure(Path(run), task, UsageError(words)) for run, task, words in failures]
    assert tuple(failure_lines(found)) == lines


# The hash of a run's weights, and a model that is not as its training left it.
NAMES = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    for name in (*NAMES, "README.md"):
        (tmp_path / "model" / name).write_bytes(f"{{}} of {name}".encode())
    return tmp_path


def by_hand(run_dir: Path) -> str:
    digest = hashlib.sha256()
    for name in NAMES:
        digest.update(name.encode() + hashlib.sha256((run_dir / "model" / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("has_checksums", [False, True])
def test_the_hash_is_that_of_the_files(run_dir, has_checksums):
    if has_checksums:
        write_completion(RunFolder(run_dir), {}, "0123abcd")
    assert weights_hash(run_dir) == by_hand(run_dir)
    (run_dir / "model" / "README.md").write_text("another card", encoding="utf-8")
    assert weights_hash(run_dir) == by_hand(run_dir)
    if not has_checksums:
        (run_dir / "model" / "model.safetensors").write_bytes(b"other weights")
        assert weights_hash(run_dir) == by_hand(run_dir)


DAMAGE = {
    "emptied": lambda path: path.write_bytes(b""),
    "flipped": lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", DAMAGE)
def test_a_model_that_is_not_as_it_was_written_is_refused_with_the_cure(run_dir, name, change):
    write_completion(RunFolder(run_dir), {}, "0123abcd")
    DAMAGE[change](run_dir / "model" / name)
    with pytest.raises(UsageError) as error:
        weights_hash(run_dir)
    said = str(error.value)
    assert "\n" not in said
    if (name, change) != ("config.json", "deleted"):  # then there is no model, and the same run is the cure
        assert name in said
        assert f"ffn-ablations train {run_dir}/config.yaml" in said


def test_a_file_that_came_later_is_refused(run_dir):
    write_completion(RunFolder(run_dir), {}, "0123abcd")
    (run_dir / "model" / "added_tokens.json").write_text("{}")
    with pytest.raises(UsageError, match=r"added_tokens\.json was not there"):
        weights_hash(run_dir)
