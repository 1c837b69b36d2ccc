"""A variant in the user's own file, as commands meet it: the run, its copy, and the model elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from base.records import peek_record
from ffn_variants import variant_files as files
from ffn_variants.models.loading import load_pretrained
from tests.processes import run_command

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "16", "--model.intermediate-size", "32", "--model.num-hidden-layers", "1"),
    *("--optim.max-steps", "4", "--train.save-steps", "2", "--train.no-torch-compile"),
]


@pytest.fixture
def mine(repository, tmp_path) -> Path:
    """A user's file."""
    path = tmp_path / "mine.py"
    path.write_text((repository / "examples/xielu.py").read_text())
    return path


@pytest.fixture
def train(tmp_path):
    """Run the training command, with or without a file of values."""

    def command(*args: object):
        return run_command("pretrain.train", *args, *TINY, "--runs-dir", tmp_path / "runs")

    return command


@pytest.fixture
def run(train, mine, tmp_path) -> Path:
    """The folder of a finished run with that file."""
    done = train("--ffn", f"{mine}:XIELU")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs/default/gpt_neo/my-xielu").iterdir()
    return path


def test_the_run_keeps_the_file_and_its_fingerprint(run, mine):
    assert (run / "variant.py").read_bytes() == mine.read_bytes()
    config = (run / "config.yaml").read_text()
    assert "\n  ffn: my-xielu\n" in config
    assert f"\n  ffn_file: {mine}:XIELU\n" in config
    completion = peek_record(run / "COMPLETED")
    assert {"model/ffn_my-xielu.py", "model/modeling_ffn.py"} < set(completion["files"])
    model = json.loads((run / "model/config.json").read_text())
    source = completion["variant_source"]
    assert len(source) == 12
    assert model["ffn_source"] == peek_record(run / "provenance.json")["variant_source"] == source


@pytest.mark.ci
def test_the_same_command_finds_the_run_wherever_the_file_lies(run, train, mine, tmp_path):
    for name in ("moved.py", "again/other.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        mine = mine.rename(path)
        done = train("--ffn", f"{mine}:XIELU")
        assert "is finished; nothing to do" in done.stdout, done.stderr
    mine.unlink()
    gone = train("--ffn", f"{mine}:XIELU")
    assert gone.returncode == 2
    assert gone.stderr == (
        f"error: {mine}: no such file; give path/to/mine.py:SPEC, or the copy of it in a run's folder, "
        "RUN/variant.py:SPEC\n"
    )
    assert "nothing to do" in train("--ffn", f"{run}/variant.py:XIELU").stdout
    refused = run_command("pretrain.train", run / "config.yaml")
    assert refused.returncode == 2
    assert refused.stderr == (
        f"error: {run}/config.yaml: its FFN variant is in {tmp_path}/mine.py:XIELU, which is code; read "
        f"that file, then consent to run it: type --ffn {run}/variant.py:XIELU\n"
    )
    typed = run_command("pretrain.train", run / "config.yaml", "--ffn", f"{run}/variant.py:XIELU")
    assert "nothing to do" in typed.stdout, typed.stderr


def test_an_edited_formula_is_another_run_and_an_edited_comment_is_not(run, train, mine):
    text = mine.read_text()
    mine.write_text(text + "# a thought\n")
    assert "nothing to do" in train("--ffn", f"{mine}:XIELU").stdout
    mine.write_text(text + "HALF = 0.5\n")
    done = train("--ffn", f"{mine}:XIELU")
    assert "nothing to do" not in done.stdout, done.stderr
    (other,) = set(run.parent.iterdir()) - {run}
    assert (other / "variant.py").read_text() == mine.read_text() != (run / "variant.py").read_text()


def test_a_lost_or_damaged_copy_is_made_again(run, train, mine):
    for text in (None, "raise SystemExit\n"):
        (run / "variant.py").unlink()
        if text:
            (run / "variant.py").write_text(text)
        before = (run / "model/model.safetensors").stat().st_mtime_ns
        done = train("--ffn", f"{mine}:XIELU")
        assert done.returncode == 0, done.stderr
        assert (run / "variant.py").read_bytes() == mine.read_bytes()
        assert (run / "model/model.safetensors").stat().st_mtime_ns == before


def test_the_card_says_what_to_read_first_and_its_code_works(run, own_variants):
    card = (run / "model/README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0].replace("path/to/this/folder", f"{run}/model")
    assert "the feed-forward variant is ffn_my-xielu.py in this folder:\n# read it first" in code
    assert "ffn_file" not in card  # whose place is one of this machine
    shown: dict = {}
    exec(code, shown)
    assert shown["model"].config.ffn == "my-xielu"


ELSEWHERE = """
import json, sys
folder, imports, out = sys.argv[1:]
if imports == "imported":
    import ffn_variants
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
ids = tokenizer("Once upon a time", return_tensors="pt").input_ids
if imports == "pipeline first":
    writer = pipeline("text-generation", folder, trust_remote_code=True)
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
writer = pipeline("text-generation", folder, trust_remote_code=True)
text = writer("Once upon a time", max_new_tokens=4, do_sample=False)[0]["generated_text"]
said = {"ids": ids.tolist(), "logits": model(ids).logits.tolist(), "text": text}
open(out, "w").write(json.dumps(said))
"""


@pytest.mark.parametrize(
    "imports",
    [
        "not imported",
        pytest.param("imported", marks=pytest.mark.slow),
        pytest.param("pipeline first", marks=pytest.mark.slow),
    ],
)
@pytest.mark.ci
def test_the_model_is_the_same_in_another_process(run, imports, tmp_path, own_variants):
    model, _ = load_pretrained(AutoModelForCausalLM, run / "model", trust_remote_code=True)
    assert files.variant_file("my-xielu").path == run / "model/ffn_my-xielu.py"
    script, out = tmp_path / "elsewhere.py", tmp_path / "out.json"
    script.write_text(ELSEWHERE)
    done = subprocess.run(
        [sys.executable, script, run / "model", imports, out],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "hf"), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(out.read_text())
    logits = model.eval()(torch.tensor(said["ids"])).logits
    assert torch.equal(torch.tensor(said["logits"]), logits)
    assert said["text"].startswith("Once upon a time")
