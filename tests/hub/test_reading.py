"""Splits, models and the texts of a training: the same content whatever the hub does, or one line."""

import gzip
import hashlib
import json
import random
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from eval.classification.schema import shipped_task
from eval.zero_shot.pairs_and_choices import HUB_BLIMP, HUB_BLIMP_REVISION
from pretrain.data.corpus import TINYSTORIES, TINYSTORIES_REVISION
from scores.suites import SUITES
from tests.hub.stand_in import StandIn, Trouble

Rows = Mapping[str, Mapping[str, Sequence[dict]]]
"""By configuration and split."""


def write_splits(folder: Path, configurations: Rows, place: str = "{}/0000.parquet") -> Path:
    """Write a repository without a card; its splits lie as in ``refs/convert/parquet`` by default."""
    for name, splits in configurations.items():
        for split, rows in splits.items():
            path = folder / name / place.format(split)
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return folder


def write_data_set(folder: Path, configurations: Rows) -> Path:
    """Write a repository whose card says where each split lies."""
    write_splits(folder, configurations, "{}-00000-of-00001.parquet")
    card = []
    for name, splits in configurations.items():
        files = [{"split": split, "path": f"{name}/{split}-*"} for split in splits]
        card.append({"config_name": name, "data_files": files})
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': card})}---\n# A data set\n")
    return folder


def read_jsonl(path: Path, limit: int | None = None) -> list[dict]:
    """Read rows of the real subsets beside the checkout."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line, _ in zip(file, range(limit or 10**9), strict=False)]


GLUE: Any = shipped_task("rte").hub
NAME = "someone/some-texts"
MODEL = "someone/some-model"
READ = ("tests.hub.read", "split", NAME, "train", "one")
READ_MODEL = ("tests.hub.read", "model", MODEL)


def rows(tag: str, count: int = 400) -> list[dict]:
    """Rows that take some 20 KB, as they do not compress."""
    chance = random.Random(tag)
    return [{"text": f"{tag} {chance.randbytes(25).hex()}", "label": i % 2} for i in range(count)]


@pytest.fixture
def published(hub: StandIn, tmp_path: Path) -> str:
    """Publish two configurations; returns the commit."""
    content = {name: {"train": rows(name), "test": rows(f"{name} test")} for name in ("one", "two")}
    return hub.publish("datasets", NAME, write_data_set(tmp_path / "repository", content))


@pytest.fixture
def models(hub: StandIn, tmp_path: Path) -> dict[str, dict[str, str]]:
    """Publish two revisions; returns the SHA-256 of the files of each that are to be read."""
    digests = {}
    for branch in ("main", "v1"):
        folder = tmp_path / branch
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": "bert", "branch": branch}))
        (folder / "model.safetensors").write_bytes(random.Random(branch).randbytes(30_000))
        files = sorted(folder.iterdir())
        digests[branch] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        (folder / "pytorch_model.bin").write_bytes(b"never read")
        (folder / "modeling.py").write_text("raise SystemExit('never run')")
        hub.publish("models", MODEL, folder, branch=branch)
    return digests


@pytest.fixture
def reading(published: str, models: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], Any]]:
    """By kind a command that reads, and what it is to find."""
    return {"split": (READ, rows("one")), "model": (READ_MODEL, models["main"])}


def loaded(done: subprocess.CompletedProcess[str]) -> Any:
    """What a command read."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a command ended with."""
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2, done.stderr
    return line


def named(value: Any) -> str:
    is_trouble = isinstance(value, Trouble)
    return f"{value.where} {value.status or value.delay_s or value.cut_at}" if is_trouble else str(value)


SLOW = pytest.mark.slow
PASSING = [
    pytest.param("split", Trouble("GET /storage/", cut_at=9000, times=2), marks=pytest.mark.ci),
    pytest.param(
        "split", Trouble("HEAD /datasets/.*parquet", status=429, retry_after=1, times=1), marks=SLOW
    ),
    pytest.param("split", Trouble("HEAD /datasets/|GET /storage/", delay_s=3.0, times=3), marks=SLOW),
    pytest.param("model", Trouble("GET /storage/", cut_at=9000, times=2), marks=SLOW),
]


@pytest.mark.parametrize(("kind", "trouble"), PASSING, ids=named)
def test_a_passing_trouble_changes_nothing(reading, hub: StandIn, run, kind: str, trouble: Trouble) -> None:
    command, expected = reading[kind]
    hub.troubles[:] = [Trouble(**vars(trouble))]
    assert loaded(run(*command)) == expected
    assert hub.troubles[0].times < trouble.times


@pytest.mark.parametrize(
    ("kind", "trouble", "words"),
    [
        ("split", Trouble("GET /storage/", cut_at=9000), "cannot be reached"),
        ("split", Trouble(".", status=503), "answers with status 503"),
        ("model", Trouble("GET /storage/", status=429, retry_after=0), "answers with status 429"),
    ],
    ids=named,
)
@pytest.mark.slow
def test_a_lasting_trouble_is_one_line_and_leaves_nothing_that_is_believed(
    reading, hub: StandIn, run, run_offline, kind: str, trouble: Trouble, words: str
) -> None:
    command, expected = reading[kind]
    hub.troubles.append(trouble)
    line = error_of(run(*command))
    named = {"split": f"cannot load {NAME} (one) from the hub: ", "model": "cannot be loaded from the hub"}
    assert named[kind] in line
    assert hub.endpoint in line
    assert words in line
    assert "give the same command again later (what is loaded is kept)" in line
    error_of(run_offline(*command))
    hub.troubles.clear()
    assert loaded(run(*command)) == expected
    assert loaded(run_offline(*command)) == expected


@pytest.mark.slow
def test_no_other_revision_stands_in_for_the_one_asked_for(
    published: str, hub: StandIn, run, run_offline, tmp_path: Path
) -> None:
    newer = write_data_set(tmp_path / "newer", {"one": {"train": rows("newer")}})
    commit = hub.publish("datasets", NAME, newer, branch="next")
    assert loaded(run(*READ)) == rows("one")
    assert loaded(run(*READ, "next")) == rows("newer")
    for known, expected in {"": "one", published: "one", "next": "newer", commit: "newer"}.items():
        assert loaded(run_offline(*READ, known)) == rows(expected)
    for unknown in ("f" * 40, "v1.0"):
        line = error_of(run_offline(*READ, unknown))
        assert f"{NAME} (one) at {unknown} from the hub: the cache" in line
        assert "HF_HUB_OFFLINE" in line
    hub.troubles.append(Trouble(".", status=500))
    hub.requests.clear()
    assert loaded(run(*READ, published)) == rows("one")  # older, and a commit: nobody is asked
    assert hub.requests == []
    assert loaded(run(*READ)) == rows("one")  # the newest of the branch main, after a while
    assert hub.requests


@pytest.mark.slow
def test_a_folder_of_a_branch_is_read_again_from_the_cache(hub: StandIn, run, run_offline, tmp_path) -> None:
    """As MultiWOZ is: a branch with a stroke in its name, and one of its folders."""
    rows_of = {
        place: {"train": rows(place), "validation": rows("v"), "test": rows("t")} for place in ("a", "b")
    }
    folder = write_splits(tmp_path / "converted", rows_of)
    hub.publish("datasets", NAME, folder, branch="refs/convert/parquet")
    code = (*READ[:-1], "", "refs/convert/parquet", "b")
    assert loaded(run(*code)) == rows("b")
    assert loaded(run_offline(*code)) == rows("b")
    assert "the cache" in error_of(run_offline(*code[:-1], "a"))
    assert "the cache" in error_of(run_offline(*code[:-1]))  # all of it


@pytest.mark.slow
def test_a_model_is_read_at_its_revision_and_then_of_the_cache(models, hub, run, run_offline) -> None:
    old = (*READ_MODEL[:-1], f"{MODEL}@v1")
    assert loaded(run(*READ_MODEL)) == models["main"]
    assert loaded(run(*old)) == models["v1"]
    hub.troubles.append(Trouble(".", status=500))
    for command in (run, run_offline):
        assert loaded(command(*READ_MODEL)) == models["main"]
        assert loaded(command(*old)) == models["v1"]
    assert "HF_HUB_OFFLINE" in error_of(run_offline(*READ_MODEL[:-1], f"{MODEL}@v2"))


@pytest.mark.parametrize(
    ("name", "words"),
    [("someone/nothing", "Repository Not Found for url"), (f"{MODEL}@v2", "Revision Not Found for url")],
)
@pytest.mark.slow
def test_what_the_hub_does_not_have_is_one_line(models, run, name: str, words: str) -> None:
    line = error_of(run(*READ_MODEL[:-1], name))
    assert f"{name} is no folder, and cannot be loaded from the hub (http://127.0.0.1" in line
    assert words in line
    assert "; name a run, a study, or a folder with a saved model" in line


@pytest.mark.parametrize(
    ("suite", "path", "commit", "splits"),
    [
        ("blimp", HUB_BLIMP, HUB_BLIMP_REVISION, {SUITES["blimp"].tasks[0]: ["train"]}),
        ("rte", GLUE.path, str(GLUE.revision), {"rte": ["train", "validation"]}),
    ],
)
@pytest.mark.ci
def test_suites_are_read_at_their_pinned_revision(hub: StandIn, run, tmp_path, suite, path, commit, splits):
    for revision, branch in ((commit, "old"), ("f" * 40, "main")):
        pairs = [
            {"sentence_good": revision, "sentence_bad": "b", "sentence1": "", "sentence2": "", "label": 0}
        ]
        content = {name: dict.fromkeys(parts, pairs) for name, parts in splits.items()}
        folder = write_data_set(tmp_path / branch, content)
        hub.publish("datasets", path, folder, branch=branch, commit=revision)
    assert [row["sentence_good"] for row in loaded(run("tests.hub.read", "suite", suite))] == [commit]


TINY = (
    *("--data.vocab-size", 400, "--data.block-size", 64, "--data.max-validation-documents", 40),
    *("--model.hidden-size", 16, "--model.intermediate-size", 32, "--model.num-attention-heads", 2),
    *("--model.num-hidden-layers", 1, "--optim.max-steps", 4, "--train.batch-size", 4),
    *("--train.no-torch-compile", "--run-name", "r"),
)


@pytest.fixture
def tinystories(hub: StandIn, shared_data: Path, tmp_path: Path) -> Path:
    """Publish real stories at the pinned revision, and others at a newer one of the branch main."""
    newer = {"train": [{"text": "Not these."}] * 300, "validation": [{"text": "Nor these."}] * 50}
    hub.publish("datasets", TINYSTORIES, write_data_set(tmp_path / "newer", {"default": newer}))
    files = shared_data / "tinystories"
    texts = {split: read_jsonl(files / f"{split}.jsonl.gz", 300) for split in ("train", "validation")}
    folder = write_data_set(tmp_path / "stories", {"default": texts})
    (folder / "TinyStories-train.txt").write_text("not this one")
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


@pytest.mark.slow
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
