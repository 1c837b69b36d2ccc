"""Models by their names on the hub: whole, at the revision asked for, or one line."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest

from tests.hub.stand_in import StandIn, Trouble
from tests.hub.warm_commands import error_of

pytestmark = pytest.mark.slow

NAME = "someone/some-model"
READ = ("tests.hub.read", "model")


@pytest.fixture
def published(hub: StandIn, tmp_path: Path) -> dict[str, dict[str, str]]:
    """Publish two revisions; returns the SHA-256 of the files of each that are to be read."""
    digests = {}
    for branch in ("main", "v1"):
        folder = tmp_path / branch
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": "bert", "branch": branch}))
        (folder / "model.safetensors").write_bytes(random.Random(branch).randbytes(30_000))
        digests[branch] = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())
        }
        (folder / "pytorch_model.bin").write_bytes(b"never read")
        (folder / "modeling.py").write_text("raise SystemExit('never run')")
        hub.publish("models", NAME, folder, branch=branch)
    return digests


def loaded(done) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_model_is_read_at_its_revision_and_then_of_the_cache(published, hub, run, run_offline) -> None:
    assert loaded(run(*READ, NAME)) == published["main"]
    assert loaded(run(*READ, f"{NAME}@v1")) == published["v1"]
    hub.troubles.append(Trouble(".", status=500))
    for command in (run, run_offline):
        assert loaded(command(*READ, NAME)) == published["main"]
        assert loaded(command(*READ, f"{NAME}@v1")) == published["v1"]
    assert "HF_HUB_OFFLINE" in error_of(run_offline(*READ, f"{NAME}@v2"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("someone/nothing", "Repository Not Found for url"),
        (f"{NAME}@v2", "Revision Not Found for url"),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(published, run, name: str, words: str) -> None:
    line = error_of(run(*READ, name))
    assert f"{name} is no folder, and cannot be loaded from the hub (http://127.0.0.1" in line
    assert words in line
    assert "; name a run, a study, or a folder with a saved model" in line


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("GET /storage/", cut_at=9000, times=2),
        Trouble("/", delay_s=2.0, times=3),
    ],
    ids=lambda trouble: f"{trouble.where} {trouble.status or trouble.delay_s or trouble.cut_at}",
)
def test_a_passing_trouble_changes_no_file(published, hub, run, trouble: Trouble) -> None:
    trouble = Trouble(**vars(trouble))
    hub.troubles.append(trouble)
    assert loaded(run(*READ, NAME)) == published["main"]
    assert trouble.times == 0


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (Trouble("GET /storage/", cut_at=9000), "cannot be reached"),
        (Trouble("GET /api/models/", status=500), "status 500"),
        (Trouble("GET /storage/", status=429, retry_after=0), "status 429"),
    ],
    ids=["breaks off", "500", "429"],
)
def test_a_lasting_trouble_leaves_no_half_of_a_model(
    published, hub, run, run_offline, trouble: Trouble, words: str
) -> None:
    hub.troubles.append(trouble)
    line = error_of(run(*READ, NAME))
    assert words in line
    assert "give the same command again later (what is loaded is kept)" in line
    assert "cannot be loaded from the hub" in error_of(run_offline(*READ, NAME))
    hub.troubles.clear()
    assert loaded(run(*READ, NAME)) == published["main"]
    assert loaded(run_offline(*READ, NAME)) == published["main"]
