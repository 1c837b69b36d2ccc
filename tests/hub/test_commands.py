"""The commands of the README that read the hub: training, minimal pairs, classification, models by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pretrain.data.corpus import TINYSTORIES, TINYSTORIES_REVISION
from tests.hub.published import read_jsonl, write_blimp, write_data_set, write_glue, write_tinystories
from tests.hub.stand_in import StandIn, Trouble
from tests.hub.warm_commands import error_of

pytestmark = pytest.mark.slow

TINY = (
    *("--data.vocab-size", 400, "--data.block-size", 64, "--data.max-validation-documents", 40),
    *("--model.hidden-size", 16, "--model.intermediate-size", 32, "--model.num-attention-heads", 2),
    *("--model.num-hidden-layers", 1, "--optim.max-steps", 4, "--train.batch-size", 4),
    *("--train.no-torch-compile", "--run-name", "r"),
)
GLUE = ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte")
SUPER_GLUE = ("boolq", "multirc", "wsc")
QUICK = (
    *("--max-pairs", 4, "--finetune.num-train-epochs", 1, "--finetune.max-train-examples", 16),
    *("--finetune.max-validation-examples", 8, "--workers", 1),
)


@pytest.fixture
def texts(shared_data: Path) -> dict[str, list[str]]:
    """Real stories."""
    files = {split: shared_data / f"tinystories/{split}.jsonl.gz" for split in ("train", "validation")}
    return {split: [row["text"] for row in read_jsonl(path, 300)] for split, path in files.items()}


@pytest.fixture
def tinystories(hub: StandIn, texts: dict[str, list[str]], tmp_path: Path) -> Path:
    """Publish the pinned revision, and a newer one of the branch main."""
    newer = write_tinystories(tmp_path / "newer", ["Not these."] * 300, ["Nor these."] * 50)
    hub.publish("datasets", TINYSTORIES, newer)
    folder = write_tinystories(tmp_path / "stories", texts["train"], texts["validation"])
    hub.publish("datasets", TINYSTORIES, folder, branch="pinned", commit=TINYSTORIES_REVISION)
    return folder


@pytest.fixture
def train(repository: Path, tmp_path: Path) -> Callable[..., tuple]:
    """The README's first command that needs the hub, at a tiny size."""

    def command(runs: str = "runs", *flags: object) -> tuple:
        place = ("--runs-dir", tmp_path / runs)
        return ("pretrain.train", repository / "configs/gpt-neo.yaml", *TINY, *place, *flags)

    return command


def tokens(runs: Path) -> dict[str, bytes]:
    """The packed rows of a corpus, which hold every token."""
    return {path.name: path.read_bytes() for path in (runs / ".cache").rglob("*.bin")}


def test_training_reads_the_pinned_stories_through_a_download_that_breaks_off(
    tinystories: Path, hub: StandIn, run, run_offline, train, tmp_path: Path
) -> None:
    hub.troubles.append(Trouble("GET /storage/", cut_at=20_000))
    line = error_of(run(*train()))
    assert f"cannot load {TINYSTORIES} at {TINYSTORIES_REVISION} from the hub: " in line
    assert "cannot be reached" in line
    assert "--data.tinystories-dir" in line
    assert not (tmp_path / "runs").exists()
    hub.troubles.clear()
    assert run(*train()).returncode == 0

    # The same files, named as a folder: the same tokens.
    from_folder = run_offline(*train("other", "--data.tinystories-dir", tinystories))
    assert from_folder.returncode == 0, from_folder.stderr
    found = tokens(tmp_path / "runs")
    assert len(found) == 6
    assert found == tokens(tmp_path / "other")

    # Everything made once more, of the client's cache: by a hub that is gone, or is not to be asked.
    hub.troubles.append(Trouble(".", status=500))
    for command, place in ((run, "again"), (run_offline, "offline")):
        done = command(*train(place))
        assert done.returncode == 0, done.stderr
        assert tokens(tmp_path / place) == found


@pytest.fixture
def evaluation_data(hub: StandIn, shared_data: Path, tmp_path: Path) -> None:
    """Publish BLiMP, GLUE and SuperGLUE."""
    hub.publish("datasets", "nyu-mll/blimp", write_blimp(tmp_path / "blimp", shared_data, 20))
    splits = dict.fromkeys((*GLUE, *SUPER_GLUE), ("train", "validation"))
    splits["mnli"] = ("train", "validation_matched", "validation_mismatched")
    for name, parts in {"nyu-mll/glue": GLUE, "aps/super_glue": SUPER_GLUE}.items():
        chosen = {part: splits[part] for part in parts}
        hub.publish("datasets", name, write_glue(tmp_path / name, shared_data, chosen, 60))


@pytest.fixture
def trained(run_offline, train, tmp_path: Path) -> Path:
    """The folder of a run, of generated text."""
    done = run_offline(*train("trained", "--data.source", "embedded", "--data.num-stories", 300))
    assert done.returncode == 0, done.stderr
    return next((tmp_path / "trained").rglob("model")).parent


def scores(folder: Path) -> pd.Series:
    """Every score of a run, by task and metric."""
    rows = pd.read_parquet(next(folder.rglob("rows.parquet")))
    return rows.set_index(["benchmark", "task", "metric"])["score"].sort_index()


def test_a_run_is_scored_on_minimal_pairs_and_classification_of_the_hub(
    evaluation_data, hub: StandIn, run, run_offline, trained: Path, tmp_path: Path
) -> None:
    command = ("eval", "--suites", "blimp", "glue", *QUICK)
    again = {name: shutil.copytree(trained, tmp_path / name / "r") for name in ("later", "offline")}

    hub.troubles.append(Trouble("GET /storage/", status=429, retry_after=0, times=3))
    done = run(*command, trained)
    assert done.returncode == 0, done.stderr
    found = scores(trained)
    assert found.loc["blimp"].index.get_level_values("task").nunique() == 67
    assert found.loc["glue"].index.get_level_values("task").nunique() == 11

    # Pairs of the same files, named as a folder. (Classification draws from as many rows as there are.)
    subset = tmp_path / "files/full"
    subset.mkdir(parents=True)
    for path in sorted((tmp_path / "blimp").glob("*/train-*.parquet")):
        pd.read_parquet(path).to_json(subset / f"{path.parent.name}.jsonl", orient="records", lines=True)
    other = shutil.copytree(trained, tmp_path / "other/r", ignore=shutil.ignore_patterns("eval"))
    assert (
        run_offline("eval", other, "--suites", "blimp", *QUICK, "--blimp-dir", subset.parent).returncode == 0
    )
    pd.testing.assert_series_equal(scores(other).loc["blimp"], found.loc["blimp"])

    # A hub that is gone, or is not to be asked: the cache.
    hub.troubles[:] = [Trouble(".", status=500)]
    for name, command_of in (("later", run), ("offline", run_offline)):
        done = command_of(*command, again[name])
        assert done.returncode == 0, done.stderr
        pd.testing.assert_series_equal(scores(again[name]), found)


def test_a_task_of_lm_eval_whose_data_the_hub_has_is_scored_or_told(
    hub: StandIn, run, run_offline, trained: Path, tmp_path: Path
) -> None:
    """As the tasks that it ships are; these pairs are written here."""
    pairs = [{"good": f"The cat {i} sat.", "bad": f"The cat {i} sit."} for i in range(8)]
    hub.publish(
        "datasets", "someone/pairs", write_data_set(tmp_path / "pairs", {"default": {"train": pairs}})
    )
    definition = {
        "task": "my_pairs",
        "dataset_path": "someone/pairs",
        "output_type": "multiple_choice",
        "test_split": "train",
        "doc_to_text": "",
        "doc_to_target": 0,
        "doc_to_choice": "{{[good, bad]}}",
        "metric_list": [{"metric": "acc"}],
    }
    (tmp_path / "my_pairs.yaml").write_text(yaml.safe_dump(definition), encoding="utf-8")
    command = ("eval", trained, "--tasks", "my_pairs", "--include-path", tmp_path, "--workers", 1)
    hub.troubles.append(Trouble("GET /storage/", status=500))
    line = error_of(run(*command))
    assert "cannot load lm-eval's task my_pairs from the hub: " in line
    assert "status 500" in line
    hub.troubles.clear()
    for command_of in (run, run_offline):
        shutil.rmtree(trained / "eval", ignore_errors=True)
        done = command_of(*command)
        assert done.returncode == 0, done.stderr
        assert "lm-eval-my_pairs" in set(scores(trained).index.get_level_values("benchmark"))
