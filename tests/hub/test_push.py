"""Pushing to the hub: what is sent, what others load from it, and each trouble as one line."""

import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import httpx
from transformers import AutoModelForCausalLM

import base.hub
import eval.model_card
from base.errors import UsageError
from base.run.folder_names import RunFolder
from eval.push import main
from ffn_variants import names
from ffn_variants.models.loading import load_pretrained
from scores.rows import read_rows
from tests.bare import run_bare
from tests.processes import run_command

pytestmark = pytest.mark.ci

REPO = "me/kan-model"
MIT = ("--license", "mit")
TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "16", "--model.intermediate-size", "32", "--model.num-hidden-layers", "1"),
    *("--optim.max-steps", "4", "--train.no-torch-compile"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that is scored, and one that is not."""
    runs = tmp_path_factory.mktemp("runs")
    for variant in ("kan", "relu"):
        done = run_command("pretrain.train", "--ffn", variant, "--seed", 1, *TINY, "--runs-dir", runs)
        assert done.returncode == 0, done.stderr
    done = run_command("eval", kan(runs / "default"), "--suites", "embedded-pairs", "--max-pairs", "10")
    assert done.returncode == 0, done.stderr
    return runs / "default"


def kan(study: Path) -> Path:
    (run,) = (study / "gpt_neo/kan").glob("seed1-*")
    return run


class Api:
    """What the client's API is asked for; a repository that refuses raises what a test says."""

    def __init__(self) -> None:
        self.private: dict[str, bool] = {}
        self.sent: dict[str, bytes] = {}
        self.refusal: Exception | None = None

    def create_repo(self, repo: str, *, private: bool, exist_ok: bool) -> None:
        assert exist_ok
        self.private[repo] = private

    def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> Any:
        if self.refusal:
            raise self.refusal
        self.sent = content(folder_path)
        return SimpleNamespace(commit_url=f"https://hub.example/{repo_id}/commit/1")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """Stands in for the client, in a process that may ask the hub."""
    api = Api()
    monkeypatch.setattr(eval.model_card, "HfApi", lambda: api)
    monkeypatch.setattr(base.hub, "is_offline_mode", lambda: False)
    return api


def push(run: Path, *flags: object) -> int:
    """Push to the repository of these tests; under a licence, unless other flags are given."""
    return main([str(run), "--repo", REPO, *map(str, flags or MIT)])


@pytest.fixture
def dry(api: Api, tmp_path: Path) -> Callable[..., Path]:
    """Write a dry run's folder."""

    def write(run: Path, *flags: str) -> Path:
        assert push(run, *(flags or MIT), "--dry-run", tmp_path / "dry") == 0
        assert (api.private, api.sent) == ({}, {})
        return tmp_path / "dry"

    return write


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_folder_of_a_dry_run_is_what_is_pushed(api, dry, study: Path, tmp_path: Path, capsys) -> None:
    """Of what only lies beside the model nothing is."""
    runs = shutil.copytree(study, tmp_path / "runs")
    for name in ("optimizer.pt", "notes.md", ".DS_Store"):
        (kan(runs) / "model" / name).write_bytes(b"own")
    expected = content(dry(kan(runs)))
    assert f"{len(expected)} files for {REPO}; nothing was sent" in capsys.readouterr().out
    assert push(kan(runs)) == 0
    assert api.private == {REPO: True}
    assert api.sent == expected
    assert f"{REPO}: https://hub.example/{REPO}/commit/1" in capsys.readouterr().out
    names = {"model.safetensors", "config.json", "tokenizer.json", "README.md", "modeling_ffn.py"}
    assert names < set(expected)
    assert b"own" not in expected.values()


def test_the_card_has_what_the_hub_reads_and_no_place_of_this_machine(dry, study: Path) -> None:
    card = ModelCard.load(dry(kan(study), "--license", "cc-by-4.0") / "README.md")
    data = vars(card.data)
    assert data["license"] == "cc-by-4.0"
    assert data["library_name"] == "transformers"
    assert data["pipeline_tag"] == "text-generation"
    rows = read_rows(RunFolder(kan(study)).rows_file)
    primary = rows[rows["metric"] == "accuracy"]
    results = {result.metric_name: result.metric_value for result in data["eval_results"]}
    assert len(results) == len(primary) + 1
    assert results["mean of 17 tasks, accuracy"] == pytest.approx(primary["score"].mean(), abs=1e-4)
    for _, row in primary.iterrows():
        assert results[f"{row.task}, accuracy"] == pytest.approx(row.score, abs=1e-4)
    text = str(card)
    assert "Liu et al. 2024" in text
    assert 'pip install torch "transformers' in text
    assert str(study) not in text
    assert "runs_dir" not in text
    assert f"| {primary.iloc[0].task}, accuracy | {primary.iloc[0].score:.1f} |" in text


ASKED = """
import builtins, json
asked = []
builtins.input = lambda text="": asked.append(text) or "n"
{card}
print("\\n" + json.dumps([asked, type(model).__module__.split(".")[0], tokenizer("Once")["input_ids"]]))
"""


def test_the_lines_of_the_card_load_model_and_tokenizer_without_a_question(
    dry, study: Path, tmp_path: Path
) -> None:
    folder = dry(kan(study))
    (card,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    code = ASKED.format(card=card.replace(REPO, str(folder)))
    asked, module, ids = run_bare(code, home=tmp_path)
    assert asked == []
    assert module == "transformers_modules"
    assert len(ids) > 0


def test_a_run_without_scores_is_public_where_that_is_asked_for(api, study: Path, capsys) -> None:
    (run,) = (study / "gpt_neo/relu").iterdir()
    assert push(run, *MIT, "--public") == 0
    assert api.private == {REPO: False}
    assert b"## Scores" not in api.sent["README.md"]
    assert "has no scores, so its card has none" in capsys.readouterr().err


def test_a_model_that_was_pushed_is_read_and_writes_here_without_its_code(hub, run, dry, study) -> None:
    folder = dry(kan(study))
    hub.publish("models", REPO, folder)
    done = run("tests.hub.read", "model", REPO)
    assert done.returncode == 0, done.stderr
    own = {path.name for path in (kan(study) / "model").iterdir()} - {"README.md"}
    assert set(json.loads(done.stdout)) == own
    done = run_command("pretrain.generate", folder, "--max-new-tokens", "3")
    assert done.returncode == 0, done.stderr


LOAD = """
import json, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
name = sys.argv[1]
model = AutoModelForCausalLM.from_pretrained(name, trust_remote_code=True).eval()
ids = AutoTokenizer.from_pretrained(name)("Once upon a time", return_tensors="pt")
try:
    AutoModelForCausalLM.from_pretrained(name)
    refusal = ""
except ValueError as error:
    refusal = str(error)
print("\\n" + json.dumps([ids["input_ids"].tolist(), model(**ids).logits.tolist(), refusal]))
"""


@pytest.mark.usefixtures("own_variants")
def test_a_variant_of_a_file_is_pushed_without_being_run(dry, repository: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text((repository / "examples/xielu.py").read_text())
    done = run_command("pretrain.train", "--ffn", f"{file}:XIELU", *TINY, "--runs-dir", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs/default/gpt_neo/my-xielu").iterdir()
    folder = dry(run)
    assert names.variant_file("my-xielu") is None
    assert {"ffn_my-xielu.py", "own_variant_my_xielu.py"} < set(content(folder))
    text = (folder / "README.md").read_text()
    assert str(tmp_path) not in text
    assert "ffn_file: ffn_my-xielu.py:XIELU" in text
    shutil.copytree(folder, tmp_path / "model")
    model = load_pretrained(AutoModelForCausalLM, run / "model", trust_remote_code=True)[0].eval()
    ids, logits, refusal = run_bare(LOAD, tmp_path / "model", home=tmp_path)
    assert torch.equal(model(torch.tensor(ids)).logits, torch.tensor(logits))
    assert "trust_remote_code=True" in refusal


def answer(status: int) -> HfHubHTTPError:
    """What the client raises for an answer."""
    request = httpx.Request("POST", "https://hub.example/api")
    return HfHubHTTPError(f"An answer {status}.", response=httpx.Response(status, request=request))


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (answer(401), "An answer 401; log in (hf auth login) with a token that may write there"),
        (answer(400), "An answer 400; log in"),
        (answer(500), "answers with status 500; give the same command again later: what is uploaded is kept"),
        (httpx.ConnectError("no name"), "cannot be reached (no name); give the same command again later"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "/x: No space left on device; "),
    ],
    ids=str,
)
def test_each_trouble_is_one_line(api: Api, study: Path, refusal: Exception, words: str) -> None:
    api.refusal = refusal
    with pytest.raises(UsageError, match=re.escape(words)) as told:
        push(kan(study))
    assert str(told.value).startswith((f"cannot push to {REPO}", "/x"))


def test_who_forbids_to_ask_the_hub_is_told_of_the_dry_run(api, study: Path, monkeypatch) -> None:
    monkeypatch.setattr(base.hub, "is_offline_mode", lambda: True)
    api.refusal = httpx.ConnectError("offline")
    with pytest.raises(UsageError, match=r"HF_HUB_OFFLINE forbids .* use --dry-run FOLDER"):
        push(kan(study))


def test_what_is_damaged_or_of_other_weights_is_not_pushed(study: Path, tmp_path: Path) -> None:
    run = RunFolder(kan(shutil.copytree(study, tmp_path / "runs")))

    def assert_refused(words: str) -> None:
        with pytest.raises(UsageError, match=words):
            push(run.path, "--dry-run", tmp_path / "a")

    ledger = run.ledger_file.read_bytes()
    run.ledger_file.unlink()
    assert_refused("evaluate it again")
    run.ledger_file.write_bytes(ledger)
    weights = run.model_dir / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert_refused(r"model\.safetensors")
    (run.model_dir / "README.md").unlink()
    run.completion_marker.unlink()
    assert_refused("is not finished")
    assert not (tmp_path / "a").exists()
