"""Splits of data sets through whatever trouble a hub has: the same rows, or one line that says what to do."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub.published import write_converted, write_data_set
from tests.hub.stand_in import StandIn, Trouble
from tests.hub.warm_commands import error_of

NAME = "someone/some-texts"
READ = ("tests.hub.read", "split", NAME, "train")


def rows(tag: str, count: int = 400) -> list[dict]:
    """Rows that take some 20 KB, as they do not compress."""
    chance = random.Random(tag)
    return [{"text": f"{tag} {chance.randbytes(25).hex()}", "label": i % 2} for i in range(count)]


@pytest.fixture
def published(hub: StandIn, tmp_path: Path) -> str:
    """Publish two configurations; returns the commit."""
    content = {name: {"train": rows(name), "test": rows(f"{name} test")} for name in ("one", "two")}
    return hub.publish("datasets", NAME, write_data_set(tmp_path / "repository", content))


def loaded(done: subprocess.CompletedProcess[str]) -> list[dict]:
    """What a command read."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.ci
def test_what_passes_is_sat_through_and_a_commit_in_the_cache_needs_no_hub(
    hub: StandIn, variables: dict[str, str], tmp_path: Path
) -> None:
    folder = write_data_set(tmp_path / "repository", {"default": {"train": rows("all")}})
    commit = hub.publish("datasets", NAME, folder)
    hub.troubles += [
        Trouble("GET /api/datasets/.*/tree/", status=429, retry_after=0, times=1),
        Trouble("GET /storage/", cut_at=5000, times=1),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"} | variables
    code = (
        "import json; from base.hub_datasets import load_split; "
        f"print(json.dumps(load_split({NAME!r}, 'train', 'x', revision={commit!r}).to_list()))"
    )
    for num_requests in (None, 0):
        hub.requests.clear()
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert loaded(done) == rows("all")
        assert num_requests in (None, len(hub.requests))
    assert all(trouble.times == 0 for trouble in hub.troubles)


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("HEAD /datasets/.*parquet", status=429, retry_after=1, times=1),
        Trouble("GET /api/datasets/.*/tree/", status=503, times=2),
        Trouble("GET /storage/", status=429, retry_after=1, times=2),
        Trouble("GET /storage/", cut_at=9000, times=2),
        Trouble("HEAD /datasets/|GET /storage/", delay_s=3.0, times=3),
    ],
    ids=lambda trouble: f"{trouble.where} {trouble.status or trouble.delay_s or trouble.cut_at}",
)
def test_a_passing_trouble_changes_no_row(published: str, hub: StandIn, run, trouble: Trouble) -> None:
    for name in ("one", "two"):  # the second with another configuration in the cache
        hub.troubles[:] = [Trouble(**vars(trouble))]
        assert loaded(run(*READ, name)) == rows(name)
        assert hub.troubles[0].times < trouble.times


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (Trouble("GET /storage/", cut_at=9000), "cannot be reached"),
        (Trouble("GET /storage/", status=500), "answers with status 500"),
        (Trouble(".", status=503), "answers with status 503"),
        (Trouble(".", status=429, retry_after=0), "answers with status 429"),
    ],
    ids=["breaks off", "500 of files", "503", "429"],
)
def test_a_lasting_trouble_is_one_line_and_leaves_nothing_that_is_believed(
    published: str, hub: StandIn, run, run_offline, trouble: Trouble, words: str
) -> None:
    hub.troubles.append(trouble)
    line = error_of(run(*READ, "one"))
    assert f"cannot load {NAME} (one) from the hub: " in line
    assert hub.endpoint in line
    assert words in line
    assert "give the same command again later (what is loaded is kept), or name a folder" in line
    assert "the cache" in error_of(run_offline(*READ, "one"))
    hub.troubles.clear()
    assert loaded(run(*READ, "one")) == rows("one")
    assert loaded(run_offline(*READ, "one")) == rows("one")


@pytest.mark.slow
def test_no_other_revision_stands_in_for_the_one_asked_for(
    published: str, hub: StandIn, run, run_offline, tmp_path: Path
) -> None:
    newer = write_data_set(tmp_path / "newer", {"one": {"train": rows("newer")}})
    commit = hub.publish("datasets", NAME, newer, branch="next")
    assert loaded(run(*READ, "one")) == rows("one")
    assert loaded(run(*READ, "one", "next")) == rows("newer")
    for known, expected in {"": "one", published: "one", "next": "newer", commit: "newer"}.items():
        assert loaded(run_offline(*READ, "one", known)) == rows(expected)
    for unknown in ("f" * 40, "v1.0"):
        line = error_of(run_offline(*READ, "one", unknown))
        assert f"{NAME} (one) at {unknown} from the hub: the cache" in line
        assert "HF_HUB_OFFLINE" in line
    hub.troubles.append(Trouble(".", status=500))
    hub.requests.clear()
    assert loaded(run(*READ, "one", published)) == rows("one")  # older, and a commit: nobody is asked
    assert hub.requests == []
    assert loaded(run(*READ, "one")) == rows("one")  # the newest of the branch main, after a while
    assert hub.requests


@pytest.mark.slow
def test_a_folder_of_a_branch_is_read_again_from_the_cache(hub: StandIn, run, run_offline, tmp_path) -> None:
    """As MultiWOZ is: a branch with a stroke in its name, and one of its folders."""
    rows_of = {
        place: {"train": rows(place), "validation": rows("v"), "test": rows("t")} for place in ("a", "b")
    }
    folder = write_converted(tmp_path / "converted", rows_of)
    hub.publish("datasets", NAME, folder, branch="refs/convert/parquet")
    code = ("tests.hub.read", "split", NAME, "train", "", "refs/convert/parquet", "b")
    assert loaded(run(*code)) == rows("b")
    assert loaded(run_offline(*code)) == rows("b")
    assert "the cache" in error_of(run_offline(*code[:-1], "a"))
    assert "the cache" in error_of(run_offline(*code[:-1]))  # all of it
