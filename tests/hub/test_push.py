"""Pushing to the hub: what lands there, what others load from there, and each trouble as one line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModelForCausalLM

from base.run.folder_names import RunFolder
from ffn_variants import variant_files as files
from ffn_variants.models.loading import load_pretrained
from scores.rows import read_rows
from tests.bare import run_bare
from tests.hub.stand_in import Trouble
from tests.hub.warm_commands import WarmCommands, error_of
from tests.processes import run_command

pytestmark = pytest.mark.slow

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


@pytest.fixture
def push(run: Callable) -> Callable:
    """Push to the repository of these tests; under a licence, unless other flags are given."""
    return lambda path, *flags: run("eval.push", path, "--repo", REPO, *(flags or MIT))


@pytest.fixture
def dry(push: Callable, tmp_path: Path) -> Callable[..., Path]:
    """Write a dry run's folder."""

    def write(run: Path, *flags: str) -> Path:
        done = push(run, *(flags or MIT), "--dry-run", tmp_path / "dry")
        assert done.returncode == 0, done.stderr
        assert "nothing was sent" in done.stdout
        return tmp_path / "dry"

    return write


def test_the_folder_of_a_dry_run_is_what_is_pushed(hub, push, dry, study: Path) -> None:
    expected = content(dry(kan(study)))
    assert hub.requests == []
    done = push(kan(study))
    assert done.returncode == 0, done.stderr
    assert hub.visibility == {REPO: "private"}
    there = content(hub.heads[REPO, "main"])
    there.pop(".gitattributes")
    assert there == expected
    assert f"{REPO}: {hub.endpoint}/{REPO}/commit/" in done.stdout


def content(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_the_card_has_what_the_hub_reads_and_no_place_of_this_machine(dry, study: Path) -> None:
    card = ModelCard.load(dry(kan(study), "--license", "cc-by-4.0") / "README.md")
    assert card.data.license == "cc-by-4.0"
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-generation"
    rows = read_rows(RunFolder(kan(study)).rows_file)
    primary = rows[rows["metric"] == "accuracy"]
    results = {result.metric_name: result.metric_value for result in card.data.eval_results}
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


LOAD = """
import json, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
name = sys.argv[1]
model = AutoModelForCausalLM.from_pretrained(name, trust_remote_code=True).eval()
tokenizer = AutoTokenizer.from_pretrained(name)
ids = tokenizer("Once upon a time", return_tensors="pt")
try:
    AutoModelForCausalLM.from_pretrained(name)
    refusal = ""
except ValueError as error:
    refusal = str(error)
print("\\n" + json.dumps([ids["input_ids"].tolist(), model(**ids).logits.tolist(), refusal]))
"""


def test_somebody_else_loads_from_the_hub_with_consent_alone(
    push, study: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    assert push(kan(study)).returncode == 0
    environment = {**variables, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)}
    ids, logits, refusal = run_bare(LOAD, REPO, home=tmp_path, **environment)
    model = load_pretrained(AutoModelForCausalLM, kan(study) / "model")[0].eval()
    assert torch.equal(model(torch.tensor(ids)).logits, torch.tensor(logits))
    assert "trust_remote_code=True" in refusal


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


def test_a_run_without_scores_is_public_where_that_is_asked_for(hub, push, study: Path) -> None:
    (run,) = (study / "gpt_neo/relu").iterdir()
    done = push(run, *MIT, "--public")
    assert done.returncode == 0, done.stderr
    assert hub.visibility == {REPO: "public"}
    assert "## Scores" not in (hub.heads[REPO, "main"] / "README.md").read_text()
    assert "has no scores, so its card has none" in done.stderr


def test_the_same_command_goes_on_after_a_break_and_sends_nothing_twice(hub, push, study: Path) -> None:
    hub.troubles.append(Trouble("POST /api/models/.*/commit/main", status=403))
    assert "log in (hf auth login) with a token that may write there" in error_of(push(kan(study)))
    assert hub.commits == []
    hub.troubles.clear()
    assert push(kan(study)).returncode == 0
    assert push(kan(study)).returncode == 0
    assert len(hub.commits) == 1
    sent = [request for request in hub.requests if request.startswith("PUT")]
    assert len(sent) == len(set(sent)) == 1


def test_a_model_that_was_pushed_is_read_and_writes_here_without_its_code(
    hub, push, run, study: Path, tmp_path: Path
) -> None:
    assert push(kan(study)).returncode == 0
    done = run("tests.hub.read", "model", REPO)
    assert done.returncode == 0, done.stderr
    own = {path.name for path in (kan(study) / "model").iterdir()} - {"README.md"}
    assert set(json.loads(done.stdout)) == own
    shutil.copytree(hub.heads[REPO, "main"], tmp_path / "model")
    done = run_command("pretrain.generate", tmp_path / "model", "--max-new-tokens", "3")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("own_variants")
def test_a_variant_of_a_file_is_pushed_without_being_run(dry, repository: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text((repository / "examples/xielu.py").read_text())
    done = run_command("pretrain.train", "--ffn", f"{file}:XIELU", *TINY, "--runs-dir", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs/default/gpt_neo/my-xielu").iterdir()
    folder = dry(run)
    assert files.variant_file("my-xielu") is None
    assert {"ffn_my-xielu.py", "own_variant_my_xielu.py"} < set(content(folder))
    text = (folder / "README.md").read_text()
    assert str(tmp_path) not in text
    assert "ffn_file: ffn_my-xielu.py:XIELU" in text
    shutil.copytree(folder, tmp_path / "model")
    model = load_pretrained(AutoModelForCausalLM, run / "model", trust_remote_code=True)[0].eval()
    ids, logits, refusal = run_bare(LOAD, tmp_path / "model", home=tmp_path)
    assert torch.equal(model(torch.tensor(ids)).logits, torch.tensor(logits))
    assert "trust_remote_code=True" in refusal


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (Trouble("POST /api/repos/create", status=401), "log in (hf auth login)"),
        (Trouble("POST /api/models/.*/commit/", status=409), "409"),
        (Trouble("POST /api/models/.*/commit/", status=500), "answers with status 500"),
        (Trouble("PUT /uploads/", status=403), "a token that may write there"),
        (Trouble("POST /api/models/.*/preupload/", status=404), "404"),
    ],
    ids=lambda value: f"{value.where} {value.status}" if isinstance(value, Trouble) else "",
)
def test_each_trouble_is_one_line_and_leaves_no_half_of_a_model(
    hub, push, study, trouble, words: str
) -> None:
    hub.troubles.append(Trouble(**vars(trouble)))
    line = error_of(push(kan(study)))
    assert line.startswith(f"error: cannot push to {REPO}")
    assert words in line
    assert hub.commits == []
    hub.troubles.clear()
    assert push(kan(study)).returncode == 0
    assert (hub.heads[REPO, "main"] / "model.safetensors").is_file()


def test_a_card_that_the_hub_does_not_take_is_told_with_its_reason(hub, push, study) -> None:
    line = error_of(push(kan(study), "--license", "other"))
    assert '"license_name" is required' in line
    assert hub.commits == []


def test_nothing_is_sent_that_only_lies_there(dry, study: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(study, runs)
    for name in ("optimizer.pt", "notes.md", ".DS_Store"):
        (kan(runs) / "model" / name).write_bytes(b"own")
    sent = content(dry(kan(runs)))
    assert b"own" not in sent.values()
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md", "modeling_ffn.py"} < set(sent)


def test_a_hub_that_is_gone_is_one_line(hub, push, study) -> None:
    with hub.gone():
        line = error_of(push(kan(study)))
    assert "cannot be reached" in line
    assert "give the same command again later: what is uploaded is kept" in line


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ({"HF_TOKEN": "hf_reads"}, "a token that may write there"),
        ({"HF_TOKEN": ""}, "log in (hf auth login)"),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE forbids"),
    ],
)
def test_who_may_not_write_is_told(hub, study, variables, variable: dict[str, str], words: str) -> None:
    with WarmCommands(variables | variable) as commands:
        assert words in error_of(commands("eval.push", kan(study), "--repo", REPO))


def test_what_is_damaged_or_of_other_weights_is_not_pushed(push, study: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(study, runs)
    run = RunFolder(kan(runs))
    ledger = json.loads(run.ledger_file.read_text())
    run.ledger_file.unlink()
    assert "evaluate it again" in error_of(push(run.path, "--dry-run", tmp_path / "a"))
    run.ledger_file.write_text(json.dumps(ledger))
    weights = run.model_dir / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "model.safetensors" in error_of(push(run.path, "--dry-run", tmp_path / "a"))
    (run.model_dir / "README.md").unlink()
    run.completion_marker.unlink()
    assert "is not finished" in error_of(push(run.path, "--dry-run", tmp_path / "a"))
    assert not (tmp_path / "a").exists()
